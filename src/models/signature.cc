#include "models/signature.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <string>

#include "base/json.h"

namespace gezel::models {
namespace {

constexpr std::uint64_t kMaxHeader = 16 * kMiB;

std::unexpected<Error> no_model(const fs::path& path) {
  return fail(ErrorKind::invalid, "not_a_model",
              fmt::format("{} is neither a GGUF nor a safetensors file", path.filename().string()));
}

}  // namespace

Result<> check_signature(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 8> start{};
  if (!file.read(start.data(), start.size())) return no_model(path);
  if (std::string_view(start.data(), 4) == "GGUF") return {};
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(start[i]);
  if (length < 2 || length > kMaxHeader) return no_model(path);
  std::string header(length, '\0');
  if (!file.read(header.data(), static_cast<std::streamsize>(length))) return no_model(path);
  const auto parsed = parse_json(header);
  return parsed && parsed->is_object() ? Result<>{} : no_model(path);
}

}  // namespace gezel::models
