// Calls as JSON: call objects, alone or in arrays (S1, S13 to S15, S20 to S22, S25, F5 to F7, F9), and the
// arguments of a call whose name stands in front.
//
// The events of the incremental reader say where a call object's name, id and arguments are while they
// arrive, which is enough to announce the call and to send its arguments. What the call is in the end is
// decided from the complete object.
#include <array>

#include "turn/body.h"
#include "turn/call_object.h"
#include "turn/regions.h"
#include "turn/tolerant_json.h"

namespace gezel::turn {
namespace {

// An array of calls, each with its arguments.
constexpr std::size_t kMaxCallsBytes = 8 * kMaxArgumentBytes;
constexpr std::size_t kMaxWord = 4096;  // keys, names and ids that are looked at

class CallObjects final : public JsonEvents, public ArgumentsSoFar {
 public:
  CallObjects(BodyContext& c, const CallObjectsOptions& options)
      : c_(c), options_(options), extent_(bounded(options.json), this) {
    c_.book.read_by(this);
  }
  ~CallObjects() override { c_.book.read_by(nullptr); }

  // Reads what has arrived; nothing while the value is incomplete.
  std::optional<JsonStatus> read(Input& in) {
    const std::string_view text = in.view();
    if (extent_.status() == JsonStatus::incomplete) {
      extent_.feed(text.substr(fed_));
      fed_ = text.size();
      if (live_) live_->advance();
      if (in.ended()) extent_.finish(c_.text_end());
    }
    if (extent_.status() == JsonStatus::incomplete) return std::nullopt;
    return extent_.status();
  }

  const JsonExtent& extent() const { return extent_; }
  bool any_element() const { return elements_ > 0; }
  bool empty_array() const { return array_ && elements_ == 0 && !other_; }
  const std::string& name() const { return name_; }
  json::object arguments_so_far() const override {
    const JsonRead read = read_json(c_.in.view(), bounded(options_.json), TextEnd::cut);
    const json::array* all = read.value.if_array();
    if (all && all->empty()) return {};
    const auto call = as_call_object(all ? all->back() : read.value, c_.book.names());
    const json::object* arguments = call && call->arguments ? call->arguments->if_object() : nullptr;
    return arguments ? *arguments : json::object();
  }
  // Calls of a value that was read at once.
  void take_all(const json::value& value) {
    arguments_ = {};
    if (const json::array* all = value.if_array()) {
      for (const json::value& element : *all) take(element, 0, {});
    } else {
      take(value, 0, {});
    }
  }

 private:
  static JsonOptions bounded(JsonOptions json) {
    json.max_bytes = kMaxCallsBytes;
    return json;
  }

  void open_object(std::size_t at) override {
    if (live_ && live_->inside()) {
      live_->open_object(at);
    } else if (depth_ == base_) {
      element_begin_ = at;
      call_depth_ = depth_ + 1;
      name_.clear();
      id_.clear();
      arguments_ = {};
      live_.reset();
    } else if (depth_ == call_depth_ && key_ == "function" && call_depth_ == base_ + 1) {
      call_depth_ = depth_ + 1;
    } else if (depth_ == call_depth_ && is_arguments_key(key_)) {
      if (!options_.late_ids && !name_.empty() && name_ != options_.no_call) {
        c_.book.open(options_.source, name_, id_);
      }
      live_.emplace(c_.book, c_.in, extent_, options_.json);
      live_->open_object(at);
    }
    ++depth_;
  }

  void open_array(std::size_t at) override {
    if (live_ && live_->inside()) {
      live_->open_array(at);
    } else if (depth_ == 0) {
      array_ = true;
      base_ = 1;
    } else if (depth_ == base_) {
      other_ = true;
    }
    ++depth_;
  }

  void close_object(std::size_t end) override {
    --depth_;
    if (live_ && live_->inside()) {
      live_->close_object(end);
      if (!live_->inside()) arguments_ = {live_->begin(), end};
    } else if (depth_ == base_) {
      element(element_begin_, end);
    } else if (depth_ + 1 == call_depth_) {
      call_depth_ = depth_;
    }
  }

