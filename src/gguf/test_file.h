// gguf/test_file.h
//
// Builds GGUF bytes for tests, right or wrong in any detail.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gezel::gguf::testing {

enum Type : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};

template <class T>
std::string raw(T number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}
inline std::string raw_string(std::string_view text) {
  return raw<std::uint64_t>(text.size()) + std::string(text);
}

class TestFile {
 public:
  // A value whose bytes are given.
  TestFile& entry(std::string_view key, std::uint32_t type, const std::string& value) {
    entries_ += raw_string(key) + raw(type) + value;
    ++entry_count_;
    return *this;
  }
  TestFile& u32(std::string_view key, std::uint32_t number) { return entry(key, kU32, raw(number)); }
  TestFile& text(std::string_view key, std::string_view text) {
    return entry(key, kString, raw_string(text));
  }
  template <class T>
  TestFile& numbers(std::string_view key, std::uint32_t type, const std::vector<T>& values) {
    std::string bytes = raw(type) + raw<std::uint64_t>(values.size());
    for (const T& value : values) bytes += raw(value);
    return entry(key, kArray, bytes);
  }
  TestFile& texts(std::string_view key, std::uint64_t count, std::string_view each) {
    std::string bytes = raw<std::uint32_t>(kString) + raw(count);
    for (std::uint64_t i = 0; i < count; ++i) bytes += raw_string(each);
    return entry(key, kArray, bytes);
  }
  // A one-dimensional float tensor of `bytes` (a multiple of 4) behind those before it.
  TestFile& tensor(std::string_view name, std::uint64_t bytes) {
    return raw_tensor(name, {bytes / 4}, 0, data_bytes_, bytes);
  }
  TestFile& raw_tensor(std::string_view name, const std::vector<std::uint64_t>& shape, std::uint32_t type,
                       std::uint64_t offset, std::uint64_t bytes) {
    tensors_ += raw_string(name) + raw<std::uint32_t>(static_cast<std::uint32_t>(shape.size()));
    for (std::uint64_t size : shape) tensors_ += raw(size);
    tensors_ += raw(type) + raw(offset);
    data_bytes_ = (offset + bytes + 31) / 32 * 32;
    ++tensor_count_;
    return *this;
  }
  std::string header() const {
    return "GGUF" + raw<std::uint32_t>(3) + raw(tensor_count_) + raw(entry_count_) + entries_ + tensors_;
  }
  std::string bytes() const {
    std::string out = header();
    out.resize((out.size() + 31) / 32 * 32);
    return out + std::string(data_bytes_, '\0');
  }

 private:
  std::string entries_, tensors_;
  std::uint64_t entry_count_ = 0, tensor_count_ = 0, data_bytes_ = 0;
};

}  // namespace gezel::gguf::testing
