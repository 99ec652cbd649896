#include "api/chat_turn.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace gezel::api {
namespace {

std::vector<std::string> ids_in_use(const prompt::GenerateRequest& request) {
  std::vector<std::string> ids;
  for (const auto& message : request.messages) {
    for (const auto& call : message.tool_calls) ids.push_back(call.id);
  }
  return ids;
}

std::vector<turn::ToolSchema> callable_tools(const prompt::GenerateRequest& request) {
  std::vector<turn::ToolSchema> tools;
  if (request.tool_policy == prompt::ToolPolicy::raw) return tools;
  for (const auto& tool : request.tools) {
    if (request.tool_choice == prompt::ToolChoice::named && tool.name != request.tool_name) continue;
    if (auto schema = turn::read_tool_schema(tool.json)) tools.push_back(std::move(*schema));
  }
  return tools;
}

std::optional<turn::Source> source_named(std::string_view name) {
  for (const auto& row : turn::dialects()) {
    if (turn::to_string(row.source) == name) return row.source;
  }
  return std::nullopt;
}

bool about_calls(const turn::Event& event) {
  return std::holds_alternative<turn::CallBegin>(event) ||
         std::holds_alternative<turn::CallArgumentsDelta>(event) ||
         std::holds_alternative<turn::CallEnd>(event);
}

bool needed_repair(const turn::Call& call) {
  return call.malformed || call.provenance.repair > 0 || call.provenance.coerced ||
         call.provenance.source.form == turn::Source::Form::weak;
}

ApiError call_not_produced() {
  ApiError error;
  error.status = 502;
  error.type = "server_error";
  error.code = "tool_call_required_not_produced";
  error.message =
      "tool_choice demands a call, and the model made none that could be read; try again or use \"auto\"";
  error.param = "tool_choice";
  return error;
}

}  // namespace

ChatTurn::ChatTurn(const ChatRequest& request, std::vector<std::string> warnings, Entropy& entropy)
    : choice_(request.generate.tool_choice),
      policy_(request.generate.tool_policy),
      parallel_calls_(request.generate.parallel_tool_calls),
      include_reasoning_(request.include_reasoning),
      asked_for_tuning_profile_(!request.generate.tuning_profile.empty()),
      check_(request.generate.output_format),
      ids_(entropy, ids_in_use(request.generate)),
      tools_(callable_tools(request.generate)),
      warnings_(std::move(warnings)) {}

ChatTurn::~ChatTurn() = default;

turn::ParserOptions ChatTurn::options(const engine::Started& started) {
  turn::ParserOptions out;
  out.family = turn::family_named(started.family).value_or(turn::Family::other);
  out.split_reasoning = started.splits_reasoning;
  out.capture_pre_tool_prose = started.capture_pre_tool_prose;
  if (!started.reasoning_open_marker.empty())
    out.private_markers = {{started.reasoning_open_marker, started.reasoning_close_marker}};
  out.scrub_framing = false;  // the engine leaves control tokens out by id
  out.start = started.reasoning_open ? turn::StartState::open : turn::StartState::closed;
  out.tools = tools_;
  out.tool_choice_none = choice_ == prompt::ToolChoice::none;
  out.parallel_calls = parallel_calls_;
  out.ids = &ids_;
  // Weak forms are guesses; and where a grammar holds the model to strong ones nothing needs to be guessed.
  out.salvage = policy_ == prompt::ToolPolicy::repair ? turn::SalvageLevel::all : turn::SalvageLevel::strong;
  if (tools_.empty()) out.salvage = turn::SalvageLevel::off;
  for (const auto& spelling : started.call_spellings) {
    if (const auto source = source_named(spelling)) out.grammar.push_back(*source);
  }
  return out;
}

void ChatTurn::start(const engine::Started& started) {
  for (const auto& warning : started.warnings) {
    // The engine walks the tools' schemas again.
    if (std::ranges::find(warnings_, warning) == warnings_.end()) warnings_.push_back(warning);
  }
  tuning_profile_ = started.tuning_profile;
  turn::ParserOptions chosen = options(started);
  start_ = chosen.start;
  splitter_.split_reasoning = chosen.split_reasoning;
  splitter_.family = chosen.family;
  splitter_.private_markers = chosen.private_markers;
  splitter_.calls = true;
  parser_.emplace(std::move(chosen));
}