  void close_array(std::size_t end) override {
    --depth_;
    if (live_ && live_->inside()) live_->close_array(end);
  }

  void begin_string(bool is_key, std::size_t at) override {
    if (live_ && live_->inside()) return live_->begin_string(is_key, at);
    word_ = nullptr;
    if (depth_ == base_) other_ = true;
    if (depth_ != call_depth_) return;
    if (is_key) {
      word_ = &key_;
    } else if (is_name_key(key_) && name_.empty()) {
      word_ = &name_;
    } else if (is_id_key(key_)) {
      word_ = &id_;
    }
    if (word_) word_->clear();
  }
  void string_part(std::string_view text) override {
    if (live_ && live_->inside()) return live_->string_part(text);
    if (word_) word_->append(text.substr(0, kMaxWord - std::min(kMaxWord, word_->size())));
  }
  void end_string(std::size_t end) override {
    if (live_ && live_->inside()) live_->end_string(end);
    word_ = nullptr;
  }
  void scalar(std::string_view, std::size_t at, std::size_t end) override {
    if (live_ && live_->inside()) return live_->scalar(at, end);
    if (depth_ == base_) other_ = true;
  }

  // One object among the calls is complete.
  void element(std::size_t begin, std::size_t end) {
    const std::string_view text = c_.in.view().substr(begin, end - begin);
    JsonOptions json = options_.json;
    json.closers = {};
    json.max_bytes = kMaxCallsBytes;
    const JsonRead read = read_json(text, json);
    const TextSpan span{c_.in.offset() + begin, c_.in.offset() + end};
    if (read.status != JsonStatus::complete) return no_call(text);
    take(read.value, read.level, text, span);
  }

  void take(const json::value& value, int repair, std::string_view text, TextSpan span = {}) {
    const auto call = as_call_object(value, c_.book.names());
    if (!call) return no_call(text);
    ++elements_;
    if (call->name == options_.no_call && !options_.no_call.empty()) return;
    // Another key than the one that was seen first may hold the name.
    if (c_.book.opened() && c_.book.wanted_name() != call->name) return no_call(text);
    // As long as it was not announced, an id may come late.
    if (!c_.book.streaming()) c_.book.open(options_.source, call->name, call->id, false);
    ReadArguments arguments = read_call_arguments(call->arguments);
    if (!arguments.object || too_large(call->arguments, text)) return no_call(text);
    c_.book.close({.arguments = *std::move(arguments.object),
                   .text = own_text(call->arguments),
                   .repair = std::max(repair, arguments.repair),
                   .span = span,
                   .raw = text});
    c_.next_call();
  }

  void no_call(std::string_view text) {
    ++elements_;
    if (c_.book.opened()) {
      c_.book.abandon(CallOutcome::malformed, text);
    } else {
      c_.book.malformed(text);
    }
  }

  std::string_view arguments_text() const {
    return c_.in.view().substr(arguments_.begin, arguments_.end - arguments_.begin);
  }

  bool too_large(const json::value* arguments, std::string_view text) const {
    if (text.size() <= kMaxArgumentBytes || !arguments) return false;
    return (arguments->is_object() ? arguments_text() : text).size() > kMaxArgumentBytes;
  }

  // Strict arguments go over the wire as the model wrote them.
  std::optional<std::string> own_text(const json::value* arguments) const {
    if (!arguments) return std::nullopt;
    if (const json::string* text = arguments->if_string()) {
      const JsonRead read = read_json(*text);
      return read.strict() && read.value.is_object() && read.consumed == text->size()
                 ? std::optional<std::string>(*text)
                 : std::nullopt;
    }
    if (arguments_.end == 0) return std::nullopt;
    const std::string_view text = arguments_text();
    return read_json(text).strict() ? std::optional<std::string>(text) : std::nullopt;
  }

  BodyContext& c_;
  const CallObjectsOptions& options_;
  JsonExtent extent_;
  std::size_t fed_ = 0;

