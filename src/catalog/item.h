// catalog/item.h
//
// What the catalog knows about a model before it is on disk (spec 60 section 2): an item is a product with
// the facts that hold for every version, and versions that say which files make it up. Plain data; the
// readers are in parse.h and tree.h.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/json.h"
#include "catalog/tuning.h"
#include "catalog/version.h"

namespace gezel::catalog {

enum class Kind { chat_model, image_model, image_lora };
std::string_view to_string(Kind kind);             // "chat-model"
std::string_view folder_name(Kind kind);           // "chat-models"
std::optional<Kind> parse_kind(std::string_view);  // of either

enum class LicenseClass { unknown, open, commercial_restricted, custom_restricted };
std::string_view to_string(LicenseClass license);         // "commercial-restricted"; "unknown"
LicenseClass parse_license_class(std::string_view word);  // unknown for every other word

struct Party {
  std::string name, url;
};

// One file of a payload, and what it must be.
struct PinnedFile {
  std::string name;    // contained path in its repository
  std::string sha256;  // lower case
  Bytes size_bytes = 0;
};

// Section 2.5: GGUF files in a repository. Also the shape of ds4's download.
struct GgufSource {
  std::string repository, revision;  // "org/name"; a commit, "" = main
  std::vector<PinnedFile> files;     // one, or the parts of a split set in order
  Bytes size_bytes = 0;              // of `files`; without projector and draft
  std::optional<Bytes> resident_bytes;
  std::string quantization;
  std::optional<PinnedFile> projector, draft;
  std::vector<std::string> mirrors;  // base addresses that hold the same repositories, tried in order
};

// Section 2.6.
struct MlxSource {
  std::string repository, revision, folder;
  std::vector<PinnedFile> files;
  Bytes size_bytes = 0;
  std::optional<Bytes> resident_bytes;
  std::string quantization, chat_template;
  std::vector<std::string> mirrors;
  std::string disabled_reason;  // not empty: the build is known not to run, and counts as absent
};

// Section 2.7.
struct Ds4Source {
  GgufSource gguf;
  std::optional<double> kv_bytes_per_token;
  std::int64_t resident_context_tokens = 0;
  Bytes expert_cache_bytes = 0;
  bool ssd_streaming = false;
  std::int64_t max_launch_context = 0;  // 0: none
};

// Section 2.9 and 2.10: files by their own addresses.
struct MediaFile {
  std::string role;  // "" = the weights; else vae, clip_l, ...
  std::string url, sha256;
  Bytes size_bytes = 0;
};
struct MediaSource {
  std::vector<MediaFile> files;  // the weights first
  std::string quantization;
};

struct Version {
  SemVer version;
  std::string released_at, notes, min_service_version;
  Bytes size_bytes = 0;  // for display
  std::optional<GgufSource> llama_cpp;
  std::optional<MlxSource> mlx;
  std::optional<Ds4Source> ds4;
  std::string ollama_tag;
  std::optional<MediaSource> media;
  json::object members;  // as read, for answers that show the manifest
};

// Section 2.4.
struct ChatFacts {
  std::string parameter_size;  // "9B", "E4B"
  bool supports_tools = false, supports_reasoning = false;
  std::int64_t context_window = 0;  // trained tokens, 0 = unknown
  std::optional<double> kv_bytes_per_token_f16;
  double kv_fixed_bytes_f16 = 0;
  std::string category, family, reasoning_format, tool_call_format;
  std::optional<Tuning> tuning;
};

struct PixelRange {
  int min = 0, max = 0;
};

// Hints for the image engine, and settings that a speed LoRA needs.
struct RenderHints {
  std::optional<int> steps;
  std::optional<double> cfg_scale, flow_shift, distilled_guidance;
  std::string sample_method, scheduler;
};

struct ImageFacts {
  std::string weights_kind = "checkpoint", base_model, hardware_tier, category;
  int recommended_steps = 20;
  bool step_distilled = false, vae_tiling = true, edit_only = false, commercial_use = false;
  std::optional<bool> image_to_image;
  std::optional<double> cfg_scale;
  int native_size = 1024;
  std::optional<PixelRange> width, height;
  int reference_images = 0;  // 0: reads none
  double min_ram_gib = 0;
  RenderHints render;
};

struct LoraFacts {
  std::string purpose;  // style | speed
  std::vector<std::string> base_models;
  double strength = 1;
  std::string prompt_prefix, prompt_suffix, prompt_negative;
  RenderHints render;
};

struct Item {
  Kind kind = Kind::chat_model;
  std::string id, name, description;
  std::vector<std::string> tags;
  Party maintainer;
  std::optional<Party> maker;
  std::string upstream, license, license_short_name, license_url;
  LicenseClass license_class = LicenseClass::unknown;
  int reco_score = 0;  // 0: never recommended
  std::vector<std::string> yanked, aliases;
  std::optional<SemVer> min_supported;
  std::string min_service_version;
  std::optional<ChatFacts> chat;    // of a chat model
  std::optional<ImageFacts> image;  // of an image model
  std::optional<LoraFacts> lora;    // of a LoRA
  std::vector<Version> versions;    // newest first
  json::object members;             // the identity as read
};

// Shared, because a catalog that is read again must not pull data from under those who still use it.
using ItemPtr = std::shared_ptr<const Item>;

// Why an entry is not used.
struct Problem {
  std::string entry;    // its id, "entry 3" or its folder
  std::string field;    // "versions[0].llamaCpp.sha256"
  std::string message;  // a whole sentence: entry, field, value and what it must be
  // Of an entry in a folder: the file inside that folder, and a JSON pointer in it; "" = the whole file.
  std::string file = {}, pointer = {};
};
// The same for whoever has to mend it: "<file>: <pointer> is <value>; it must be <right>".
std::string where_and_what(const Problem& problem);

struct Parsed {
  std::string content_version;
  std::vector<ItemPtr> items;
  std::vector<Problem> problems;  // each of an entry that was left out
};

}  // namespace gezel::catalog
