#include "engine/engine_key.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace gezel::engine {
namespace {

constexpr std::array<std::string_view, 3> kFamilies = {"llama-cpp", "mlx", "ds4"};

std::unexpected<Error> bad_key(std::string_view text, std::string_view problem) {
  return fail(ErrorKind::invalid, "invalid_engine_key",
              fmt::format("'{}' is no engine key: {}. Expected <family>:<model>:<replica>, for example "
                          "llama-cpp:smollm2-135m-instruct:0.",
                          text.substr(0, 200), problem));
}

}  // namespace

Result<EngineKey> parse_engine_key(std::string_view text) {
  const auto first = text.find(':');
  const auto last = text.rfind(':');
  if (first == std::string_view::npos || first == last) return bad_key(text, "it needs two colons");
  const auto family = text.substr(0, first);
  const auto model = text.substr(first + 1, last - first - 1);
  const auto replica = text.substr(last + 1);
  if (std::ranges::find(kFamilies, family) == kFamilies.end())
    return bad_key(text, "the family is not llama-cpp, mlx or ds4");
  if (model.empty()) return bad_key(text, "the model is empty");
  EngineKey key{std::string(family), std::string(model), 0};
  const auto [end, failed] = std::from_chars(replica.data(), replica.data() + replica.size(), key.replica);
  const bool canonical = replica == "0" || (!replica.empty() && replica[0] != '0');
  if (failed != std::errc{} || end != replica.data() + replica.size() || !canonical)
    return bad_key(text, "the replica is not a decimal number without sign and leading zeros");
  return key;
}

std::string to_string(const EngineKey& key) {
  return fmt::format("{}:{}:{}", key.family, key.model, key.replica);
}

}  // namespace gezel::engine
