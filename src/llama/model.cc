// Loading is where an untrusted file meets a large C++ library. The first bytes are looked at here, for
// messages a person understands; everything deeper is found by the library, whose last words become the
// error.
#include <ggml-backend.h>
#include <gguf.h>
#include <llama.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>

#include "base/log.h"
#include "llama/library.h"
#include "llama/llama.h"

namespace gezel::llama {
namespace {

constexpr std::string_view kRemedy = "Import or download the model again.";
constexpr std::string_view kPlainBufferType = "CPU";

std::unexpected<Error> invalid(std::string_view file, std::string_view what) {
  return fail(ErrorKind::corrupt, "model-invalid",
              fmt::format("Model file \"{}\" {}. {}", file, what, kRemedy), "model");
}

// Says nothing about the file's content, so nobody may remember it against the file.
std::unexpected<Error> unreadable(ErrorKind kind, std::string_view file, std::string_view what) {
  return fail(
      kind, "model-unreadable",
      fmt::format("Model file \"{}\" {}. Repeat the request, or check the folder, permissions, the disk "
                  "and the limit on open files.",
                  file, what),
      "model");
}

std::unexpected<Error> out_of_memory(std::string_view file, std::string_view what) {
  return fail(
      ErrorKind::unavailable, "engine-out-of-memory",
      fmt::format(
          "Not enough memory to load \"{}\": {}. Stop other models, or use a smaller or more strongly "
          "quantised one.",
          file, what),
      "model");
}

// The first `size` bytes, fewer when the file ends before; or the system's reason why they cannot be read.
std::expected<std::string, std::string> read_begin(const std::filesystem::path& path, std::size_t size) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) return std::unexpected(fmt::format("cannot be opened: {}", std::strerror(errno)));
  std::string bytes(size, '\0');
  bytes.resize(std::fread(bytes.data(), 1, size, file.get()));
  if (std::ferror(file.get()) != 0)
    return std::unexpected(fmt::format("cannot be read: {}", std::strerror(errno)));
  return bytes;
}

// What can be said about the file without the library.
Result<> check_file(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    return unreadable(ErrorKind::not_found, name,
                      fmt::format("cannot be found: {}", error ? error.message() : "no such file"));
  }
  if (!std::filesystem::is_regular_file(status)) return invalid(name, "is not a file");
  const auto size = std::filesystem::file_size(path, error);
  if (!error && size == 0) return invalid(name, "is empty (0 bytes)");
  const auto magic = read_begin(path, 4);
  if (!magic) return unreadable(ErrorKind::io, name, magic.error());
  if (magic->size() < 4) return invalid(name, "is too short for a GGUF header");
  if (*magic != "GGUF") return invalid(name, "does not begin with \"GGUF\", so it is no GGUF file");
  return {};
}

// Removes "function_name: " in front of a message.
std::string_view without_function(std::string_view line) {
  const auto colon = line.find(": ");
  const auto word = line.substr(0, colon);
  const bool is_name =
      colon != std::string_view::npos && std::ranges::all_of(word, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
      });
  return is_name && word.find('_') != std::string_view::npos ? line.substr(colon + 2) : line;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// The library's last words about the file, without functions, repetitions and the folder the file lies in.
std::string last_words(const std::vector<std::string>& lines, const std::filesystem::path& path) {
  constexpr std::size_t kShown = 3;
  std::vector<std::string> kept;
  for (const auto& line : lines) {
    std::string text(without_function(line));
    if (text == "failed to load model" || text.empty()) continue;
    replace_all(text, path.string(), path.filename().string());
    replace_all(text, path.parent_path().string() + "/", "");
    while (!text.empty() && (text.back() == '.' || text.back() == ' ')) text.pop_back();
    if (std::ranges::find(kept, text) == kept.end()) kept.push_back(std::move(text));
  }
  if (kept.size() > kShown) kept.erase(kept.begin(), kept.end() - kShown);
  return kept.empty() ? "the library gave no reason" : fmt::format("{}", fmt::join(kept, "; "));
}

bool is_about_memory(std::string_view words) {
  static constexpr std::string_view kSigns[] = {
      "failed to allocate", "unable to allocate",     "bad_alloc",
      "out of memory",      "Cannot allocate memory", "failed to alloc"};
  return std::ranges::any_of(kSigns, [&](auto sign) { return words.find(sign) != std::string_view::npos; });
}

// The library tells some failures of reading; where it reads metadata it does not, and only trying it shows.
bool is_about_reading(std::string_view words, const std::filesystem::path& path) {
  static constexpr std::string_view kSigns[] = {"failed to open", "read error", "seek error", "mmap failed"};
  constexpr std::size_t kMostMetadata = 64 * kMiB;
  return std::ranges::any_of(kSigns, [&](auto sign) { return words.find(sign) != std::string_view::npos; }) ||
         !read_begin(path, kMostMetadata);
}

