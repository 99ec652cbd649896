#include "capacity/engine_args.h"

#include <fmt/format.h>

#include <charconv>

#include "capacity/arithmetic.h"
#include "capacity/threads.h"

namespace gezel::capacity {
namespace {

constexpr int kDefaultCacheReuse = 256;

template <class T>
std::optional<T> first(const std::optional<T>& a, const std::optional<T>& b) {
  return a ? a : b;
}

class Arguments {
 public:
  void flag(std::string name) { list_.push_back(std::move(name)); }
  void pair(std::string name, std::string value) {
    list_.push_back(std::move(name));
    list_.push_back(std::move(value));
  }
  template <class T>
  void number(std::string name, T value) {
    pair(std::move(name), std::to_string(value));
  }
  template <class T>
  void number(std::string name, const std::optional<T>& value) {
    if (value) number(std::move(name), *value);
  }
  void append(const std::vector<std::string>& more) { list_.insert(list_.end(), more.begin(), more.end()); }
  std::vector<std::string> take() { return std::move(list_); }

 private:
  std::vector<std::string> list_;
};

// What holds after all layers were asked.
struct Placement {
  std::optional<int> gpu_layers;
  bool cpu_moe = false;
  int n_cpu_moe = 0, n_cpu_ffn = 0;
};

Placement placement(const EngineArgsInput& input) {
  Placement out;
  out.gpu_layers =
      first(first(input.config.n_gpu_layers, input.catalog.n_gpu_layers), input.planned.gpu_layers);
  const auto explicit_moe = first(input.config.cpu_moe, input.catalog.cpu_moe);
  const auto explicit_n = first(input.config.n_cpu_moe, input.catalog.n_cpu_moe);
  out.cpu_moe = explicit_moe.value_or(input.planned.cpu_moe);
  if (!out.cpu_moe) {
    // Who says that experts stay on the GPU does not want the planner's split either.
    const bool planner_may = explicit_moe.value_or(true);
    out.n_cpu_moe = explicit_n.value_or(planner_may ? input.planned.n_cpu_moe.value_or(0) : 0);
  }
  if (input.dense_ffn) out.n_cpu_ffn = first(input.config.n_cpu_ffn, input.catalog.n_cpu_ffn).value_or(0);
  return out;
}

void add_flash(Arguments& arguments, const EngineArgsInput& input) {
  const auto setting = first(input.config.flash, input.catalog.flash);
  if (setting) {
    arguments.pair("--flash-attn", *setting == FlashSetting::on    ? "on"
                                   : *setting == FlashSetting::off ? "off"
                                                                   : "auto");
  } else if (input.kv_type != KvType::f16) {
    arguments.pair("--flash-attn", "on");
  }
}

void add_extra(Arguments& arguments, const ExtraArgs& extra) {
  for (const auto& [key, value] : extra) {
    const std::string name = key.starts_with('-') ? key : "--" + key;
    if (const bool* on = std::get_if<bool>(&value)) {
      if (*on) arguments.flag(name);
    } else {
      arguments.pair(name, std::get<std::string>(value));
    }
  }
}

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

}  // namespace

std::optional<FlashSetting> flash_setting(const std::variant<bool, std::string>& value) {
  if (const bool* on = std::get_if<bool>(&value)) return *on ? std::optional(FlashSetting::on) : std::nullopt;
  const std::string& word = std::get<std::string>(value);
  if (word == "on") return FlashSetting::on;
  if (word == "off") return FlashSetting::off;
  if (word == "auto") return FlashSetting::automatic;
  return std::nullopt;
}

bool own_threads(const ExtraArgs& extra) {
  return std::ranges::any_of(extra, [](const auto& argument) {
    const auto at = argument.first.find_first_not_of('-');
    const std::string name = at == std::string::npos ? "" : argument.first.substr(at);
    const bool* flag = std::get_if<bool>(&argument.second);
    return (name == "threads" || name == "t") && !(flag && !*flag);
  });
}

bool gpu_resident(const EngineArgsInput& input) {
  const Placement where = placement(input);
  const bool all_layers = where.gpu_layers ? *where.gpu_layers == kAllLayers
                                           : plus(input.resident, input.kv) <= input.fast_budget;
  return input.gpu_backend && all_layers && !where.cpu_moe && where.n_cpu_moe <= 0 && where.n_cpu_ffn <= 0 &&
         !own_threads(input.extra);
}

std::vector<std::string> tuning_arguments(const EngineArgsInput& input) {
  const EngineTuning &config = input.config, &catalog = input.catalog;
  const Placement where = placement(input);
  Arguments out;
  if (where.gpu_layers)
    out.pair("--n-gpu-layers", *where.gpu_layers == kAllLayers ? "all" : std::to_string(*where.gpu_layers));
  if (where.cpu_moe) out.flag("--cpu-moe");
  if (where.n_cpu_moe > 0) out.number("--n-cpu-moe", where.n_cpu_moe);
  if (where.n_cpu_ffn > 0) out.number("--n-cpu-ffn", where.n_cpu_ffn);
  add_flash(out, input);
  const int reuse = first(config.cache_reuse, catalog.cache_reuse).value_or(kDefaultCacheReuse);
  if (reuse > 0) out.number("--cache-reuse", reuse);
  if (input.swa_full) out.flag("--swa-full");
  out.number("--threads", plan_threads({.configured = config.threads,
                                        .per_model = catalog.threads,
                                        .gpu_resident = gpu_resident(input),
                                        .available_cpus = input.available_cpus,
                                        .extra_args_own_threads = own_threads(input.extra),
                                        .container_limit = input.container_limit}));
  out.number("--batch-size", first(config.batch, catalog.batch));
  out.number("--ubatch-size", first(config.ubatch, catalog.ubatch));
  if (catalog.chat_template) out.pair("--chat-template", *catalog.chat_template);
  if (!input.draft.type.empty()) {
    out.pair("--spec-type", input.draft.type);
    if (!input.draft.model_path.empty()) out.pair("--spec-draft-model", input.draft.model_path);
    out.number("--spec-draft-n-max", input.draft.n_max);
  }
  if (const std::string format = trimmed(input.reasoning_format); !format.empty())
    out.pair("--reasoning-format", format);
  if (input.reasoning_preserve) {
    out.flag("--reasoning-preserve");
  } else if (input.build_lists_preserve) {
    out.flag("--no-reasoning-preserve");
  }
  add_extra(out, input.extra);
  return out.take();
}

std::vector<Note> tuning_notes(const EngineArgsInput& input) {
  std::vector<Note> notes;
  if (first(input.config.n_cpu_ffn, input.catalog.n_cpu_ffn).value_or(0) > 0 && !input.dense_ffn) {
    notes.push_back({NoteLevel::warn,
                     "Dense feed-forward layers cannot be kept in main memory: the model has "
                     "none."});
  }
  return notes;
}

std::vector<std::string> server_arguments(const ServerArgsInput& input) {
  Arguments out;
  out.pair("--model", input.model);
  out.pair("--host", "127.0.0.1");
  out.number("--port", input.port);
  out.flag("--jinja");
  out.number("--ctx-size", input.context * input.slots);
  out.number("--parallel", input.slots);
  out.pair("--slot-save-path", input.slot_save_path);
  const std::string type(kv_type_name(input.tuning.kv_type));
  out.pair("--cache-type-k", type);
  out.pair("--cache-type-v", type);
  if (input.prompt_cache) out.number("--cache-ram", *input.prompt_cache / kMiB);
  if (input.mlock) {
    if (input.load_mode_flag) {
      out.pair("--load-mode", "mlock");
    } else {
      out.flag("--mlock");
    }
  }
  out.append(tuning_arguments(input.tuning));
  if (!input.projector.empty()) out.pair("--mmproj", input.projector);
  out.number("--reasoning-budget", input.reasoning_budget);
  return out.take();
}

Result<std::optional<int>> parse_reasoning_budget(const std::string& text) {
  if (text.empty()) return std::optional<int>();
  int tokens = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), tokens);
  if (error != std::errc{} || end != text.data() + text.size() || tokens <= 0) {
    return fail(ErrorKind::invalid, "invalid-request",
                fmt::format("GEZEL_LLAMA_REASONING_BUDGET_TOKENS is \"{}\"; a whole number from 1 to {} is "
                            "possible",
                            text.substr(0, 40), std::numeric_limits<int>::max()),
                "GEZEL_LLAMA_REASONING_BUDGET_TOKENS");
  }
  return std::optional(tokens);
}

}  // namespace gezel::capacity
