// Sampling fields, as prompt/sampling_fields.h lists them.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

#include "api/chat_parts.h"
#include "prompt/sampling_fields.h"

namespace gezel::api {
namespace {

using prompt::SamplingOptions;

void read_breakers(const FieldReader& body, SamplingOptions& sampling) {
  constexpr std::string_view kName = prompt::kDryBreakers;
  const auto* list = body.array(kName);
  if (list == nullptr) return;
  if (list->size() > kMaxDryBreakers) {
    return body.problem(kName,
                        fmt::format("must have at most {} strings, not {}", kMaxDryBreakers, list->size()));
  }
  std::vector<std::string> breakers;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const auto* text = (*list)[i].if_string();
    if (text == nullptr || text->empty()) {
      body.problems().add(body.path_of(kName, i), "must be a non-empty string");
    } else {
      breakers.emplace_back(*text);
    }
  }
  sampling.dry_sequence_breakers = std::move(breakers);
}

void read_logit_bias(const FieldReader& body, SamplingOptions& sampling) {
  const auto* map = body.object("logit_bias");
  if (map == nullptr) return;
  if (map->size() > kMaxLogitBias) {
    return body.problem("logit_bias",
                        fmt::format("must have at most {} entries, not {}", kMaxLogitBias, map->size()));
  }
  const FieldReader fields(*map, "logit_bias", body.problems());
  for (const auto& member : *map) {
    const std::string_view key = member.key();
    std::int32_t token = 0;
    const auto [end, failed] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (failed != std::errc() || end != key.data() + key.size() || token < 0) {
      fields.problem(excerpt(key), "the name must be a token id");
      continue;
    }
    if (const auto bias = fields.number(key, {-100, 100})) {
      sampling.logit_bias.emplace_back(token, static_cast<float>(*bias));
    }
  }
}

// The bits of a 64-bit integer with or without a sign; nothing for what is larger.
std::optional<std::uint64_t> integer_bits(const json::value& value) {
  if (const auto* number = value.if_uint64()) return *number;
  if (const auto* number = value.if_int64()) return static_cast<std::uint64_t>(*number);
  const double number = *value.if_double();
  if (number >= 0 && number < 0x1p64) return static_cast<std::uint64_t>(number);
  if (number < 0 && number >= -0x1p63) return static_cast<std::uint64_t>(static_cast<std::int64_t>(number));
  return std::nullopt;
}

// OpenAI allows any 64-bit seed and the engine takes 32 bits: both halves count, so that different seeds stay
// different where they can; the upper one is spread, or -2 would be 1. -1 asks for a random seed, as in
// llama.cpp's server.
void read_seed(const FieldReader& body, SamplingOptions& sampling) {
  const auto* value = body.field("seed");
  if (value == nullptr) return;
  if (!value->is_number()) {
    return body.problem("seed", fmt::format("must be an integer, not {}", kind_name(*value)));
  }
  const auto number = value->to_number<double>();
  if (number != std::trunc(number)) return body.problem("seed", "must be an integer");
  if (number == -1) return;
  const auto bits = integer_bits(*value);
  if (!bits) {
    return body.problem("seed",
                        fmt::format("must be from {} to {}, not {}", std::numeric_limits<std::int64_t>::min(),
                                    std::numeric_limits<std::uint64_t>::max(), number));
  }
  constexpr std::uint32_t kSpread = 0x9E3779B9;  // odd, 2^32 over the golden ratio
  sampling.seed = static_cast<std::uint32_t>(*bits) ^ static_cast<std::uint32_t>(*bits >> 32) * kSpread;
}

}  // namespace

void read_sampling(const FieldReader& body, SamplingOptions& sampling) {
  for (const auto& field : prompt::kSamplingNumbers) {
    if (const auto number = body.number(field.name, {field.low, field.high, field.above_low}))
      sampling.*field.target = static_cast<float>(*number);
  }
  for (const auto& field : prompt::kSamplingIntegers) {
    if (const auto number = body.integer(field.name, field.low, field.high)) {
      sampling.*field.target = static_cast<int>(*number);
    }
  }
  read_breakers(body, sampling);
  read_logit_bias(body, sampling);
  read_seed(body, sampling);
  sampling.ignore_eos = body.boolean("ignore_eos").value_or(false);
}

}  // namespace gezel::api
