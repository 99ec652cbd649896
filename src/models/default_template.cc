#include "models/default_template.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>

namespace gezel::models {
namespace {

constexpr Bytes kMaxHeader = 128 * kMiB;  // vocabularies of a million tokens are a tenth of it

struct Row {
  std::string_view name, control_token;
};
// The order and names of template/default_templates.h, which lives in the worker.
constexpr std::array kRows{
    Row{"default:gemma", "<start_of_turn>"},
    Row{"default:chatml", "<|im_start|>"},
    Row{"default:llama3", "<|start_header_id|>"},
    Row{"default:mistral", "[INST]"},
};
constexpr std::string_view kOtherwise = "default:plain";

// A text as GGUF stores it: its length as a little-endian 64-bit number, then its bytes.
std::string stored(std::string_view text) {
  std::string out;
  for (int shift = 0; shift < 64; shift += 8)
    out += static_cast<char>((std::uint64_t{text.size()} >> shift) & 0xFF);
  return out.append(text);
}

}  // namespace

std::string default_template_of(std::string_view header) {
  const auto row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& candidate) {
    return header.find(stored(candidate.control_token)) != std::string_view::npos;
  });
  return std::string(row == kRows.end() ? kOtherwise : row->name);
}

std::string default_template_of(const fs::path& path, Bytes header_bytes) {
  std::string header(static_cast<std::size_t>(std::min(header_bytes, kMaxHeader)), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(header.data(), static_cast<std::streamsize>(header.size()));
  header.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
  return header.empty() ? std::string() : default_template_of(header);
}

}  // namespace gezel::models
