// Sampling fields: one row each. Names are OpenAI's where it has one, else those of llama.cpp's server.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "api/chat_parts.h"

namespace gezel::api {
namespace {

using prompt::SamplingOptions;

constexpr std::int64_t kIntMax = std::numeric_limits<int>::max();

struct NumberField {
  std::string_view name;
  Range range;
  std::optional<float> SamplingOptions::* target;
};
const std::array kNumbers{
    NumberField{"temperature", {0, 2}, &SamplingOptions::temperature},
    NumberField{"top_p", {0, 1}, &SamplingOptions::top_p},
    NumberField{"min_p", {0, 1}, &SamplingOptions::min_p},
    NumberField{"typical_p", {0, 1}, &SamplingOptions::typical_p},
    NumberField{"presence_penalty", {-2, 2}, &SamplingOptions::presence_penalty},
    NumberField{"frequency_penalty", {-2, 2}, &SamplingOptions::frequency_penalty},
    // Two names of one thing; the later row wins.
    NumberField{"repetition_penalty", {0, 100, true}, &SamplingOptions::repeat_penalty},
    NumberField{"repeat_penalty", {0, 100, true}, &SamplingOptions::repeat_penalty},
    NumberField{"dry_multiplier", {0, 100}, &SamplingOptions::dry_multiplier},
    NumberField{"dry_base", {1, 100}, &SamplingOptions::dry_base},
    NumberField{"xtc_probability", {0, 1}, &SamplingOptions::xtc_probability},
    NumberField{"xtc_threshold", {0, 1}, &SamplingOptions::xtc_threshold},
    NumberField{"mirostat_tau", {0, 100}, &SamplingOptions::mirostat_tau},
    NumberField{"mirostat_eta", {0, 1}, &SamplingOptions::mirostat_eta},
};

struct IntegerField {
  std::string_view name;
  std::int64_t low, high;
  std::optional<int> SamplingOptions::* target;
};
const std::array kIntegers{
    IntegerField{"top_k", -1, kIntMax, &SamplingOptions::top_k},
    IntegerField{"repeat_last_n", -1, kIntMax, &SamplingOptions::repeat_last_n},
    IntegerField{"dry_allowed_length", 0, kIntMax, &SamplingOptions::dry_allowed_length},
    IntegerField{"dry_penalty_last_n", -1, kIntMax, &SamplingOptions::dry_penalty_last_n},
    IntegerField{"mirostat", 0, 2, &SamplingOptions::mirostat},
};

void read_breakers(const FieldReader& body, SamplingOptions& sampling) {
  constexpr std::string_view kName = "dry_sequence_breakers";
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
  for (const auto& field : kNumbers) {
    if (const auto number = body.number(field.name, field.range))
      sampling.*field.target = static_cast<float>(*number);
  }
  for (const auto& field : kIntegers) {
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