turn::Events ChatTurn::feed(std::string_view text) {
  if (!parser_) start({});
  auto events = parser_->feed(text);
  if (!tools_.empty()) raw_ += text;
  // Whether a call needs no repair is known when it is complete.
  if (policy_ == prompt::ToolPolicy::strict) std::erase_if(events, about_calls);
  if (!include_reasoning_)
    std::erase_if(events, [](const auto& e) { return std::holds_alternative<turn::ReasoningDelta>(e); });
  return events;
}

// What needs repair is no call, but is given back as it was written.
void ChatTurn::make_strict(Finished& finished, turn::Message& message) const {
  std::erase_if(finished.events, about_calls);
  std::vector<turn::Call> kept;
  for (auto& call : message.calls) {
    if (needed_repair(call)) {
      finished.message.unparsed.push_back({call.name, call.arguments_text});
    } else {
      kept.push_back(std::move(call));
    }
  }
  message.calls = std::move(kept);
  message.repairs.clear();
  for (int index = 0; const auto& call : message.calls) {
    finished.events.emplace_back(turn::CallBegin{index, call.id, call.name});
    finished.events.emplace_back(turn::CallArgumentsDelta{index, call.arguments_text});
    finished.events.emplace_back(turn::CallEnd{index++, turn::CallOutcome::complete});
  }
}

// What was written, cut where its first block of reasoning ended.
std::optional<prompt::Sampled> ChatTurn::sampled(bool reasoned) {
  prompt::Sampled out;
  out.began_in_reasoning = start_ == turn::StartState::open;
  if (reasoned) {
    turn::ReasoningTracker tracker(splitter_, start_);
    const auto boundaries = tracker.feed(raw_);
    const auto end = std::ranges::find(boundaries, false, &turn::ReasoningTracker::Boundary::inside);
    if (end == boundaries.end()) return std::nullopt;
    out.reasoning_bytes = end->by_call ? end->begin : end->end;
    while (out.reasoning_bytes < raw_.size() &&
           (raw_[out.reasoning_bytes] == '\n' || raw_[out.reasoning_bytes] == ' '))
      ++out.reasoning_bytes;
  }
  out.text = std::move(raw_);
  return out;
}

ChatTurn::Finished ChatTurn::finish(const engine::Done& done) {
  if (!parser_) start({});
  auto [events, message] = parser_->finish(
      done.reason == engine::FinishReason::length ? turn::FinishReason::length : turn::FinishReason::stop);
  Finished out;
  out.events = std::move(events);
  if (!include_reasoning_)
    std::erase_if(out.events, [](const auto& e) { return std::holds_alternative<turn::ReasoningDelta>(e); });
  if (policy_ == prompt::ToolPolicy::strict) make_strict(out, message);
  const bool reasoned = !message.reasoning.empty();
  out.message.content = std::move(message.content);
  if (include_reasoning_ && !message.reasoning.empty()) out.message.reasoning = std::move(message.reasoning);
  for (auto& call : message.calls) {
    out.message.calls.push_back({std::move(call.id), std::move(call.name), std::move(call.arguments_text),
                                 std::move(call.engine_id)});
  }
  if (!out.message.calls.empty()) out.message.sampled = sampled(reasoned);
  for (auto& lost : message.unparsed)
    out.message.unparsed.push_back({std::move(lost.name), std::move(lost.text)});
  out.message.repairs = std::move(message.repairs);
  if (asked_for_tuning_profile_ || !tuning_profile_.empty())
    out.message.tuning_profile = std::move(tuning_profile_);
  out.message.warnings = std::move(warnings_);
  for (const auto& warning : done.warnings) out.message.warnings.push_back(warning);
  const bool must_call = choice_ == prompt::ToolChoice::required || choice_ == prompt::ToolChoice::named;
  if (done.reason != engine::FinishReason::stop) return out;
  if (must_call && out.message.calls.empty()) out.error = call_not_produced();
  if (out.message.calls.empty() && !out.error) out.error = check_.judge(out.message.content);
  return out;
}

}  // namespace gezel::api
