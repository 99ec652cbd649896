// Any JSON as a schema: the walk ends, names places that exist, and what it makes of a schema compiles or is
// refused. What a constraint then lets through, the validator, written apart, finds right.
#include <cstdlib>
#include <random>

#include "grammar/matcher.h"
#include "grammar/schema_settle.h"
#include "grammar/validator.h"

namespace {

using namespace gezel;
using namespace gezel::grammar;

void require(bool holds) {
  if (!holds) std::abort();
}

bool one_line(const std::string& text) {
  return !text.empty() && text.find('\n') == std::string::npos;
}

std::optional<std::string> random_text(Matcher& matcher, std::mt19937& random) {
  std::vector<std::uint32_t> mask(matcher.vocabulary().mask_words());
  std::string text;
  while (text.size() < 200) {
    if (matcher.accepting() && (matcher.stopped() || random() % 4 == 0)) return text;
    if (!matcher.compute_mask(mask)) return std::nullopt;
    std::vector<Token> allowed;
    for (Token token = 0; token < 255; ++token) {
      if ((mask[static_cast<std::size_t>(token) / 32] >> (token % 32) & 1) != 0) allowed.push_back(token);
    }
    if (allowed.empty()) return std::nullopt;
    const Token token = allowed[random() % allowed.size()];
    require(matcher.consume(token).has_value());
    text += static_cast<char>(token);
  }
  return std::nullopt;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto schema = parse_json(text);
  if (!schema) return 0;
  const SchemaLimits limits{.bytes = 16 * 1024, .nodes = 2000};

  auto lenient = walk_schema(*schema, SchemaMode::lenient, limits);
  if (lenient) {
    require(parse_json(schema_text(*lenient)).has_value() || schema_text(*lenient).size() > 1000);
    for (const auto& warning : lenient->warnings)
      require(warning.starts_with("#") || warning.starts_with("and "));
  }
  auto strict = walk_schema(*schema, SchemaMode::strict, limits);
  if (!strict) {
    require(one_line(strict.error().message) && strict.error().code.starts_with("schema-"));
    return 0;
  }
  require(lenient.has_value());
  if (const auto settled = settle_schema(*strict, SchemaMode::strict); !settled) {
    require(settled.error().code == "constraint-unusable");
    return 0;
  }
  auto matcher = Matcher::compile(Vocabulary::of_bytes(), Notation::json_schema, schema_text(*strict));
  if (!matcher) return 0;
  // A key may come twice, and then it is counted once.
  if (text.find("Properties\"") != std::string_view::npos) return 0;
  Validator validator(*schema);
  std::mt19937 random(static_cast<unsigned>(size));
  for (int round = 0; round < 3; ++round) {
    auto fresh = matcher->clone();
    const auto answer = random_text(fresh, random);
    const auto value = answer ? parse_json(*answer) : Result<json::value>(json::value());
    if (!answer || !value) continue;
    const auto verdict = validator.check(*value);
    require(verdict.valid);
  }
  return 0;
}
