#include "api/responses_form.h"

#include <fmt/format.h>

#include <utility>

#include "api/json_text.h"
#include "api/reply_parts.h"

namespace gezel::api {
namespace {

constexpr std::string_view kContentPlace = R"("content_index":0,)";
constexpr std::string_view kSummaryPlace = R"("summary_index":0,)";

// What Codex and others do next depends on the code (section 7.5 rule 9).
std::string stream_code(const ApiError& error) {
  if (error.code == "context_length_exceeded" || error.code == "unsupported_response_format")
    return error.code;
  if (error.code == "capacity_denied" || error.code == "engine_busy" || error.code == "slow_down" ||
      error.code == "shutting_down")
    return "server_is_overloaded";
  if (error.status == 429) return "rate_limit_exceeded";
  if (error.code == "server_error") return error.code;
  if (error.status >= 400 && error.status < 500) return "invalid_prompt";
  return "provider_error";
}

json::object usage_json(const engine::Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}, {"cache_write_tokens", 0}}},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

json::array logprobs_json(std::span<const engine::TokenLogprob> tokens) {
  json::array out;
  for (const auto& token : tokens) {
    json::object entry = logprob_json(token);
    json::array top;
    for (const auto& other : token.top) top.push_back(logprob_json(other));
    entry["top_logprobs"] = std::move(top);
    out.push_back(std::move(entry));
  }
  return out;
}

// The text that a custom tool gets; nothing when the model's arguments are not {"input": <text>}.
std::optional<std::string> custom_input(std::string_view arguments) {
  const auto parsed = parse_json(arguments);
  const auto* object = parsed ? parsed->if_object() : nullptr;
  const auto* input = object == nullptr ? nullptr : object->if_contains("input");
  if (input == nullptr || !input->is_string()) return std::nullopt;
  return std::string(input->get_string());
}

json::object text_part_of(std::string_view text, std::span<const engine::TokenLogprob> logprobs) {
  return {{"type", "output_text"},
          {"text", text},
          {"annotations", json::array()},
          {"logprobs", logprobs_json(logprobs)}};
}

}  // namespace

ResponsesForm::ResponsesForm(const Clock& clock, Entropy& entropy, std::string model,
                             ResponsesRequest request)
    : clock_(clock),
      entropy_(entropy),
      id_("resp_" + new_uuid(entropy)),
      created_(unix_seconds(clock.wall_now())),
      model_(std::move(model)),
      request_(std::move(request)) {}

json::object ResponsesForm::response(std::string_view status) const {
  json::object out{{"id", id_},
                   {"object", "response"},
                   {"created_at", created_},
                   {"completed_at", nullptr},
                   {"status", status},
                   {"error", nullptr},
                   {"incomplete_details", nullptr},
                   {"model", model_},
                   {"output", json::array()},
                   {"output_text", ""},
                   {"usage", nullptr}};
  for (const auto& member : request_.echo) out.insert(member);
  return out;
}

std::string ResponsesForm::opener() {
  emit_response("response.created", response("in_progress"));
  emit_response("response.in_progress", response("in_progress"));
  return taken();
}

// A real event: some clients take comments for silence, and give up on it.
std::string ResponsesForm::keepalive(const std::optional<engine::Progress>&) {
  json::object snapshot = response("in_progress");
  snapshot["tools"] = json::array();
  snapshot["instructions"] = nullptr;
  emit_response("response.in_progress", std::move(snapshot));
  return taken();
}

std::string ResponsesForm::delta(const turn::Events& events, std::span<const engine::TokenLogprob> logprobs) {
  unsent_logprobs_.insert(unsent_logprobs_.end(), logprobs.begin(), logprobs.end());
  for (const turn::Event& event : events) on_event(event);
  return taken();
}

void ResponsesForm::on_event(const turn::Event& event) {
  if (fault_) return;
  if (const auto* content = std::get_if<turn::ContentDelta>(&event)) {
    on_text(content->text);
  } else if (const auto* reasoning = std::get_if<turn::ReasoningDelta>(&event)) {
    on_reasoning(reasoning->text);
  } else if (const auto* begin = std::get_if<turn::CallBegin>(&event)) {
    on_call(*begin);
  } else if (const auto* arguments = std::get_if<turn::CallArgumentsDelta>(&event)) {
    on_arguments(arguments->text);
  } else if (std::holds_alternative<turn::CallEnd>(event)) {
    close("completed");
  }
  // Nothing that was shown can be taken back: Replace has no event.
}

