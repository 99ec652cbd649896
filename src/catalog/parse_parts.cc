#include "catalog/parse_parts.h"

#include <fmt/format.h>

#include <limits>
#include <set>

#include "catalog/grammar.h"

namespace gezel::catalog {
namespace {

constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
constexpr int kMaxPixels = 65536;
constexpr double kMaxNumber = 1e15;
constexpr std::string_view kShaRight = "64 hexadecimal digits";
constexpr std::string_view kPathRight =
    "a relative path of 1 to 1024 characters without backslash, control character, empty, '.' or '..' "
    "segment";

bool is_semver(std::string_view text) {
  return SemVer::parse(text).has_value();
}
bool is_https(std::string_view text) {
  return is_web_url(text);
}

PinnedFile read_file_pin(const Fields& in, std::string_view name_field) {
  PinnedFile out;
  out.name = in.text(name_field, true, &is_contained_path, kPathRight);
  out.sha256 = lowered(in.text("sha256", true, &is_sha256, kShaRight));
  out.size_bytes = in.size("sizeBytes");
  return out;
}

void unique_names(const Fields& in, const std::vector<PinnedFile>& files, std::string_view field,
                  bool flattened) {
  std::set<std::string> seen;
  for (const auto& file : files) {
    // Compared as the strictest file system would.
    const std::string name = lowered(flattened ? base_name(file.name) : file.name);
    if (!file.name.empty() && !seen.insert(name).second)
      in.complain(in.field(field), fmt::format("names \"{}\" twice; each name must be there once", name));
  }
}

std::vector<std::string> read_mirrors(const Fields& in) {
  auto out = in.texts("mirrors");
  for (const auto& mirror : out) {
    if (!is_web_url(mirror)) in.complain(in.field("mirrors"), "must be a list of https addresses");
  }
  return out;
}

GgufSource read_gguf(const Fields& in, bool companions) {
  GgufSource out;
  out.repository = in.text("huggingfaceRepo", true, &is_repository, "a repository such as \"org/name\"");
  out.revision = in.text("revision", false, &is_revision, "a commit, branch or tag");
  out.size_bytes = in.size("approxSizeBytes");
  out.resident_bytes = in.has("residentBytes") ? std::optional(in.size("residentBytes")) : std::nullopt;
  out.quantization = in.text("quantization");
  out.mirrors = read_mirrors(in);
  const bool single = in.has("filename"), split = in.has("shards");
  if (single == split) {
    in.complain(in.field("filename"), single
                                          ? "and shards are both there; exactly one of them must be"
                                          : "and shards are both missing; exactly one of them must be there");
  } else if (single) {
    out.files.push_back({in.text("filename", true, &is_contained_path, kPathRight),
                         lowered(in.text("sha256", true, &is_sha256, kShaRight)), out.size_bytes});
  } else {
    in.each("shards", [&](const Fields& shard) { out.files.push_back(read_file_pin(shard, "name")); });
    if (out.files.size() < 2) in.complain(in.field("shards"), "must list at least 2 files");
    unique_names(in, out.files, "shards", true);
  }
  if (!companions) return out;
  if (const auto file = in.object("mmproj")) out.projector = read_file_pin(*file, "filename");
  if (const auto file = in.object("draftModel")) out.draft = read_file_pin(*file, "filename");
  // Everything lands in one folder.
  auto all = out.files;
  if (out.projector) all.push_back(*out.projector);
  if (out.draft) all.push_back(*out.draft);
  if (all.size() > out.files.size()) unique_names(in, all, "filename", true);
  return out;
}

MlxSource read_mlx(const Fields& in) {
  MlxSource out;
  out.repository = in.text("huggingfaceRepo", true, &is_repository, "a repository such as \"org/name\"");
  out.revision = in.text("revision", false, &is_revision, "a commit, branch or tag");
  out.folder = in.text("subdir", false, &is_contained_path, kPathRight);
  in.each("files", [&](const Fields& file) { out.files.push_back(read_file_pin(file, "name")); });
  if (out.files.empty()) in.missing("files", "a list of at least one file");
  unique_names(in, out.files, "files", false);
  out.size_bytes = in.size("approxSizeBytes");
  out.resident_bytes = in.has("residentBytes") ? std::optional(in.size("residentBytes")) : std::nullopt;
  out.quantization = in.text("quantization");
  out.chat_template = in.text("chatTemplate");
  out.mirrors = read_mirrors(in);
  out.disabled_reason = in.text("disabledReason");
  return out;
}

Ds4Source read_ds4(const Fields& in) {
  Ds4Source out;
  out.gguf = read_gguf(in, false);
  out.kv_bytes_per_token = in.number("kvBytesPerToken", 0, kMaxNumber);
  out.resident_context_tokens = in.integer("residentCtxTokens", 1, kAny).value_or(0);
  out.expert_cache_bytes = in.size("cacheExpertsBytes", false);
  out.ssd_streaming = in.boolean("ssdStreaming").value_or(false);
  out.max_launch_context = in.integer("maxLaunchCtx", 1, kAny).value_or(0);
  return out;
}

MediaFile read_media_file(const Fields& in) {
  MediaFile out;
  out.url = in.text("downloadUrl", true, &is_https, "an https address");
  out.sha256 = lowered(in.text("sha256", true, &is_sha256, kShaRight));
  out.size_bytes = in.size("approxSizeBytes");
  return out;
}

MediaSource read_media(const Fields& in) {
  MediaSource out;
  out.files.push_back(read_media_file(in));
  out.quantization = in.text("quantization");
  std::set<std::string> roles;
  in.each("auxiliaryFiles", [&](const Fields& file) {
    MediaFile next = read_media_file(file);
    next.role = file.one_of(
        "role", {"vae", "clip_l", "clip_g", "t5xxl", "llm", "llm_vision", "clip_vision", "taesd"}, true);
    if (!next.role.empty() && !roles.insert(next.role).second)
      file.wrong("role", "a role that no other file has");
    out.files.push_back(std::move(next));
  });
  return out;
}

std::optional<PixelRange> read_range(const Fields& in, std::string_view name) {
  const auto range = in.object(name);
  if (!range) return std::nullopt;
  PixelRange out;
  for (const auto& [field, number] : {std::pair{"min", &out.min}, std::pair{"max", &out.max}}) {
    if (!range->has(field)) range->missing(field, "a number of pixels");
    *number = static_cast<int>(range->integer(field, 1, kMaxPixels).value_or(0));
  }
  if (out.min > out.max) range->wrong("min", "at most max");
  return out;
}

RenderHints read_render(const Fields& in) {
  RenderHints out;
  if (const auto steps = in.integer("steps", 1, 10000)) out.steps = static_cast<int>(*steps);
  out.cfg_scale = in.number("cfgScale", 0, 1000);
  out.flow_shift = in.number("flowShift", -1000, 1000);
  out.distilled_guidance = in.number("distilledGuidance", 0, 1000);
  out.sample_method = in.text("sampleMethod");
  out.scheduler = in.text("scheduler");
  return out;
}

}  // namespace

ChatFacts read_chat_facts(const Fields& in) {
  ChatFacts out;
  out.parameter_size = in.text("parameterSize", true);
  out.supports_tools = in.boolean("supportsTools", true).value_or(false);
  out.context_window = in.integer("contextWindow", 1, kAny).value_or(0);
  out.kv_bytes_per_token_f16 = in.number("kvBytesPerTokenF16", 0, kMaxNumber);
  if (out.kv_bytes_per_token_f16 == 0) in.wrong("kvBytesPerTokenF16", "a number above 0");
  out.kv_fixed_bytes_f16 = in.number("kvFixedBytesF16", 0, kMaxNumber).value_or(0);
  out.category = in.one_of("category", {"general", "coding", "reasoning", "vision", "embedding"});
  if (const auto style = in.object("style")) {
    out.family = style->one_of("family", {"gemma", "qwen", "gpt-oss", "mistral", "llama", "deepseek", "qwq",
                                          "phi", "nemotron", "glm", "muse", "other"});
    out.reasoning_format = style->one_of("reasoningFormat", {"think", "channel", "inline", "none"});
    out.tool_call_format = style->one_of(
        "toolCallFormat", {"function-call", "qwen-xml", "hermes", "gemma-special-token", "json-envelope"});
  }
  out.supports_reasoning = in.boolean("supportsReasoning")
                               .value_or(!out.reasoning_format.empty() && out.reasoning_format != "none");
  if (const auto tuning = in.object("tuning")) out.tuning = read_tuning(*tuning);
  return out;
}

ImageFacts read_image_facts(const Fields& in, std::string_view id) {
  ImageFacts out;
  if (const auto word = in.one_of("weightsKind", {"checkpoint", "diffusion-model"}); !word.empty())
    out.weights_kind = word;
  out.base_model = in.text("baseModel");
  if (out.base_model.empty()) out.base_model = id;
  out.hardware_tier = in.one_of("hardwareTier", {"low", "mid", "high", "workstation"}, true);
  out.category = in.one_of("category", {"general", "artistic", "photographic"});
  out.recommended_steps = static_cast<int>(in.integer("recommendedSteps", 1, 10000).value_or(20));
  out.step_distilled = in.boolean("stepDistilled").value_or(false);
  out.vae_tiling = in.boolean("vaeTiling").value_or(true);
  out.edit_only = in.boolean("editOnly").value_or(false);
  out.commercial_use = in.boolean("commercialUse", true).value_or(false);
  out.image_to_image = in.boolean("supportsImg2Img");
  out.cfg_scale = in.number("cfgScale", 0, 1000);
  out.width = read_range(in, "widthRange");
  out.height = read_range(in, "heightRange");
  const int native = out.width && out.width->max <= 768 ? 512 : 1024;
  out.native_size = static_cast<int>(in.integer("nativeSize", 1, kMaxPixels).value_or(native));
  if (const auto images = in.object("referenceImages")) {
    if (!images->has("max")) images->missing("max", "an integer of at least 1");
    out.reference_images = static_cast<int>(images->integer("max", 1, 1000).value_or(0));
  }
  out.min_ram_gib = in.number("minRamGB", 0, 1e6).value_or(0);
  if (out.min_ram_gib <= 0) in.wrong("minRamGB", "a number of GiB above 0");
  if (const auto render = in.object("render")) out.render = read_render(*render);
  return out;
}

LoraFacts read_lora_facts(const Fields& in) {
  LoraFacts out;
  out.purpose = in.one_of("purpose", {"style", "speed"}, true);
  out.base_models = in.texts("baseModels");
  if (out.base_models.empty()) in.missing("baseModels", "a list of at least one id or family");
  if (!in.has("strength")) in.missing("strength", "a number");
  out.strength = in.number("strength", -100, 100).value_or(1);
  if (const auto prompt = in.object("prompt")) {
    out.prompt_prefix = prompt->text("prefix");
    out.prompt_suffix = prompt->text("suffix");
    out.prompt_negative = prompt->text("negative");
  }
  if (const auto render = in.object("render")) out.render = read_render(*render);
  return out;
}

Version read_version(const Fields& in, Kind kind) {
  Version out;
  if (auto version = SemVer::parse(in.text("version", true, &is_semver, "a version such as 1.2.0")))
    out.version = std::move(*version);
  out.released_at = in.text("releasedAt", true);
  out.size_bytes = in.size("approxSizeBytes");
  out.notes = in.text("notes");
  out.min_service_version = in.text("minServiceVersion");
  out.members = in.members();
  if (kind != Kind::chat_model) {
    out.media = read_media(in);
    return out;
  }
  if (const auto source = in.object("llamaCpp")) out.llama_cpp = read_gguf(*source, true);
  if (const auto source = in.object("mlx")) out.mlx = read_mlx(*source);
  if (const auto source = in.object("ds4")) out.ds4 = read_ds4(*source);
  if (const auto source = in.object("ollama")) out.ollama_tag = source->text("tag", true);
  if (!in.has("llamaCpp") && !in.has("mlx") && !in.has("ds4") && !in.has("ollama"))
    in.missing("llamaCpp", "there, or else mlx, ds4 or ollama");
  return out;
}

}  // namespace gezel::catalog
