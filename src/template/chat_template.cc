// One rendering: normalise for what the template can take, then go down the ladder of spec 50 section 2.1
// until a step renders. The first error that a strict template is known for is repaired once (section 2.3)
// before the ladder goes down. The step that worked is remembered per set of variable names, so that a
// template that refuses a variable is not asked again with every request.
#include "template/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/log.h"
#include "prompt/context.h"
#include "prompt/normalise.h"
#include "template/default_templates.h"
#include "template/probe.h"
#include "template/renderer.h"
#include "template/splice.h"
#include "turn/reasoning_markers.h"

namespace gezel::chat {
namespace {

constexpr std::array<std::string_view, 2> kDepthVariables = {"reasoning_effort", "reasoning_strength"};
constexpr std::size_t kMaxCachedSteps = 64;  // sets of variable names; further ones are tried from the top
constexpr std::size_t kMaxRememberedDays = 1024;  // sessions; the oldest is forgotten
constexpr std::int64_t kDaySeconds = 86'400;

enum class Step { all = 1, without_depth, without_variables, without_tools };

bool contains_ignoring_case(std::string_view text, std::string_view lower_case_part) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return !std::ranges::search(text, lower_case_part, {}, lower).empty();
}

// Time-like variables are frozen per session, to the day: a prompt that changes with the clock would lose its
// cached prefix.
class SessionDays {
 public:
  std::int64_t first_day(const std::string& session, std::int64_t today) {
    if (session.empty()) return today;
    const std::lock_guard lock(mutex_);
    const auto [entry, fresh] = days_.try_emplace(session, today);
    if (fresh) {
      order_.push_back(session);
      if (order_.size() > kMaxRememberedDays) {
        days_.erase(order_.front());
        order_.pop_front();
      }
    }
    return entry->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::int64_t> days_;
  std::deque<std::string> order_;
};

class StepCache {
 public:
  Step first_step(const std::string& names) {
    const std::lock_guard lock(mutex_);
    const auto entry = steps_.find(names);
    return entry == steps_.end() ? Step::all : entry->second;
  }
  // The step without tools is never remembered: one odd request would hide the tools from all that follow.
  void remember(const std::string& names, Step step) {
    if (step == Step::all || step == Step::without_tools) return;
    const std::lock_guard lock(mutex_);
    if (steps_.size() < kMaxCachedSteps) steps_.emplace(names, step);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Step> steps_;
};

// What a request becomes on its way into the template.
struct Attempt {
  std::vector<prompt::Message> messages;
  json::object variables;
  bool repaired = false;
};

class Implementation final : public ChatTemplate {
 public:
  Implementation(Renderer renderer, TemplateOptions options, const DefaultTemplate* fallback,
                 const Clock& clock)
      : renderer_(std::move(renderer)),
        tokens_{options.bos_token, options.eos_token},
        end_tokens_(std::move(options.end_tokens)),
        flatten_(options.flatten_tool_transcript),
        merge_system_(options.merge_system_messages),
        utc_offset_(options.utc_offset),
        clock_(clock),
        default_name_(fallback == nullptr ? "" : fallback->name),
        extra_stops_(fallback == nullptr ? std::vector<std::string>{} : fallback->stops),
        probed_(probe(renderer_, options.source, tokens_, options.vision, today() * kDaySeconds)) {}

  Result<Rendered> render(const prompt::GenerateRequest& request) override;
  std::string_view default_name() const override { return default_name_; }
  const std::vector<std::string>& extra_stops() const override { return extra_stops_; }
  bool supports_tools() const override { return probed_.tools; }
  bool supports_reasoning() const override { return probed_.reasoning; }
  bool reads_enable_thinking() const override { return probed_.enable_thinking; }

 private:
  std::int64_t today() const {
    const std::int64_t local = unix_seconds(clock_.wall_now()) + utc_offset_.count();
    return local / kDaySeconds - (local % kDaySeconds < 0 ? 1 : 0);
  }
  std::string context(const Attempt& attempt, const std::vector<prompt::Tool>& tools, Step step,
                      std::int64_t now) const;
  bool reasoning_open(std::string_view rendered, const std::string& context, std::int64_t now) const;
  void put_sampled(const Attempt& attempt, const std::vector<prompt::Tool>& tools, Step step,
                   std::int64_t now, Rendered& rendered) const;