void ResponsesForm::on_text(std::string_view text) {
  if (open_ != Open::message) {
    close("completed");
    open(Open::message, {{"id", new_id("msg_")},
                         {"type", "message"},
                         {"role", "assistant"},
                         {"status", "in_progress"},
                         {"content", json::array()}});
    if (fault_) return;
    emit("response.content_part.added", with_place({{"content_index", 0}, {"part", text_part_of("", {})}}));
  }
  if (text_bytes_ += text.size(); text_bytes_ > kMaxText)
    return break_off(fmt::format("the answer's text is longer than {} bytes", kMaxText));
  item_text_ += text;
  item_logprobs_.insert(item_logprobs_.end(), unsent_logprobs_.begin(), unsent_logprobs_.end());
  std::string logprobs = R"(,"logprobs":[])";
  if (!unsent_logprobs_.empty())
    logprobs = fmt::format(R"(,"logprobs":{})", to_json(logprobs_json(std::exchange(unsent_logprobs_, {}))));
  emit_delta("response.output_text.delta", kContentPlace, text, logprobs);
}

void ResponsesForm::on_reasoning(std::string_view text) {
  if (open_ != Open::reasoning) {
    close("completed");
    open(Open::reasoning, {{"id", new_id("rs_")},
                           {"type", "reasoning"},
                           {"status", "in_progress"},
                           {"summary", json::array()},
                           {"content", json::array()},
                           {"encrypted_content", nullptr}});
    if (fault_) return;
    emit("response.reasoning_summary_part.added",
         with_place({{"summary_index", 0}, {"part", {{"type", "summary_text"}, {"text", ""}}}}));
  }
  if (text_bytes_ += text.size(); text_bytes_ > kMaxText)
    return break_off(fmt::format("the answer's text is longer than {} bytes", kMaxText));
  item_text_ += text;
  emit_delta("response.reasoning_summary_text.delta", kSummaryPlace, text);
}

void ResponsesForm::on_call(const turn::CallBegin& call) {
  close("completed");
  const auto known = request_.tools.find(call.name);
  const bool custom = known != request_.tools.end() && known->second.kind == ResponsesTool::Kind::custom;
  json::object item{{"id", new_id(custom ? "ctc_" : "fc_")},
                    {"type", custom ? "custom_tool_call" : "function_call"},
                    {"call_id", call.id}};
  item["name"] = known == request_.tools.end() ? call.name : known->second.name;
  if (known != request_.tools.end() && !known->second.name_space.empty())
    item["namespace"] = known->second.name_space;
  item[custom ? "input" : "arguments"] = "";
  item["status"] = "in_progress";
  open(custom ? Open::custom : Open::function, std::move(item));
}

void ResponsesForm::on_arguments(std::string_view text) {
  if (open_ != Open::function && open_ != Open::custom) return;
  item_text_ += text;
  if (item_text_.size() > kMaxArguments)
    return break_off(fmt::format("a call's arguments are longer than {} bytes", kMaxArguments));
  if (open_ == Open::function) emit_delta("response.function_call_arguments.delta", "", text);
}

void ResponsesForm::open(Open kind, json::object item) {
  if (output_.size() == kMaxItems)
    return break_off(fmt::format("the answer has more than {} items", kMaxItems));
  open_ = kind;
  item_ = std::move(item);
  item_text_.clear();
  item_logprobs_.clear();
  // A custom call is shown when it is complete: until then nobody can say what its input is.
  if (kind != Open::custom)
    emit("response.output_item.added", {{"output_index", output_.size()}, {"item", item_}});
}

void ResponsesForm::close(std::string_view status) {
  if (open_ == Open::none) return;
  if (open_ == Open::message) {
    close_message();
  } else if (open_ == Open::reasoning) {
    close_reasoning();
  } else if (open_ == Open::function) {
    close_function();
  } else {
    close_custom(status);
    if (fault_) return;
  }
  item_["status"] = status;
  emit("response.output_item.done", {{"output_index", output_.size()}, {"item", item_}});
  output_.push_back(std::exchange(item_, {}));
  open_ = Open::none;
}

void ResponsesForm::close_message() {
  json::object part = text_part_of(item_text_, item_logprobs_);
  emit("response.output_text.done",
       with_place({{"content_index", 0}, {"text", item_text_}, {"logprobs", part.at("logprobs")}}));
  emit("response.content_part.done", with_place({{"content_index", 0}, {"part", part}}));
  item_["content"] = json::array{std::move(part)};
  text_ += item_text_;
}

void ResponsesForm::close_reasoning() {
  emit("response.reasoning_summary_text.done", with_place({{"summary_index", 0}, {"text", item_text_}}));
  const json::object part{{"type", "summary_text"}, {"text", item_text_}};
  emit("response.reasoning_summary_part.done", with_place({{"summary_index", 0}, {"part", part}}));
  item_["summary"] = json::array{part};
}

void ResponsesForm::close_function() {
  item_["arguments"] = item_text_;
  emit("response.function_call_arguments.done",
       with_place({{"name", item_.at("name")}, {"arguments", item_text_}}));
}

