// One pass over the header. Small values are kept under their key and turned into fields at the end, because
// general.architecture, which decides the keys' prefix, may come last. Long arrays are walked, never kept.
#include "gguf/metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "gguf/file_type.h"
#include "gguf/geometry.h"
#include "gguf/reader.h"
#include "gguf/split.h"

namespace gezel::gguf {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr std::uint32_t kOldestVersion = 2, kNewestVersion = 3;
constexpr std::uint64_t kMinAlignment = 8, kMaxAlignment = 65'536;
constexpr std::string_view kChatTemplate = "tokenizer.chat_template", kAlignment = "general.alignment",
                           kSampling = "general.sampling.", kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kRemedy = "; the file is damaged or incomplete, fetch or copy it again";
// What a key and its node cost in memory beside its value.
constexpr Bytes kEntryOverhead = 128;

enum ValueType : std::uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64,
  type_count
};
// Smallest bytes of one value in the file; a string has at least its length.
constexpr std::array<std::uint64_t, type_count> kValueBytes{1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};

// Text of the file as it may stand in a message.
std::string printable(std::string_view text) {
  constexpr std::size_t kMax = 64;
  std::string out(text.substr(0, kMax));
  for (char& c : out) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  if (text.size() > kMax) out += "...";
  return out;
}

template <class T>
Value to_value(T number) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<double>(number);
  } else if constexpr (std::is_signed_v<T>) {
    if (number < 0) return static_cast<std::int64_t>(number);
  }
  return static_cast<std::uint64_t>(number);
}

class HeaderParser {
 public:
  HeaderParser(ByteSource& source, std::string_view name, const Limits& limits)
      : limits_(limits), reader_(source, limits.header_bytes) {
    out_.file_name = printable(name);
  }

  Result<Metadata> parse() {
    GEZEL_CHECK(read_preamble());
    for (std::uint64_t i = 0; i < out_.metadata_count; ++i) GEZEL_CHECK(read_entry(i));
    GEZEL_CHECK(read_alignment());
    GEZEL_CHECK(read_tensors());
    resolve();
    GEZEL_CHECK(check_extents());
    out_.read_operations = reader_.read_operations();
    out_.bytes_read = reader_.bytes_read();
    return std::move(out_);
  }

 private:
  std::unexpected<Error> malformed(std::string_view what, Bytes at) const {
    return fail(ErrorKind::corrupt, "model-invalid",
                fmt::format("{}: {} (byte {}){}", out_.file_name, what, at, kRemedy));
  }

  // After the reader refused.
  std::unexpected<Error> unreadable(std::string_view reading) const {
    switch (reader_.failure()) {
      case Reader::Failure::io:
        return fail(
            ErrorKind::io, "model-invalid",
            fmt::format("{}: reading failed at byte {}; check the disk", out_.file_name, reader_.position()));
      case Reader::Failure::budget:
        return malformed(fmt::format("the header exceeds {} while reading {}",
                                     format_bytes(limits_.header_bytes), reading),
                         reader_.position());
      default:
        return malformed(
            fmt::format("unexpected end after {} bytes while reading {}", reader_.size(), reading),
            reader_.position());
    }
  }

  Result<> read_preamble() {
    if (reader_.size() == 0) {
      return fail(ErrorKind::corrupt, "model-invalid",
                  out_.file_name + " is empty (0 bytes); fetch or copy it again");
    }
    char magic[4];
    if (!reader_.read(magic, sizeof magic)) return unreadable("the magic number");
    if (std::string_view(magic, sizeof magic) != kMagic) {
      return fail(
          ErrorKind::corrupt, "model-invalid",
          fmt::format(
              "{} is not a GGUF file: it begins with \"{}\" instead of \"GGUF\"; name a GGUF model, or fetch "
              "this one again",
              out_.file_name, printable({magic, sizeof magic})));
    }
    if (!reader_.read(out_.version)) return unreadable("the version");
    if ((out_.version & 0xffff) == 0) {
      return fail(
          ErrorKind::corrupt, "model-invalid",
          fmt::format(
              "{} has big-endian byte order (version {:#x}); fetch the little-endian file of this model",
              out_.file_name, out_.version));
    }
    if (out_.version < kOldestVersion || out_.version > kNewestVersion) {
      return fail(
          ErrorKind::corrupt, "model-invalid",
          fmt::format(
              "{} has the unsupported GGUF version {}; versions {} to {} can be read, fetch a newer file",
              out_.file_name, out_.version, kOldestVersion, kNewestVersion));
    }
    if (!reader_.read(out_.tensor_count) || !reader_.read(out_.metadata_count))
      return unreadable("the counts");
    if (out_.tensor_count > limits_.tensors) {
      return malformed(fmt::format("{} tensors, at most {} are accepted", out_.tensor_count, limits_.tensors),
                       8);
    }
    if (out_.metadata_count > limits_.entries) {
      return malformed(
          fmt::format("{} metadata keys, at most {} are accepted", out_.metadata_count, limits_.entries), 16);
    }
    return {};
  }

