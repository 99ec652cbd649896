#include "gguf/values.h"

namespace gezel::gguf {

const Value* Values::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::optional<std::uint64_t> Values::unsigned_at(std::string_view key) const {
  const Value* value = find(key);
  const auto* number = value ? std::get_if<std::uint64_t>(value) : nullptr;
  return number ? std::optional(*number) : std::nullopt;
}

std::optional<double> Values::number_at(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return std::nullopt;
  if (const auto* number = std::get_if<std::uint64_t>(value)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<std::int64_t>(value)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<double>(value)) return *number;
  return std::nullopt;
}

std::optional<bool> Values::bool_at(std::string_view key) const {
  const Value* value = find(key);
  const auto* flag = value ? std::get_if<bool>(value) : nullptr;
  return flag ? std::optional(*flag) : std::nullopt;
}

const std::string* Values::string_at(std::string_view key) const {
  const Value* value = find(key);
  return value ? std::get_if<std::string>(value) : nullptr;
}

const LayerValues* Values::layers_at(std::string_view key) const {
  const Value* value = find(key);
  return value ? std::get_if<LayerValues>(value) : nullptr;
}

}  // namespace gezel::gguf
