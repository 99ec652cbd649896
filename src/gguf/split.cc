#include "gguf/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace gezel::gguf {
namespace {

constexpr std::size_t kDigits = 5;

std::optional<std::uint32_t> take_number(std::string_view digits) {
  if (!std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; })) return std::nullopt;
  std::uint32_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

}  // namespace

std::optional<SplitName> parse_split_name(std::string_view file_name) {
  constexpr std::string_view kEnd = ".gguf", kOf = "-of-";
  constexpr std::size_t kTail = 1 + kDigits + kOf.size() + kDigits + kEnd.size();
  if (file_name.size() <= kTail || !file_name.ends_with(kEnd)) return std::nullopt;
  const std::string_view tail = file_name.substr(file_name.size() - kTail);
  if (tail[0] != '-' || tail.substr(1 + kDigits, kOf.size()) != kOf) return std::nullopt;
  const auto number = take_number(tail.substr(1, kDigits));
  const auto count = take_number(tail.substr(1 + kDigits + kOf.size(), kDigits));
  if (!number || !count || *number < 1 || *number > *count) return std::nullopt;
  return SplitName{std::string(file_name.substr(0, file_name.size() - kTail)), *number, *count};
}

std::string shard_name(const SplitName& name, std::uint32_t number) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", name.prefix, number, name.count);
}

std::vector<std::filesystem::path> shard_paths(const std::filesystem::path& path) {
  const auto name = parse_split_name(path.filename().string());
  if (!name) return {path};
  std::vector<std::filesystem::path> paths;
  for (std::uint32_t number = 1; number <= name->count; ++number) {
    paths.push_back(path.parent_path() / shard_name(*name, number));
  }
  return paths;
}

}  // namespace gezel::gguf
