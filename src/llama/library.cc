// The library has one log callback and one abort callback per process. Both are set once and look at
// thread-local or guarded state to decide what to do, so that nothing has to be installed and removed around
// calls.
#include "llama/library.h"

#include <ggml-backend.h>
#include <ggml.h>
#include <llama.h>

#include <algorithm>
#include <cctype>
#include <deque>
#include <mutex>
#include <stdexcept>

#include "base/log.h"
#include "base/utf8.h"
#include "llama/llama.h"

namespace gezel::llama {
namespace {

thread_local bool quiet = false;
thread_local bool asserts_throw = false;

// Lines arrive in pieces: a piece without a newline is continued by later ones (level CONT).
struct LogState {
  std::mutex mutex;
  std::string partial;
  ggml_log_level level = GGML_LOG_LEVEL_INFO;
  int captures = 0;
  std::deque<std::string> lines;
};

LogState& log_state() {
  static LogState state;
  return state;
}

constexpr std::size_t kMaxLineBytes = 2000;

void emit_line(LogState& state, std::string line, ggml_log_level level) {
  // Banners of asterisks and empty lines say nothing in a log.
  const auto words =
      std::string_view(line).substr(line.find(": ") == std::string::npos ? 0 : line.find(": "));
  if (std::ranges::none_of(words, [](unsigned char c) { return std::isalnum(c) != 0 || c >= 0x80; })) return;
  while (line.back() == ' ') line.pop_back();
  line = sanitize_utf8(line);
  const bool serious = level == GGML_LOG_LEVEL_ERROR || level == GGML_LOG_LEVEL_WARN;
  if (serious && state.captures > 0) {
    state.lines.push_back(line);
    if (state.lines.size() > LogCapture::kMaxLines) state.lines.pop_front();
  }
  const bool loud = level == GGML_LOG_LEVEL_ERROR || (level == GGML_LOG_LEVEL_WARN && !quiet);
  log(loud ? LogLevel::warn : LogLevel::debug, line, {{"source", "libllama"}});
}

void on_log(ggml_log_level level, const char* text, void* /*user*/) {
  LogState& state = log_state();
  const std::scoped_lock lock(state.mutex);
  // A new line starts a new message even when the one before was never ended.
  if (level != GGML_LOG_LEVEL_CONT) {
    if (!state.partial.empty()) emit_line(state, std::exchange(state.partial, {}), state.level);
    state.level = level;
  }
  for (std::string_view rest = text; !rest.empty();) {
    const auto end = rest.find('\n');
    state.partial += rest.substr(0, end);
    if (end == std::string_view::npos && state.partial.size() < kMaxLineBytes) return;
    emit_line(state, std::exchange(state.partial, {}), state.level);
    if (end == std::string_view::npos) return;
    rest.remove_prefix(end + 1);
  }
}

// "/build/place/src/x.cpp:12: GGML_ASSERT(y) failed" without the place.
std::string_view without_folder(std::string_view message) {
  const auto colon = message.find(':');
  const auto slash = message.substr(0, colon).rfind('/');
  return slash == std::string_view::npos ? message : message.substr(slash + 1);
}

void on_abort(const char* message) {
  const std::string text(without_folder(message));
  if (asserts_throw) throw std::runtime_error(text);
  log_error("the inference library gave up", {{"source", "libllama"}, {"check", text}});
}

ggml_backend_buffer_type_t* extra_buffer_type_list() {
  auto* device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  if (device == nullptr) return nullptr;
  auto* get = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(ggml_backend_reg_get_proc_address(
      ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts"));
  return get == nullptr ? nullptr : get(device);
}

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

void initialize() {
  static std::once_flag once;
  std::call_once(once, [] {
    llama_log_set(on_log, nullptr);  // ggml's own log follows
    ggml_set_abort_callback(on_abort);
    llama_backend_init();
  });
}

std::string build_info() {
  return fmt::format("libllama {} (ggml {}, {})", llama_version(), ggml_version(), ggml_commit());
}

std::vector<std::string> backends() {
  initialize();
  std::vector<std::string> names;
  for (std::size_t i = 0; i < ggml_backend_dev_count(); ++i) {
    auto* device = ggml_backend_dev_get(i);
    std::string line = fmt::format("{}:", ggml_backend_dev_name(device));
    auto* get_features = reinterpret_cast<ggml_backend_get_features_t>(
        ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device), "ggml_backend_get_features"));
    if (get_features != nullptr) {
      for (const auto* feature = get_features(ggml_backend_dev_backend_reg(device)); feature->name != nullptr;
           ++feature) {
        if (std::string_view(feature->value) == "1") line += fmt::format(" {}", feature->name);
      }
    } else {
      line += fmt::format(" {}", ggml_backend_dev_description(device));
    }
    names.push_back(std::move(line));
  }
  return names;
}

LogCapture::LogCapture() {
  LogState& state = log_state();
  const std::scoped_lock lock(state.mutex);
  ++state.captures;
  state.lines.clear();
}

LogCapture::~LogCapture() {
  LogState& state = log_state();
  const std::scoped_lock lock(state.mutex);
  --state.captures;
  state.lines.clear();
}

std::vector<std::string> LogCapture::lines() const {
  LogState& state = log_state();
  const std::scoped_lock lock(state.mutex);
  return {state.lines.begin(), state.lines.end()};
}

QuietScope::QuietScope() : before_(std::exchange(quiet, true)) {}
QuietScope::~QuietScope() {
  quiet = before_;
}

AssertsThrow::AssertsThrow() {
  asserts_throw = true;
}
AssertsThrow::~AssertsThrow() {
  asserts_throw = false;
}

// The library hands out its own null-terminated list and reads it again at every load. Leaving entries out is
// the only way to refuse one layout and keep the others: the load parameters know all or none, and the
// override table, asked for plain "CPU", goes through the same list. Whether it worked is checked, not
// assumed.
BufferTypeFilter::BufferTypeFilter(const std::vector<std::string>& excluded) {
  auto** list = extra_buffer_type_list();
  if (list == nullptr) return;
  auto** end = list;
  bool found = false;
  for (; *end != nullptr; ++end) found = found || contains(excluded, ggml_backend_buft_name(*end));
  if (!found) return;
  list_ = list;
  saved_.assign(list, end + 1);
  auto** out = list;
  for (auto* type : saved_) {
    if (type == nullptr || !contains(excluded, ggml_backend_buft_name(type))) *out++ = type;
  }
  complete_ =
      std::ranges::none_of(extra_buffer_types(), [&](const auto& name) { return contains(excluded, name); });
}

BufferTypeFilter::~BufferTypeFilter() {
  if (list_ != nullptr) std::ranges::copy(saved_, list_);
}

std::vector<std::string> extra_buffer_types() {
  std::vector<std::string> names;
  for (auto** type = extra_buffer_type_list(); type != nullptr && *type != nullptr; ++type) {
    names.emplace_back(ggml_backend_buft_name(*type));
  }
  return names;
}

}  // namespace gezel::llama