  // A length-prefixed string of at most `limit` bytes, into `out`; its bytes are skipped when `keep` is
  // false.
  Result<> read_string(std::string& out, Bytes limit, std::string_view what, bool keep = true) {
    const Bytes at = reader_.position();
    std::uint64_t length = 0;
    if (!reader_.read(length)) return unreadable(what);
    if (length > limit)
      return malformed(fmt::format("{} has {} bytes, at most {} are accepted", what, length, limit), at);
    if (length > reader_.remaining()) {
      return malformed(fmt::format("{} has {} bytes, but only {} follow", what, length, reader_.remaining()),
                       at);
    }
    out.clear();
    if (!keep) {
      if (!reader_.skip(length)) return unreadable(what);
      return {};
    }
    out.resize(length);
    if (!reader_.read(out.data(), length)) return unreadable(what);
    return {};
  }

  Result<> read_entry(std::uint64_t index) {
    const Bytes at = reader_.position();
    std::string key;
    GEZEL_CHECK(read_string(key, limits_.key_bytes, fmt::format("metadata key {}", index)));
    if (key.empty()) return malformed(fmt::format("metadata key {} is empty", index), at);
    key_text_ = fmt::format("key \"{}\"", printable(key));
    const bool keep = key.size() <= limits_.retained_key_bytes;
    if (keep) {
      GEZEL_CHECK(account(key.size()));
      if (!seen_.insert(key).second) return malformed(key_text_ + " appears twice", at);
    }
    std::uint32_t type = 0;
    const Bytes type_at = reader_.position();
    if (!reader_.read(type)) return unreadable(key_text_);
    if (type >= type_count)
      return malformed(fmt::format("{} has the unknown value type {}", key_text_, type), type_at);
    if (key == kAlignment && type != u32)
      return malformed(key_text_ + " is not a 32-bit unsigned integer", type_at);
    if (type == array) return read_array(std::move(key), keep);
    if (type == string) return read_string_entry(std::move(key), keep);
    GEZEL_TRY(Value value, read_scalar(type));
    if (keep) out_.values.insert(std::move(key), std::move(value));
    return {};
  }

  Result<> read_string_entry(std::string key, bool keep_key) {
    const bool is_template = key.starts_with(kChatTemplate);
    std::uint64_t length = 0;  // looked at first: a long string that nobody needs is not read
    const Bytes at = reader_.position();
    if (!reader_.read(length)) return unreadable(key_text_);
    if (length > limits_.string_bytes) {
      return malformed(
          fmt::format("{} has {} bytes, at most {} are accepted", key_text_, length, limits_.string_bytes),
          at);
    }
    if (!keep_key || (length > limits_.retained_string_bytes && !is_template)) {
      if (!reader_.skip(length)) return unreadable(key_text_);
      return {};
    }
    if (length > reader_.remaining()) {
      return malformed(
          fmt::format("{} has {} bytes, but only {} follow", key_text_, length, reader_.remaining()), at);
    }
    GEZEL_CHECK(account(length));
    std::string text(length, '\0');
    if (!reader_.read(text.data(), length)) return unreadable(key_text_);
    out_.values.insert(std::move(key), std::move(text));
    return {};
  }

  template <class T>
  Result<Value> scalar() {
    T number{};
    if (!reader_.read(number)) return unreadable(key_text_);
    return to_value(number);
  }

  Result<Value> read_scalar(std::uint32_t type) {
    switch (type) {
      case u8:
        return scalar<std::uint8_t>();
      case i8:
        return scalar<std::int8_t>();
      case u16:
        return scalar<std::uint16_t>();
      case i16:
        return scalar<std::int16_t>();
      case u32:
        return scalar<std::uint32_t>();
      case i32:
        return scalar<std::int32_t>();
      case u64:
        return scalar<std::uint64_t>();
      case i64:
        return scalar<std::int64_t>();
      case f32:
        return scalar<float>();
      case f64:
        return scalar<double>();
      default: {
        std::uint8_t flag = 0;
        if (!reader_.read(flag)) return unreadable(key_text_);
        return Value(flag != 0);
      }
    }
  }