  Renderer renderer_;
  prompt::ContextTokens tokens_;
  std::vector<std::string> end_tokens_;
  bool flatten_, merge_system_;
  std::chrono::seconds utc_offset_;
  const Clock& clock_;
  std::string default_name_;
  std::vector<std::string> extra_stops_;
  Probed probed_;
  SessionDays days_;
  StepCache steps_;
};

// True when the error is one that section 2.3 knows a repair for, and the messages were repaired.
bool repair(Attempt& attempt, const RenderError& error) {
  if (std::exchange(attempt.repaired, true)) return false;
  if (contains_ignoring_case(error.message, "roles must alternate")) {
    prompt::flatten_tool_transcript(attempt.messages);
    return true;
  }
  if (contains_ignoring_case(error.message, "system message must be at the beginning")) {
    prompt::merge_system_messages(attempt.messages);
    return true;
  }
  return false;
}

std::string variable_names(const json::object& variables, bool tools) {
  std::string names = tools ? "tools" : "";
  for (const auto& [name, value] : variables) names.append(" ").append(name.data(), name.size());
  return names;
}

// A step that would give the template nothing else than the step before it is left out.
bool changes_anything(Step step, const Attempt& attempt, bool tools) {
  switch (step) {
    case Step::all:
      return true;
    case Step::without_depth:
      return std::ranges::any_of(kDepthVariables,
                                 [&](auto name) { return attempt.variables.contains(name); });
    case Step::without_variables:
      return !attempt.variables.empty();
    case Step::without_tools:
      return tools;
  }
  return false;
}

void note(Step step, const RenderError& error, Rendered& rendered) {
  switch (step) {
    case Step::all:
      break;
    case Step::without_depth:
      log_info("the chat template was rendered without the reasoning effort", {{"reason", describe(error)}});
      break;
    case Step::without_variables:
      log_warn("the chat template was rendered without any variables", {{"reason", describe(error)}});
      break;
    case Step::without_tools:
      log_error("the chat template was rendered without tools", {{"reason", describe(error)}});
      rendered.warnings.push_back(fmt::format(
          "The model was not shown its tools: its chat template refuses them ({}).", describe(error)));
      break;
  }
}

Error rejected(const RenderError& error) {
  if (error.kind == GEZEL_TEMPLATE_LIMIT) {
    return {ErrorKind::too_large, "template-rejected",
            fmt::format("Rendering the chat template ran past a limit: {}. Send fewer or shorter messages.",
                        describe(error)),
            "messages"};
  }
  if (error.kind == GEZEL_TEMPLATE_CONTEXT) {
    return {ErrorKind::invalid, "invalid-request",
            fmt::format("A message cannot be rendered: {}.", error.message), "messages"};
  }
  return {ErrorKind::invalid, "template-rejected",
          fmt::format(
              "The model's chat template refuses these messages: {}. Change the order or the roles of the "
              "messages as it says.",
              describe(error)),
          "messages"};
}

std::string Implementation::context(const Attempt& attempt, const std::vector<prompt::Tool>& tools, Step step,
                                    std::int64_t now) const {
  json::object variables;
  if (step < Step::without_variables) variables = attempt.variables;
  if (step >= Step::without_depth) {
    for (const auto name : kDepthVariables) variables.erase(name);
  }
  static const std::vector<prompt::Tool> kNone;
  const auto& shown = step == Step::without_tools ? kNone : tools;
  if (probed_.functions) add_functions(variables, shown, now);
  return prompt::context_text(attempt.messages, shown, variables, tokens_, probed_.traits);
}

bool Implementation::reasoning_open(std::string_view rendered, const std::string& context,
                                    std::int64_t now) const {
  if (!probed_.reasoning || !turn::ends_inside_reasoning(rendered)) return false;
  // The opener may be one that somebody wrote about in a message. Then the same messages without markers
  // tell.
  const std::string harmless = turn::without_markers(context);
  if (harmless.empty()) return true;
  const auto again = renderer_.render(harmless, now);
  return again && turn::ends_inside_reasoning(*again);
}

void Implementation::put_sampled(const Attempt& attempt, const std::vector<prompt::Tool>& tools, Step step,
                                 std::int64_t now, Rendered& rendered) const {
  if (std::ranges::none_of(attempt.messages, [](const auto& message) { return message.sampled.has_value(); }))
    return;
  const auto again = [&](const std::vector<prompt::Message>& messages,
                         bool with_tools) -> std::optional<std::string> {
    static const std::vector<prompt::Tool> kNone;
    const Attempt other{messages, attempt.variables, true};
    auto text = renderer_.render(context(other, with_tools ? tools : kNone, step, now), now);
    return text ? std::optional(std::move(*text)) : std::nullopt;
  };
  Spliced spliced = splice_sampled({attempt.messages, probed_.traits, rendered.text, end_tokens_, again});
  rendered.text = std::move(spliced.text);
  rendered.replayed = spliced.replayed;
  rendered.replay_missed = spliced.missed;
}

Result<Rendered> Implementation::render(const prompt::GenerateRequest& request) {
  Attempt attempt;
  auto variables = prompt::template_variables(request, probed_.reasoning_effort);
  if (!variables) {
    Error error = std::move(variables).error();
    error.code = "invalid-request";
    return std::unexpected(std::move(error));
  }
  attempt.variables = std::move(*variables);
  auto messages = prompt::normalise(request.messages, probed_.traits);
  if (!messages) {
    Error error = std::move(messages).error();
    error.code = "invalid-request";
    return std::unexpected(std::move(error));
  }
  attempt.messages = std::move(*messages);
  if (flatten_) prompt::flatten_tool_transcript(attempt.messages);
  if (merge_system_) prompt::merge_system_messages(attempt.messages);

  const bool tools = !request.tools.empty();
  const std::string names = variable_names(attempt.variables, tools);
  const std::int64_t now = days_.first_day(request.session_key, today()) * kDaySeconds;
  std::optional<RenderError> first_error;
  for (Step step = steps_.first_step(names); step <= Step::without_tools;
       step = Step(static_cast<int>(step) + 1)) {
    if (first_error && !changes_anything(step, attempt, tools)) continue;
    std::string given = context(attempt, request.tools, step, now);
    auto text = renderer_.render(given, now);
    if (!text && repair(attempt, text.error())) {
      given = context(attempt, request.tools, step, now);
      text = renderer_.render(given, now);
    }
    if (text) {
      Rendered rendered;
      rendered.reasoning_open = reasoning_open(*text, given, now);
      if (first_error) note(step, *first_error, rendered);
      if (tools && !probed_.tools && rendered.warnings.empty()) {
        rendered.warnings.emplace_back(
            "The model was not shown its tools: its chat template has no place for them.");
      }
      rendered.text = std::move(*text);
      put_sampled(attempt, request.tools, step, now, rendered);
      if (probed_.traits.fold_tool_results && rendered.text.ends_with("<turn|>\n"))
        rendered.text += "<|turn>model\n";
      steps_.remember(names, step);
      return rendered;
    }
    if (!first_error) first_error = std::move(text).error();
    // A limit is not the template's opinion: less input is the caller's to choose, and trying again costs as
    // much again.
    if (first_error->kind == GEZEL_TEMPLATE_LIMIT || first_error->kind == GEZEL_TEMPLATE_CONTEXT) break;
  }
  return std::unexpected(rejected(*first_error));
}

}  // namespace

void on_overrun(void (*handler)()) {
  gezel_template_on_overrun(handler);
}

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::create(TemplateOptions options, const Clock& clock) {
  const DefaultTemplate* fallback = nullptr;
  if (options.source.empty()) {
    fallback = &choose_default_template(options.has_special_token);
    options.source = fallback->source;
  }
  auto renderer = Renderer::compile(options.source);
  if (!renderer) {
    return fail(
        ErrorKind::corrupt, "template-rejected",
        fmt::format("The model's chat template does not compile: {}. Import the model with another template.",
                    describe(renderer.error())));
  }
  renderer->before_each(std::move(options.before_rendering));
  return std::make_unique<Implementation>(std::move(*renderer), std::move(options), fallback, clock);
}

}  // namespace gezel::chat
