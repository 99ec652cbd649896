#include "worker/constraints.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "turn/reasoning_markers.h"
#include "worker/constraint_vocabulary.h"
#include "worker/tool_block.h"

namespace gezel::worker {
namespace {

using prompt::OutputFormat;
using prompt::ToolChoice;

grammar::ConstraintSpec spec_of(const OutputFormat& format) {
  using grammar::ConstraintKind;
  switch (format.kind) {
    case OutputFormat::Kind::json_schema:
      return {ConstraintKind::json_schema, format.definition};
    case OutputFormat::Kind::regex:
      return {ConstraintKind::regex, format.definition};
    case OutputFormat::Kind::lark:
      return {ConstraintKind::lark, format.definition};
    case OutputFormat::Kind::gbnf:
      return {ConstraintKind::gbnf, format.definition};
    case OutputFormat::Kind::text:
    case OutputFormat::Kind::json_object:
      break;
  }
  return {ConstraintKind::json_object, {}};
}

// The closer of the style's own markers, else of the first marker that the template shows.
std::string closer_of(const ConstraintsOptions& options) {
  if (!options.style.reasoning_close.empty()) return options.style.reasoning_close;
  for (const auto& row : turn::reasoning_markers()) {
    if (options.template_source.contains(row.open) && options.template_source.contains(row.close))
      return std::string(row.close);
  }
  return {};
}

// {"name", "parameters", "strict"}: what walk_tools reads.
json::array callable(const prompt::GenerateRequest& request) {
  json::array out;
  for (const auto& tool : request.tools) {
    if (request.tool_choice == ToolChoice::named && tool.name != request.tool_name) continue;
    auto parsed = parse_json(tool.json);
    const auto* object = parsed ? parsed->if_object() : nullptr;
    const auto* function = object != nullptr ? object_at(*object, "function") : nullptr;
    if (function != nullptr) out.push_back(*function);
  }
  return out;
}

}  // namespace

Constraints::Constraints(ConstraintsOptions options, const llama::Vocab& vocab, const OutputText& output,
                         MaskThread& masks)
    : options_(std::move(options)),
      vocab_(vocab),
      output_(output),
      masks_(masks),
      closer_(closer_of(options_)) {}

Result<std::shared_ptr<const grammar::Vocabulary>> Constraints::vocabulary() {
  if (vocabulary_) return vocabulary_;
  GEZEL_TRY(vocabulary_, constraint_vocabulary(vocab_));
  return vocabulary_;
}

// The tokens that begin a call, where they are tokens of their own.
std::vector<llama::Token> Constraints::openers() const {
  std::vector<llama::Token> out;
  const auto* dialect =
      grammar::find_tool_dialect(options_.template_shows_tools ? std::string_view(options_.style.dialect)
                                                               : std::string_view(kBlockDialect));
  if (dialect == nullptr) return out;
  std::string_view rest = dialect->triggers;
  while (!rest.empty()) {
    const auto end = std::min(rest.find(','), rest.size());
    const llama::Token token = vocab_.find_special(rest.substr(0, end));
    if (token >= 0) out.push_back(token);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}

Result<> Constraints::steer_format(const prompt::GenerateRequest& request, SteeringPlan& plan) {
  GEZEL_TRY(plan.vocabulary, vocabulary());
  GEZEL_TRY(auto prepared, grammar::prepare(spec_of(request.output_format)));
  prepared.spec.leading_space = plan.reasoning_open;
  GEZEL_TRY(plan.constraint, compiled_.get(prepared.spec, plan.vocabulary));
  return {};
}

Result<> Constraints::steer_tools(const prompt::GenerateRequest& request, SteeringPlan& plan,
                                  Steered& steered, std::vector<std::string>& warnings) {
  grammar::ToolSet set;
  set.dialect = options_.template_shows_tools ? options_.style.dialect : std::string(kBlockDialect);
  const auto* dialect = grammar::find_tool_dialect(set.dialect);
  if (dialect == nullptr) return {};  // nobody knows how this model spells calls: they are found in its text
  GEZEL_TRY(set.tools, grammar::walk_tools(callable(request), warnings));
  if (set.tools.empty()) return {};
  set.parallel = request.parallel_tool_calls;
  const bool must_call =
      request.tool_choice == ToolChoice::required || request.tool_choice == ToolChoice::named;
  if (must_call) set.mode = grammar::ToolMode::eager;
  if (request.output_format.kind != OutputFormat::Kind::text) {
    auto schema = parse_json(request.output_format.definition.empty() ? R"({"type":"object"})"
                                                                      : request.output_format.definition);
    if (!schema) return std::unexpected(schema.error());
    GEZEL_TRY(set.answer, grammar::walk_schema(*schema, grammar::SchemaMode::strict));
    set.mode = grammar::ToolMode::eager;
  }
  GEZEL_TRY(plan.vocabulary, vocabulary());
  grammar::ConstraintSpec spec{grammar::ConstraintKind::tools, grammar::tool_set_text(set)};
  spec.leading_space = plan.reasoning_open && set.mode == grammar::ToolMode::eager;
  auto compiled = compiled_.get(spec, plan.vocabulary);
  if (!compiled) {
    GEZEL_CHECK(grammar::settle_tools(set, warnings));
    spec.text = grammar::tool_set_text(set);
    compiled = compiled_.get(spec, plan.vocabulary);
  }
  GEZEL_TRY(auto matcher, std::move(compiled));
  if (set.mode == grammar::ToolMode::eager) {
    plan.constraint = std::move(matcher);
  } else {
    GEZEL_TRY(auto lazy, grammar::tool_grammar(set, *plan.vocabulary));
    plan.calls.emplace(std::move(matcher), std::move(lazy.triggers),
                       grammar::LazyOptions{.parallel = set.parallel, .triggers_end_reasoning = true});
  }
  steered.spellings.push_back(
      fmt::format("{}:{}", dialect->row.starts_with('F') ? "family" : "strong", dialect->row));
  return {};
}

Result<Steered> Constraints::steer(const prompt::GenerateRequest& request, bool reasoning_open,
                                   std::vector<std::string>& warnings) {
  Steered out;
  SteeringPlan plan;
  plan.bytes = [this](Token token) { return output_(token); };
  plan.take_forced = !request.logprobs;
  plan.reasoning_open = reasoning_open;
  plan.guard_repetition = request.guards;
  if (options_.reasons || reasoning_open) {
    plan.markers.emplace();
    plan.markers->family = turn::family_named(options_.style.family).value_or(turn::Family::other);
    if (!options_.style.reasoning_open.empty())
      plan.markers->private_markers = {{options_.style.reasoning_open, options_.style.reasoning_close}};
  }
  if (request.max_thinking_tokens && *request.max_thinking_tokens > 0) {
    plan.thinking_budget = *request.max_thinking_tokens;
    if (closer_.empty()) {
      warnings.push_back(
          "max_thinking_tokens: this model's template shows no end of reasoning; there is no budget");
    } else {
      plan.closer = vocab_.tokenize(closer_, false, true);
    }
  }

  if (!request.tools.empty() && request.tool_choice == ToolChoice::none) out.banned = openers();
  const bool format = request.output_format.kind != OutputFormat::Kind::text;
  const bool tools = !request.tools.empty() && request.tool_choice != ToolChoice::none &&
                     request.tool_policy != prompt::ToolPolicy::raw;
  if (tools) {
    const auto done = steer_tools(request, plan, out, warnings);
    if (!done && format) return std::unexpected(done.error());
    if (!done) {
      log_warn("no grammar for these tools", {{"reason", done.error().message}});
      warnings.push_back("tools: calls are not held to their schemas: " + done.error().message);
    }
  } else if (format) {
    GEZEL_CHECK(steer_format(request, plan));
  }
  out.steering = std::make_unique<RunSteering>(std::move(plan), masks_);
  return out;
}

}  // namespace gezel::worker
