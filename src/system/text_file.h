// system/text_file.h
//
// Small text files of /proc and /sys. Internal to the module.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace gezel::system {

// The first `limit` bytes, whatever size the file claims; nothing when it cannot be read.
std::optional<std::string> read_text(const std::filesystem::path& path, std::size_t limit = kMiB);

// `path`, which is absolute, as seen under `root`.
std::filesystem::path under(const std::filesystem::path& root, const std::filesystem::path& path);

std::string_view trim(std::string_view text);
std::vector<std::string_view> split(std::string_view text, char separator);  // empty parts included
std::vector<std::string_view> lines(std::string_view text);
std::vector<std::string_view> words(std::string_view text);  // between blanks and tabs

// The whole text as a decimal number.
std::optional<std::int64_t> parse_integer(std::string_view text);
std::optional<std::uint64_t> parse_unsigned(std::string_view text);

// The number behind `key` in a file of "key number" or "key: number ..." lines.
std::optional<std::uint64_t> number_after(std::string_view text, std::string_view key);

}  // namespace gezel::system