  int depth_ = 0;
  int base_ = 0;        // depth at which call objects begin
  int call_depth_ = 0;  // inside the object that holds name and arguments
  bool array_ = false;
  bool other_ = false;  // something that is no object stands among the calls
  std::size_t elements_ = 0;

  std::size_t element_begin_ = 0;
  std::string key_, name_, id_;
  std::string* word_ = nullptr;
  TextSpan arguments_;  // relative to the value
  std::optional<LiveJson> live_;
};

}  // namespace

BodyEnd BodyContext::give_up(BodyEnd end) {
  if (book.opened()) {
    book.abandon(end == BodyEnd::truncated ? CallOutcome::truncated : CallOutcome::malformed, captured);
    counted = true;
  }
  return end;
}

Task<BodyEnd> read_call_objects(BodyContext& c, CallObjectsOptions options) {
  CallObjects calls(c, options);
  const JsonStatus status =
      co_await c.in.when([&](Input& in) -> std::optional<JsonStatus> { return calls.read(in); });
  const std::string_view text = c.in.view();
  if (status == JsonStatus::complete) {
    const bool none = !calls.any_element() && !calls.empty_array();
    c.in.skip(calls.extent().end());
    co_return none ? c.give_up(BodyEnd::malformed) : BodyEnd::complete;
  }
  // Some damage can only be judged on the finished text.
  if (status == JsonStatus::truncated && !calls.any_element() && !c.book.opened()) {
    const JsonRead read = read_json(text, options.json, c.text_end());
    if (read.status == JsonStatus::complete) {
      calls.take_all(read.value);
      c.in.skip(read.consumed);
      co_return BodyEnd::complete;
    }
  }
  if (status == JsonStatus::truncated) {
    if (!c.book.opened()) c.cut_name = calls.name();
    co_return c.give_up(BodyEnd::truncated);
  }
  c.in.skip(std::min(calls.extent().end(), text.size()));
  co_return c.give_up(BodyEnd::malformed);
}

namespace {

// The events of arguments that are a value of their own.
class ArgumentEvents final : public JsonEvents, public ArgumentsSoFar {
 public:
  ArgumentEvents(BodyContext& c, const JsonOptions& json)
      : c_(c), json_(json), extent_(json, this), live_(c.book, c.in, extent_, json) {
    c_.book.read_by(this);
  }
  ~ArgumentEvents() override { c_.book.read_by(nullptr); }
  json::object arguments_so_far() const override {
    const JsonRead read = read_json(c_.in.view(), json_, TextEnd::cut);
    const json::object* arguments = read.value.if_object();
    return arguments ? *arguments : json::object();
  }

  std::optional<JsonStatus> read(Input& in, TextEnd end) {
    const std::string_view text = in.view();
    if (extent_.status() == JsonStatus::incomplete) {
      extent_.feed(text.substr(fed_));
      fed_ = text.size();
      live_.advance();
      if (in.ended()) extent_.finish(end);
    }
    if (extent_.status() == JsonStatus::incomplete) return std::nullopt;
    return extent_.status();
  }
  const JsonExtent& extent() const { return extent_; }

 private:
  void open_object(std::size_t at) override { live_.open_object(at); }
  void open_array(std::size_t at) override {
    if (live_.inside()) live_.open_array(at);
  }
  void close_object(std::size_t end) override {
    if (live_.inside()) live_.close_object(end);
  }
  void close_array(std::size_t end) override {
    if (live_.inside()) live_.close_array(end);
  }
  void begin_string(bool is_key, std::size_t at) override {
    if (live_.inside()) live_.begin_string(is_key, at);
  }
  void string_part(std::string_view text) override {
    if (live_.inside()) live_.string_part(text);
  }
  void end_string(std::size_t end) override {
    if (live_.inside()) live_.end_string(end);
  }
  void scalar(std::string_view, std::size_t at, std::size_t end) override {
    if (live_.inside()) live_.scalar(at, end);
  }

