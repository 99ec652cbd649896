#include "grammar/constraint.h"

#include <fmt/format.h>

#include <array>

#include "grammar/gbnf.h"
#include "grammar/lark_text.h"
#include "grammar/schema_settle.h"
#include "grammar/tool_grammar.h"

namespace gezel::grammar {

namespace {

struct KindName {
  ConstraintKind kind;
  std::string_view name;
};
constexpr std::array kKindNames = {
    KindName{ConstraintKind::json_object, "json_object"},
    KindName{ConstraintKind::json_schema, "json_schema"},
    KindName{ConstraintKind::regex, "regex"},
    KindName{ConstraintKind::lark, "lark"},
    KindName{ConstraintKind::gbnf, "gbnf"},
    KindName{ConstraintKind::tools, "tools"},
};

constexpr std::string_view kLeadingSpace = "/[ \\t\\r\\n]{1,8}/";

Result<> within(const ConstraintSpec& spec, std::size_t limit) {
  if (spec.text.size() <= limit) return {};
  return fail(ErrorKind::too_large, "grammar-invalid",
              fmt::format("The {} has {} bytes; {} are allowed. Make it smaller.",
                          constraint_kind_name(spec.kind), spec.text.size(), limit));
}

std::unexpected<Error> invalid(ConstraintKind kind, const Error& why) {
  return fail(why.kind, why.code == "constraint-unusable" ? "grammar-invalid" : why.code,
              fmt::format("The {} cannot be used: {}", constraint_kind_name(kind), why.message), why.param);
}

// It compiles, and something can be written under it at all.
Result<> try_out(const ConstraintSpec& spec, const MatcherLimits& limits) {
  GEZEL_TRY(auto matcher, compile(spec, Vocabulary::of_bytes(), limits));
  std::vector<std::uint32_t> mask(matcher.vocabulary().mask_words());
  if (const auto computed = matcher.compute_mask(mask); !computed) {
    return fail(ErrorKind::invalid, "constraint-unusable", computed.error().message);
  }
  return {};
}

Result<PreparedConstraint> prepare_schema(const ConstraintSpec& wanted, SchemaMode mode,
                                          const ConstraintLimits& limits) {
  json::value schema = json::object{{"type", "object"}};
  if (wanted.kind == ConstraintKind::json_schema) {
    GEZEL_TRY(schema, parse_json(wanted.text));
  }
  GEZEL_TRY(auto walked, walk_schema(schema, mode, limits.schema));
  GEZEL_CHECK(settle_schema(walked, mode, limits.matcher));
  PreparedConstraint prepared;
  prepared.spec = {ConstraintKind::json_schema, schema_text(walked), wanted.leading_space};
  prepared.warnings = std::move(walked.warnings);
  GEZEL_CHECK(try_out(prepared.spec, limits.matcher));
  return prepared;
}

Result<std::string> as_lark(const ConstraintSpec& wanted) {
  if (wanted.kind == ConstraintKind::gbnf) return gbnf_to_lark(wanted.text);
  if (wanted.kind == ConstraintKind::regex) return "start: " + lark_regex(wanted.text) + "\n";
  GEZEL_CHECK(refuse_tokens_in_lark(wanted.text));
  return wanted.text;
}

}  // namespace

std::string_view constraint_kind_name(ConstraintKind kind) {
  for (const auto& row : kKindNames) {
    if (row.kind == kind) return row.name;
  }
  return {};
}

std::optional<ConstraintKind> constraint_kind(std::string_view name) {
  for (const auto& row : kKindNames) {
    if (row.name == name) return row.kind;
  }
  return std::nullopt;
}

Result<PreparedConstraint> prepare(const ConstraintSpec& wanted, SchemaMode mode,
                                   const ConstraintLimits& limits) {
  switch (wanted.kind) {
    case ConstraintKind::json_object:
    case ConstraintKind::json_schema:
      return prepare_schema(wanted, mode, limits);
    case ConstraintKind::tools: {
      GEZEL_CHECK(try_out(wanted, limits.matcher));
      return PreparedConstraint{wanted, {}};
    }
    default:
      break;
  }
  GEZEL_CHECK(within(wanted, limits.text_bytes));
  auto lark = as_lark(wanted);
  if (!lark) return invalid(wanted.kind, lark.error());
  PreparedConstraint prepared{{ConstraintKind::lark, std::move(*lark), wanted.leading_space}, {}};
  if (auto tried = try_out(prepared.spec, limits.matcher); !tried) return invalid(wanted.kind, tried.error());
  return prepared;
}

Result<Matcher> compile(const ConstraintSpec& spec, std::shared_ptr<const Vocabulary> vocabulary,
                        const MatcherLimits& limits) {
  if (spec.kind == ConstraintKind::tools) {
    GEZEL_TRY(const auto tools, read_tool_set(spec.text));
    GEZEL_TRY(const auto grammar, tool_grammar(tools, *vocabulary));
    return Matcher::compile(std::move(vocabulary), Notation::lark,
                            with_leading_space(grammar.lark, spec.leading_space), limits);
  }
  if (spec.kind == ConstraintKind::lark) {
    return Matcher::compile(std::move(vocabulary), Notation::lark,
                            with_leading_space(spec.text, spec.leading_space), limits);
  }
  if (!spec.leading_space)
    return Matcher::compile(std::move(vocabulary), Notation::json_schema, spec.text, limits);
  const auto lark = fmt::format("start: {}? answer\nanswer: %json {}\n", kLeadingSpace, spec.text);
  return Matcher::compile(std::move(vocabulary), Notation::lark, lark, limits);
}

}  // namespace gezel::grammar
