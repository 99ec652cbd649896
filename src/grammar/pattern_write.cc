// The constraint library matches whole texts. So a pattern is split into variants that say on which sides
// they are tied to the edges of the text, and "anything" is put on the sides where they are not.
#include <fmt/format.h>

#include "grammar/pattern.h"

namespace gezel::grammar {

namespace {

using Kind = PatternNode::Kind;

constexpr std::size_t kMostVariants = 64;
constexpr std::string_view kAnything = "(?s:.*)";

struct Variant {
  bool from_begin = false;
  bool to_end = false;
  std::string text;
  bool blank = true;  // `text` stands for nothing
};
using Variants = std::vector<Variant>;

std::unexpected<Error> unsupported(std::string what) {
  return fail(ErrorKind::invalid, "pattern-unsupported", std::move(what));
}

std::string counted(std::string_view text, std::uint32_t min, std::uint32_t max) {
  const std::string group = fmt::format("(?:{})", text);
  if (max == kUnbounded)
    return min == 0 ? group + "*" : min == 1 ? group + "+" : fmt::format("{}{{{},}}", group, min);
  if (min == 0 && max == 1) return group + "?";
  return fmt::format("{}{{{},{}}}", group, min, max);
}

Result<Variants> variants_of(const PatternNode& node);

Result<Variants> sequence(const PatternNode& node) {
  Variants joined = {{}};
  for (const auto& child : node.children) {
    GEZEL_TRY(const Variants next, variants_of(child));
    Variants longer;
    for (const auto& left : joined) {
      for (const auto& right : next) {
        if ((right.from_begin && !left.blank) || (left.to_end && !right.blank)) {
          return unsupported("'^' and '$' are supported at the edges of a pattern only");
        }
        longer.push_back({left.from_begin || right.from_begin, left.to_end || right.to_end,
                          left.text + right.text, left.blank && right.blank});
      }
    }
    if (longer.size() > kMostVariants)
      return unsupported("the pattern has too many alternatives with '^' and '$'");
    joined = std::move(longer);
  }
  return joined;
}

Result<Variants> alternatives(const PatternNode& node) {
  Variants tied;
  std::string free;  // the variants that are tied to no edge are one
  bool any_free = false;
  bool blank = true;
  for (const auto& child : node.children) {
    GEZEL_TRY(Variants next, variants_of(child));
    for (auto& variant : next) {
      if (variant.from_begin || variant.to_end) {
        tied.push_back(std::move(variant));
        continue;
      }
      free += (any_free ? "|" : "") + variant.text;
      any_free = true;
      blank = blank && variant.blank;
    }
  }
  if (any_free) tied.push_back({false, false, blank ? std::string() : "(?:" + free + ")", blank});
  return tied;
}

Result<Variants> variants_of(const PatternNode& node) {
  switch (node.kind) {
    case Kind::empty:
      return Variants{{}};
    case Kind::set:
      return Variants{{false, false, regex_class(node.set), false}};
    case Kind::property:
      return Variants{{false, false, node.property, false}};
    case Kind::concat:
      return sequence(node);
    case Kind::alternate:
      return alternatives(node);
    case Kind::text_begin:
      return Variants{{true, false, {}, true}};
    case Kind::text_end:
      return Variants{{false, true, {}, true}};
    case Kind::word_boundary:
    case Kind::no_word_boundary:
      return unsupported("word boundaries (\\b, \\B) are not supported");
    case Kind::repeat:
      break;
  }
  GEZEL_TRY(Variants inner, variants_of(node.children[0]));
  if (inner.size() == 1 && !inner[0].from_begin && !inner[0].to_end) {
    if (inner[0].blank || node.max == 0) return Variants{{}};
    return Variants{{false, false, counted(inner[0].text, node.min, node.max), false}};
  }
  // "(^a)?" and "(^a)": no more than once, so the edges stay edges.
  if (node.max != 1) return unsupported("'^' and '$' inside a repetition are not supported");
  if (node.min == 0) inner.push_back({});
  return inner;
}

}  // namespace

Result<std::string> pattern_for_constraint(const PatternNode& node) {
  GEZEL_TRY(const Variants variants, variants_of(node));
  std::string text;
  for (const auto& variant : variants) {
    if (!text.empty()) text += '|';
    if (!variant.from_begin) text += kAnything;
    text += variant.text;
    // "anything" twice in a row is once
    if (!variant.to_end && !(variant.blank && !variant.from_begin)) text += kAnything;
    if (variant.from_begin && variant.to_end && variant.blank) text += "(?:)";
  }
  return "^(?:" + text + ")$";
}

}  // namespace gezel::grammar
