#include "models/default_template.h"

#include <algorithm>
#include <cstdint>
#include <fstream>

#include "prompt/default_templates.h"

namespace gezel::models {
namespace {

constexpr Bytes kMaxHeader = 128 * kMiB;  // vocabularies of a million tokens are a tenth of it

// A text as GGUF stores it: its length as a little-endian 64-bit number, then its bytes.
std::string stored(std::string_view text) {
  std::string out;
  for (int shift = 0; shift < 64; shift += 8)
    out += static_cast<char>((std::uint64_t{text.size()} >> shift) & 0xFF);
  return out.append(text);
}

}  // namespace

std::string default_template_of(std::string_view header) {
  const auto fits = [&](const prompt::DefaultTemplateRule& rule) {
    return rule.control_token.empty() || header.find(stored(rule.control_token)) != std::string_view::npos;
  };
  return std::string(std::ranges::find_if(prompt::kDefaultTemplateRules, fits)->name);
}

std::string default_template_of(const fs::path& path, Bytes header_bytes) {
  std::string header(static_cast<std::size_t>(std::min(header_bytes, kMaxHeader)), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(header.data(), static_cast<std::streamsize>(header.size()));
  header.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
  return header.empty() ? std::string() : default_template_of(header);
}

}  // namespace gezel::models