  BodyContext& c_;
  JsonOptions json_;
  JsonExtent extent_;
  LiveJson live_;
  std::size_t fed_ = 0;
};

}  // namespace

Task<BodyEnd> read_json_arguments(BodyContext& c, JsonOptions json) {
  // No text at all stands for {}.
  if (!json.closers.empty() && co_await c.in.after_space(json.closers, true) >= 0) {
    c.book.close({.span = c.span(), .raw = c.captured});
    c.next_call();
    co_return BodyEnd::complete;
  }
  ArgumentEvents events(c, json);
  const JsonStatus status = co_await c.in.when(
      [&](Input& in) -> std::optional<JsonStatus> { return events.read(in, c.text_end()); });
  const std::string_view text = c.in.view();
  const std::size_t size = std::min(events.extent().end(), text.size());
  if (status == JsonStatus::truncated) co_return c.give_up(BodyEnd::truncated);
  if (status == JsonStatus::malformed) {
    c.in.skip(size);
    co_return c.give_up(BodyEnd::malformed);
  }
  JsonOptions whole = json;
  whole.closers = {};
  JsonRead read = read_arguments(text.substr(0, size), whole);
  const int level = std::max(read.level, events.extent().level());
  std::optional<std::string> own;
  if (level == 0 && json.native == 0) own.emplace(trimmed(text.substr(0, size)));
  c.in.skip(size);
  if (read.status != JsonStatus::complete || !read.value.is_object()) co_return c.give_up(BodyEnd::malformed);
  c.book.close({.arguments = std::move(read.value.get_object()),
                .text = std::move(own),
                .repair = level,
                .span = c.span(),
                .raw = c.captured});
  c.next_call();
  co_return BodyEnd::complete;
}

JsonOptions gemma_json(std::span<const std::string_view> closers) {
  return {
      .gemma_quotes = true, .native = static_cast<Steps>(step(2) | step(3) | step(7)), .closers = closers};
}

JsonOptions python_json(std::span<const std::string_view> closers) {
  return {.native = static_cast<Steps>(step(4) | step(5) | step(6)), .closers = closers};
}

Task<BodyEnd> json_calls_body(BodyContext& c) {
  static constexpr std::array<std::string_view, 1> kFence = {"```json"};
  static constexpr std::array<std::string_view, 1> kFenceEnd = {"```"};
  static constexpr std::array<std::string_view, 1> kRole = {"function call<|role_sep|>"};
  CallObjectsOptions options{.source = c.dialect.source, .json = {.closers = c.dialect.closers}};
  const bool fenced = c.dialect.source == family_form(7);
  if (c.dialect.source == family_form(5)) {
    // The opener's bracket is that of the array.
    co_await c.in.skip_space();
    co_await c.in.literal("functools");
  } else if (fenced) {
    co_await c.in.after_space(kFence);
    options.json.closers = kFenceEnd;
    options.no_call = "directly_answer";
  } else if (c.dialect.source == family_form(9)) {
    co_await c.in.after_space(kRole);
  }

  if (c.dialect.body == Body::json_calls && co_await c.in.peek_after_space() == '<') {
    // S22 in the spelling of S11: plain tags under <tool_calls>.
    if (c.dialect.source == strong(22)) co_return co_await invoke_xml_body(c);
  }
  std::array<std::string_view, 8> next = {"{", "["};
  std::size_t count = 2;
  for (const std::string_view closer : c.dialect.closers) next[count++] = closer;
  for (;;) {
    const BodyEnd end = co_await read_call_objects(c, options);
    if (end != BodyEnd::complete) co_return end;
    if (fenced) {
      co_await c.in.after_space(kFenceEnd);
      co_return BodyEnd::complete;
    }
    if (c.dialect.closers.empty()) co_return BodyEnd::complete;
    const int found = co_await c.in.after_space(std::span(next).first(count), true);
    if (found < 0) co_return BodyEnd::complete;
    if (found >= 2) {
      co_await c.in.literal(next[static_cast<std::size_t>(found)]);
      co_return BodyEnd::complete;
    }
    if (c.dialect.source != strong(22)) co_return BodyEnd::complete;
  }
}

}  // namespace gezel::turn
