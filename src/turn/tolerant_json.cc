// JsonExtent's events build the value. A text is read once, and a second time only where a */ may have ended
// a string.
#include "turn/tolerant_json.h"

#include <algorithm>
#include <vector>

#include "base/utf8.h"
#include "turn/json_number.h"

namespace gezel::turn {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

std::string_view trim_front(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kSpace), text.size()));
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(kSpace) == std::string_view::npos;
}

// Most keys and strings of a call are short and plain; a loop over them costs less than looking for
// characters.
bool is_ascii(std::string_view text) {
  unsigned char all = 0;
  for (const char c : text) all |= static_cast<unsigned char>(c);
  return all < 0x80;
}

// Builds the value that a JsonExtent reads.
class Builder final : public JsonEvents {
 public:
  Builder() { stack_.reset(); }
  void open_object(std::size_t) override { open({true, 0}); }
  void open_array(std::size_t) override { open({false, 0}); }
  void close_object(std::size_t) override { close(); }
  void close_array(std::size_t) override { close(); }
  void begin_string(bool is_key, std::size_t) override {
    is_key_ = is_key;
    in_string_ = true;
    text_.clear();
  }
  void string_part(std::string_view text) override { text_ += text; }
  void end_string(std::size_t) override {
    in_string_ = false;
    if (!is_ascii(text_) && find_invalid_utf8(text_)) text_ = sanitize_utf8(text_);
    if (is_key_) {
      key_ = text_;
    } else {
      begin_value();
      stack_.push_string(text_);
      added();
    }
  }
  void scalar(std::string_view token, std::size_t, std::size_t) override {
    begin_value();
    if (token == "null") {
      stack_.push_null();
    } else if (token == "true" || token == "false") {
      stack_.push_bool(token == "true");
    } else {
      const json::value number = parse_json_number(token);
      if (number.is_int64()) {
        stack_.push_int64(number.get_int64());
      } else if (number.is_uint64()) {
        stack_.push_uint64(number.get_uint64());
      } else {
        stack_.push_double(number.get_double());
      }
    }
    added();
  }

  // The value, or as much of it as there is; null when there is nothing.
  json::value take() {
    if (in_string_ && !is_key_) end_string(0);
    while (!open_.empty()) close();
    return empty_ ? json::value() : stack_.release();
  }

 private:
  struct Open {
    bool object = false;
    std::size_t size = 0;
  };

  void open(Open opened) {
    begin_value();
    open_.push_back(opened);
  }

  // A key is pushed only when its value begins, so that a member without value is left out.
  void begin_value() {
    if (!open_.empty() && open_.back().object) stack_.push_key(key_);
  }

  void close() {
    const Open closed = open_.back();
    open_.pop_back();
    if (closed.object) {
      stack_.push_object(closed.size);
    } else {
      stack_.push_array(closed.size);
    }
    added();
  }

  void added() {
    empty_ = false;
    if (!open_.empty()) ++open_.back().size;
  }

  unsigned char first_values_[2048];  // enough for the stack of most calls
  json::value_stack stack_{{}, first_values_, sizeof first_values_};
  std::vector<Open> open_;
  std::string text_;
  std::string key_;  // of the member that comes
  bool is_key_ = false;
  bool in_string_ = false;
  bool empty_ = true;
};

JsonRead read_tolerant(std::string_view text, const JsonOptions& options, TextEnd end,
                       bool star_ends_strings) {
  Builder builder;
  JsonExtent extent(options, &builder);
  if (star_ends_strings) extent.let_star_end_strings();
  extent.feed(text);
  JsonRead result;
  result.status = extent.finish(end);
  if (result.status != JsonStatus::malformed) result.value = builder.take();
  result.level = extent.level();
  result.consumed = extent.end();
  result.inside_string = result.status == JsonStatus::truncated && extent.inside_string();
  result.fenced = extent.fenced();
  result.problem = extent.problem();
  return result;
}

bool closer_follows(std::string_view text, std::span<const std::string_view> closers) {
  text = trim_front(text);
  return std::ranges::any_of(closers, [&](std::string_view closer) { return text.starts_with(closer); });
}

}  // namespace

JsonRead read_json(std::string_view text, const JsonOptions& options, TextEnd end) {
  JsonRead result = read_tolerant(text, options, end, false);
  if (result.status != JsonStatus::complete && options.gemma_quotes && text.contains("*/")) {
    JsonRead other = read_tolerant(text, options, end, true);
    if (other.status == JsonStatus::complete &&
        closer_follows(text.substr(other.consumed), options.closers)) {
      return other;
    }
  }
  return result;
}

JsonRead read_arguments(std::string_view text, const JsonOptions& options, TextEnd end) {
  JsonRead result;
  if (is_blank(text)) {
    result.status = end == TextEnd::stopped ? JsonStatus::complete : JsonStatus::truncated;
    result.value.emplace_object();
    result.consumed = text.size();
    return result;
  }
  result = read_json(text, options, end);
  if (result.status != JsonStatus::complete) return result;
  const std::size_t consumed = result.consumed;
  std::string_view rest = trim_front(text.substr(consumed));
  if (result.fenced && rest.starts_with("```")) rest.remove_prefix(3);
  int level = is_blank(rest) ? result.level : std::max(result.level, 1);
  // A string with text behind it may have ended at an inner quote: then nothing in it is completed.
  if (!is_blank(rest)) end = TextEnd::cut;
  for (int unwrapped = 0; unwrapped < 2 && result.value.is_string(); ++unwrapped) {
    const json::value holder = std::move(result.value);
    result = read_json(holder.get_string(), options, end);
    level = std::max({level, 10, result.level});
    if (result.status != JsonStatus::complete) break;
  }
  if (result.status == JsonStatus::complete && result.value.is_null()) result.value.emplace_object();
  if (result.status == JsonStatus::complete && !result.value.is_object()) {
    result.status = JsonStatus::malformed;
    result.value = nullptr;
    result.problem = "not an object";
  }
  result.level = level;
  result.consumed = consumed;
  return result;
}

}  // namespace gezel::turn