  Result<> read_array(std::string key, bool keep_key) {
    const Bytes at = reader_.position();
    std::uint32_t type = 0;
    std::uint64_t count = 0;
    if (!reader_.read(type) || !reader_.read(count)) return unreadable(key_text_);
    if (type >= type_count)
      return malformed(fmt::format("{} has the unknown element type {}", key_text_, type), at);
    if (type == array) return malformed(key_text_ + " is an array of arrays", at);
    if (count > reader_.remaining() / kValueBytes[type]) {
      return malformed(
          fmt::format("{} has {} entries, but only {} bytes follow", key_text_, count, reader_.remaining()),
          at);
    }
    if (type == string) {
      if (key == kTokens) out_.vocabulary_tokens = count;
      std::string ignored;
      for (std::uint64_t i = 0; i < count; ++i) {
        i += reader_.skip_buffered_strings(count - i, limits_.string_bytes);
        // One that crosses the end of what is buffered, or is wrong.
        if (i < count) GEZEL_CHECK(read_string(ignored, limits_.string_bytes, key_text_, false));
      }
      return {};
    }
    const bool wanted = keep_key && is_per_layer_key(key) && count <= limits_.per_layer_entries;
    if (!wanted) {
      if (!reader_.skip(count * kValueBytes[type])) return unreadable(key_text_);
      return {};
    }
    return read_layers(std::move(key), type, count);
  }

  // An array with a negative or fractional entry is consumed and treated as absent.
  Result<> read_layers(std::string key, std::uint32_t type, std::uint64_t count) {
    GEZEL_CHECK(account(count * sizeof(std::uint64_t)));
    LayerValues layers;
    layers.reserve(count);
    bool usable = true;
    for (std::uint64_t i = 0; i < count; ++i) {
      GEZEL_TRY(const Value value, read_scalar(type));
      if (const auto* number = std::get_if<std::uint64_t>(&value)) {
        layers.push_back(*number);
      } else if (const auto* flag = std::get_if<bool>(&value)) {
        layers.push_back(*flag ? 1 : 0);
      } else {
        usable = false;
      }
    }
    if (usable) out_.values.insert(std::move(key), std::move(layers));
    return {};
  }

  // Memory that a kept key or value will take, before it is taken.
  Result<> account(Bytes bytes) {
    retained_ += bytes + kEntryOverhead;
    if (retained_ <= limits_.retained_bytes) return {};
    return malformed(
        fmt::format("the metadata exceeds {} at {}", format_bytes(limits_.retained_bytes), key_text_),
        reader_.position());
  }

  Result<> read_alignment() {
    out_.alignment = out_.values.unsigned_at(kAlignment).value_or(out_.alignment);
    if (!std::has_single_bit(out_.alignment) || out_.alignment < kMinAlignment ||
        out_.alignment > kMaxAlignment) {
      return malformed(fmt::format("{} is {}; a power of two from {} to {} is expected", kAlignment,
                                   out_.alignment, kMinAlignment, kMaxAlignment),
                       reader_.position());
    }
    return {};
  }

  Result<> read_tensors() {
    for (std::uint64_t i = 0; i < out_.tensor_count; ++i) {
      const Bytes at = reader_.position();
      Tensor tensor;
      GEZEL_CHECK(read_string(tensor.name, kMaxTensorNameBytes, fmt::format("the name of tensor {}", i)));
      if (tensor.name.empty()) return malformed(fmt::format("tensor {} has no name", i), at);
      tensor.name = printable(tensor.name);
      const std::string what = "tensor " + tensor.name;
      std::uint32_t dimensions = 0;
      if (!reader_.read(dimensions)) return unreadable(what);
      if (dimensions < 1 || dimensions > kMaxTensorDimensions) {
        return malformed(
            fmt::format("{} has {} dimensions, 1 to {} are possible", what, dimensions, kMaxTensorDimensions),
            at);
      }
      for (std::uint32_t d = 0; d < dimensions; ++d) {
        if (!reader_.read(tensor.shape[d])) return unreadable(what);
      }
      if (!reader_.read(tensor.type) || !reader_.read(tensor.offset)) return unreadable(what);
      out_.tensors.push_back(std::move(tensor));
    }
    return {};
  }

  void resolve() {
    const Values& values = out_.values;
    if (const auto* text = values.string_at("general.architecture")) out_.architecture = *text;
    if (const auto* text = values.string_at("general.name")) out_.name = *text;
    if (const auto* text = values.string_at(kChatTemplate)) out_.chat_template = *text;
    out_.file_type = values.unsigned_at("general.file_type");
    if (out_.file_type) {
      out_.file_type_name = file_type_name(*out_.file_type);
      out_.quantization = quantization_label(*out_.file_type);
    }
    out_.geometry = resolve_geometry(values, out_.architecture);
    out_.pooling_type = resolve_pooling_type(values, out_.architecture);
    for (auto it = values.all().lower_bound(kSampling);
         it != values.all().end() && it->first.starts_with(kSampling); ++it) {
      if (const auto number = values.number_at(it->first))
        out_.sampling[it->first.substr(kSampling.size())] = *number;
    }
    out_.split_count = std::max<std::uint64_t>(1, values.unsigned_at("split.count").value_or(1));
    out_.split_no = values.unsigned_at("split.no").value_or(0);
    out_.file_size_bytes = reader_.size();
  }

