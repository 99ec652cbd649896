// gguf/values.h
//
// The small values of a GGUF file's metadata by key. Vocabularies, merges and other long arrays are never
// kept.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace gezel::gguf {

// One number for every layer.
using LayerValues = std::vector<std::uint64_t>;
// Integers >= 0 are uint64_t whatever their type in the file, int64_t holds negative ones only.
using Value = std::variant<std::uint64_t, std::int64_t, double, bool, std::string, LayerValues>;

class Values {
 public:
  // Each answers nothing when the key is absent or its value is of another kind.
  std::optional<std::uint64_t> unsigned_at(std::string_view key) const;  // negative and float values: nothing
  std::optional<double> number_at(std::string_view key) const;           // any number
  std::optional<bool> bool_at(std::string_view key) const;
  const std::string* string_at(std::string_view key) const;
  const LayerValues* layers_at(std::string_view key) const;

  const std::map<std::string, Value, std::less<>>& all() const { return values_; }
  // False: the key is already there.
  bool insert(std::string key, Value value) {
    return values_.emplace(std::move(key), std::move(value)).second;
  }

 private:
  const Value* find(std::string_view key) const;
  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace gezel::gguf