// Exclusions of the form "CPU:iq1_s" forbid the plain layout for one weight type: no layout is left for such
// tensors, so a model that has them is refused.
Result<> check_excluded_types(const ModelOptions& options) {
  std::vector<std::string> types;
  for (const auto& name : options.excluded_buffer_types) {
    if (name == kPlainBufferType || name == "CPU:*") {
      return fail(
          ErrorKind::unavailable, "engine-unusable",
          "The CPU backend failed its self-test, so no model can run. `gezel doctor` has the details.",
          "model");
    }
    if (name.starts_with("CPU:")) types.push_back(name.substr(4));
  }
  if (types.empty()) return {};
  const std::unique_ptr<gguf_context, void (*)(gguf_context*)> file(
      gguf_init_from_file(options.path.c_str(), gguf_init_params{.no_alloc = true, .ctx = nullptr}),
      gguf_free);
  if (!file) return {};  // the load will say why
  for (std::int64_t i = 0; i < gguf_get_n_tensors(file.get()); ++i) {
    const std::string_view type = ggml_type_name(gguf_get_tensor_type(file.get(), i));
    if (std::ranges::find(types, type) == types.end()) continue;
    return fail(
        ErrorKind::unavailable, "engine-unusable",
        fmt::format("Weights of type {} compute wrong results on this machine (self-test), and tensor \"{}\" "
                    "of \"{}\" "
                    "has that type. Use another quantisation of the model; `gezel doctor` has the details.",
                    type, gguf_get_tensor_name(file.get(), i),
                    std::filesystem::path(options.path).filename().string()),
        "model");
  }
  return {};
}

struct Progress {
  const std::function<bool(float)>* callback;
  bool cancelled = false;
};

}  // namespace

Result<std::unique_ptr<Model>> Model::load(const ModelOptions& options) {
  initialize();
  const std::filesystem::path path(options.path);
  const std::string name = path.filename().string();
  GEZEL_CHECK(check_file(path));
  const LogCapture capture;
  const AssertsThrow asserts_throw;
  llama_model* loaded = nullptr;
  Progress progress{&options.progress};
  std::string exception;
  try {
    GEZEL_CHECK(check_excluded_types(options));
    const BufferTypeFilter filter(options.excluded_buffer_types);
    ggml_backend_dev_t no_devices[] = {nullptr};  // beside the CPU
    auto params = llama_model_default_params();
    params.devices = no_devices;
    params.n_gpu_layers = 0;
    params.split_mode = LLAMA_SPLIT_MODE_NONE;
    params.load_mode = options.use_mmap ? LLAMA_LOAD_MODE_MMAP : LLAMA_LOAD_MODE_NONE;
    params.vocab_only = options.vocab_only;
    params.no_alloc = options.dry_run;
    params.use_extra_bufts = filter.complete();
    params.progress_callback_user_data = &progress;
    params.progress_callback = [](float done, void* user) {
      auto& state = *static_cast<Progress*>(user);
      if (*state.callback && !(*state.callback)(done)) state.cancelled = true;
      return !state.cancelled;
    };
    loaded = llama_model_load_from_file(options.path.c_str(), params);
  } catch (const std::bad_alloc&) {
    exception = "bad_alloc";
  } catch (const std::exception& error) {
    exception = error.what();
  }
  if (loaded == nullptr) {
    if (progress.cancelled)
      return fail(ErrorKind::cancelled, "cancelled", fmt::format("Loading \"{}\" was cancelled.", name));
    auto lines = capture.lines();
    if (!exception.empty()) lines.push_back(exception);
    const std::string words = last_words(lines, path);
    if (is_about_memory(words)) return out_of_memory(name, words);
    if (is_about_reading(words, path)) {
      return unreadable(ErrorKind::io, name, fmt::format("cannot be loaded: {}", words));
    }
    return invalid(name, fmt::format("cannot be loaded: {}", words));
  }
  std::unique_ptr<Model> model(new Model);
  model->model_ = loaded;
  try {
    model->vocab_ = std::make_unique<Vocab>(llama_model_get_vocab(loaded));
  } catch (const std::exception& error) {
    return invalid(name, fmt::format("has a vocabulary that cannot be read: {}", error.what()));
  }
  return model;
}

Model::~Model() {
  if (model_ != nullptr) llama_model_free(model_);
}

std::string Model::chat_template() const {
  const char* text = llama_model_chat_template(model_, nullptr);
  return text == nullptr ? std::string() : std::string(text);
}

std::optional<std::string> Model::metadata(const char* key) const {
  std::string value(256, '\0');
  auto length = llama_model_meta_val_str(model_, key, value.data(), value.size());
  if (length < 0) return std::nullopt;
  if (static_cast<std::size_t>(length) >= value.size()) {
    value.resize(static_cast<std::size_t>(length) + 1);
    length = llama_model_meta_val_str(model_, key, value.data(), value.size());
  }
  value.resize(static_cast<std::size_t>(std::max(length, 0)));
  return value;
}

std::int64_t Model::trained_context() const {
  return llama_model_n_ctx_train(model_);
}
int Model::sliding_window() const {
  return std::max(0, llama_model_n_swa(model_));
}
bool Model::recurrent() const {
  return llama_model_is_recurrent(model_) || llama_model_is_hybrid(model_);
}
bool Model::hybrid() const {
  return llama_model_is_hybrid(model_);
}
bool Model::diffusion() const {
  return llama_model_is_diffusion(model_);
}
bool Model::has_decoder() const {
  return llama_model_has_decoder(model_);
}

int Model::head_dimension() const {
  const auto architecture = metadata("general.architecture").value_or("");
  if (const auto length = metadata((architecture + ".attention.key_length").c_str())) {
    if (const int value = std::atoi(length->c_str()); value > 0) return value;
  }
  const int heads = llama_model_n_head(model_);
  return heads > 0 ? llama_model_n_embd(model_) / heads : 0;
}

Bytes Model::size() const {
  return llama_model_size(model_);
}

}  // namespace gezel::llama
