// template/chat_template.h
//
// From messages to prompt text by the model's own chat template (Jinja, rendered by minijinja through the
// bridge), with the variables, normalisation and render ladder of spec 50 sections 2.1 to 2.3. A model
// without a template gets a default one by the control tokens of its vocabulary.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "prompt/request.h"

namespace gezel::chat {

struct TemplateOptions {
  std::string source;                   // the file's template; "" = choose a default
  std::string bos_token, eos_token;     // their texts
  std::vector<std::string> end_tokens;  // texts of all tokens that end an answer, for sampled messages
  bool vision = false;                  // a projector is loaded: image parts stay typed
  // What is otherwise done when the template has refused the messages (spec 50 section 2.3), done before.
  bool flatten_tool_transcript = false, merge_system_messages = false;
  std::chrono::seconds utc_offset{
      0};  // of the place whose date strftime_now() tells; the clock itself is UTC
  // True when the vocabulary has this text as a control token; chooses the default template.
  std::function<bool(std::string_view)> has_special_token;
  // Called before each rendering, on its thread; create() makes some, and a request may need several. One
  // takes 20 s at most where the bridge can look at the clock. For whoever must notice when it cannot.
  std::function<void()> before_rendering;
};

struct Rendered {
  std::string text;
  bool reasoning_open = false;        // the prompt ends inside a reasoning block (spec 50 section 3.2)
  std::vector<std::string> warnings;  // what the ladder had to leave out, for the client
  int replayed = 0;                   // messages that stand as the model sampled them (template/splice.h)
  int replay_missed = 0;              // those whose bytes were known and could not be used
};

class ChatTemplate {
 public:
  // A template that does not compile is an error (code `template-rejected`, line and reason).
  static Result<std::unique_ptr<ChatTemplate>> create(TemplateOptions options, const Clock& clock);
  virtual ~ChatTemplate() = default;
  // Error `template-rejected` when every step of the ladder failed; `invalid-request` when a message cannot
  // be rendered.
  virtual Result<Rendered> render(const prompt::GenerateRequest& request) = 0;
  // "default:<name>" or "".
  virtual std::string_view default_name() const = 0;
  // Stop strings that a default template needs ("\nUser:"); empty for real templates.
  virtual const std::vector<std::string>& extra_stops() const = 0;
  virtual bool supports_tools() const = 0;      // by a probe rendering
  virtual bool supports_reasoning() const = 0;  // mentions a reasoning marker or enable_thinking
  virtual bool reads_enable_thinking() const = 0;
};

// What happens, on the rendering thread, when a rendering takes more memory than it may; gezel_bridge.h says
// why that cannot be an error. `handler` must end the process. For all templates of the process.
void on_overrun(void (*handler)());

}  // namespace gezel::chat