void ResponsesForm::close_custom(std::string_view status) {
  const auto input = custom_input(item_text_);
  if (!input && status == "completed")
    return break_off("the model's arguments for a custom tool have no string named `input`");
  emit("response.output_item.added", {{"output_index", output_.size()}, {"item", item_}});
  item_["input"] = input.value_or("");
  if (input && !input->empty())
    emit("response.custom_tool_call_input.delta",
         with_place({{"call_id", item_.at("call_id")}, {"delta", *input}}));
  emit("response.custom_tool_call_input.done",
       with_place({{"call_id", item_.at("call_id")}, {"input", input.value_or("")}}));
}

void ResponsesForm::break_off(std::string message) {
  ApiError error;
  error.code = "server_error";
  error.message = std::move(message);
  error.should_not_retry = true;
  fault_ = std::move(error);
}

std::string ResponsesForm::end(const turn::Events& events, const ChatMessage& message,
                               const engine::Done& done) {
  for (const turn::Event& event : events) on_event(event);
  if (!fault_) close("completed");
  if (fault_) return taken();
  json::object last = response("completed");
  fill(last, message, done);
  emit_response("response." + string_or(last, "status"), std::move(last));
  return taken();
}

void ResponsesForm::fill(json::object& response, const ChatMessage& message, const engine::Done& done) const {
  // A call is something to go on with, wherever the text was cut.
  if (done.reason == engine::FinishReason::length && message.calls.empty()) {
    response["status"] = "incomplete";
    response["incomplete_details"] = {{"reason", "max_output_tokens"}};
  } else {
    response["completed_at"] = unix_seconds(clock_.wall_now());
  }
  response["output"] = output_;
  response["output_text"] = text_;
  response["usage"] = usage_json(done.usage);
  if (auto notes = notes_json(done, message); !notes.empty()) response["x_gezel"] = std::move(notes);
}

std::string ResponsesForm::failure(const ApiError& error, std::string_view) {
  // A custom call that could not be read was not shown, and is not shown now.
  if (open_ == Open::custom) open_ = Open::none;
  const auto fault = std::exchange(fault_, std::nullopt);
  close("incomplete");
  const bool cancelled = error.code == "cancelled" || error.code == "client_closed_request";
  const std::string code = cancelled ? "cancelled" : stream_code(error);
  emit("error", {{"code", code}, {"message", error.message}, {"param", nullptr}});
  json::object last = response(cancelled ? "cancelled" : "failed");
  last["error"] = {{"code", code}, {"message", error.message}};
  last["output"] = output_;
  last["output_text"] = text_;
  emit_response("response.failed", std::move(last));
  return taken();
}

std::string ResponsesForm::whole(const ChatMessage& message,
                                 const std::vector<engine::TokenLogprob>& logprobs,
                                 const engine::Done& done) {
  if (message.reasoning) on_event(turn::ReasoningDelta{*message.reasoning});
  unsent_logprobs_ = logprobs;
  if (!message.content.empty()) on_event(turn::ContentDelta{message.content});
  for (int index = 0; const auto& call : message.calls) {
    on_event(turn::CallBegin{index, call.id, call.name});
    on_event(turn::CallArgumentsDelta{index, call.arguments});
    on_event(turn::CallEnd{index++, turn::CallOutcome::complete});
  }
  if (!fault_) close("completed");
  json::object last = response("completed");
  if (fault_) {
    last["output"] = output_;
    last["status"] = "failed";
    last["error"] = {{"code", fault_->code}, {"message", fault_->message}};
  } else {
    fill(last, message, done);
  }
  return to_json(last);
}

json::object ResponsesForm::with_place(json::object members) const {
  json::object out{{"item_id", item_.at("id")}, {"output_index", output_.size()}};
  for (auto& member : members) out.insert(std::move(member));
  return out;
}

void ResponsesForm::emit(std::string_view type, json::object members) {
  json::object event{{"type", type}, {"sequence_number", sequence_++}};
  for (auto& member : members) event.insert(std::move(member));
  out_ += fmt::format("event: {}\ndata: {}\n\n", type, to_json(event));
}

void ResponsesForm::emit_delta(std::string_view type, std::string_view place, std::string_view text,
                               std::string_view after) {
  fmt::format_to(std::back_inserter(out_),
                 "event: {0}\ndata: {{\"type\":\"{0}\",\"sequence_number\":{1},\"item_id\":\"{2}\","
                 "\"output_index\":{3},{4}\"delta\":",
                 type, sequence_++, std::string_view(item_.at("id").get_string()), output_.size(), place);
  append_json_string(out_, text);
  out_.append(after).append("}\n\n");
}

}  // namespace gezel::api