  Result<> check_extents() {
    const Bytes end = reader_.position();
    out_.header_bytes = (end + out_.alignment - 1) / out_.alignment * out_.alignment;
    // The last padding may be missing from a file that holds no tensor data.
    const Bytes data_bytes = reader_.size() > out_.header_bytes ? reader_.size() - out_.header_bytes : 0;
    if (const auto problem = check_table(out_.tensors, data_bytes, out_.alignment)) {
      if (problem->missing_bytes == 0)
        return malformed("the tensor table is damaged: " + problem->message, end);
      return fail(ErrorKind::corrupt, "model-invalid",
                  fmt::format("{} is truncated by {} bytes: {}; fetch or copy it again", out_.file_name,
                              problem->missing_bytes, problem->message));
    }
    add_sizes(out_.tensor_sizes, out_.tensors, out_.geometry.block_count.value_or(0));
    return {};
  }

  const Limits& limits_;
  Reader reader_;
  Metadata out_;
  std::unordered_set<std::string> seen_;
  Bytes retained_ = 0;
  std::string key_text_;  // of the current entry, for messages
};

}  // namespace

Result<Metadata> read_metadata(ByteSource& source, std::string_view name, const Limits& limits) {
  return HeaderParser(source, name, limits).parse();
}

Result<Metadata> read_metadata(const std::filesystem::path& path, const Limits& limits) {
  GEZEL_TRY(FileSource source, FileSource::open(path));
  GEZEL_TRY(Metadata metadata, read_metadata(source, path.filename().string(), limits));
  if (metadata.split_count == 1) return metadata;
  // The other shards are not opened, only measured.
  const auto paths = shard_paths(path);
  metadata.file_size_complete = paths.size() == metadata.split_count;
  metadata.file_size_bytes = 0;
  for (const auto& shard : paths) {
    std::error_code error;
    const Bytes size = std::filesystem::file_size(shard, error);
    if (error) {
      metadata.file_size_complete = false;
    } else {
      metadata.file_size_bytes += size;
    }
  }
  return metadata;
}

Result<Metadata> read_model(const std::filesystem::path& path, const Limits& limits) {
  GEZEL_TRY(Metadata model, read_metadata(path, limits));
  if (model.split_count == 1) return model;
  const auto refuse = [](std::string_view shard, std::string_view what) {
    return fail(ErrorKind::corrupt, "model-invalid",
                fmt::format("{}: {}; fetch the shards of this model again", shard, what));
  };
  const auto name = parse_split_name(path.filename().string());
  if (!name) {
    return refuse(model.file_name,
                  fmt::format("this is one of {} shards, but it is not named like <name>-00001-of-{:05}.gguf",
                              model.split_count, model.split_count));
  }
  if (name->count != model.split_count) {
    return refuse(model.file_name,
                  fmt::format("its name says {} shards, its metadata {}", name->count, model.split_count));
  }
  if (name->number != 1) {
    return refuse(model.file_name, fmt::format("this is shard {} of {}; name the first, {}", name->number,
                                               name->count, printable(shard_name(*name, 1))));
  }
  if (model.split_no != 0) {
    return refuse(model.file_name, fmt::format("its name says shard 1, its metadata {}", model.split_no + 1));
  }
  model.file_size_complete = true;
  const std::uint64_t layers = model.geometry.block_count.value_or(0);
  for (std::uint32_t number = 2; number <= name->count; ++number) {
    const std::string shard = shard_name(*name, number);
    if (!std::filesystem::exists(path.parent_path() / shard)) {
      return refuse(printable(shard), fmt::format("shard {} of {} is missing", number, name->count));
    }
    GEZEL_TRY(const Metadata part, read_metadata(path.parent_path() / shard, limits));
    if (part.split_count != model.split_count || part.split_no != number - 1) {
      return refuse(part.file_name, fmt::format("its name says shard {} of {}, its metadata shard {} of {}",
                                                number, name->count, part.split_no + 1, part.split_count));
    }
    add_sizes(model.tensor_sizes, part.tensors, layers);
    model.tensor_count += part.tensor_count;
    model.read_operations += part.read_operations;
    model.bytes_read += part.bytes_read;
  }
  return model;
}

}  // namespace gezel::gguf
