// turn/live_arguments.h
//
// The arguments of a call while they arrive (spec 50 section 7.1). Both writers send to the open call of a
// CallBook every byte that no later byte can change, so that the fragments sent are always a prefix of the
// final text.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_set>

#include "turn/call_book.h"
#include "turn/input.h"
#include "turn/json_extent.h"

namespace gezel::turn {

// Arguments of markup dialects: members come with a key and a value that is text or JSON, and the final text
// is compact JSON. Values of parameters that may be strings are sent while they arrive, others when they are
// complete.
class ArgumentsWriter final : public ArgumentsSoFar {
 public:
  // A call must be open in `book`; the writer closes it.
  explicit ArgumentsWriter(CallBook& book);
  ArgumentsWriter(const ArgumentsWriter&) = delete;
  ArgumentsWriter& operator=(const ArgumentsWriter&) = delete;
  ~ArgumentsWriter() { book_.read_by(nullptr); }

  // A value given as text, in parts. False: the call has more than kMaxArgumentBytes.
  void begin_value(std::string_view key, MarkupValue kind);
  // The same for a value whose text is JSON; text that is none is a string after all.
  void begin_json_value(std::string_view key);
  bool part(std::string_view text);
  void end_value();
  // The value so far is empty or ends with a line break and blanks.
  bool at_line_start() const;

  // A value that is JSON already; it is fitted to the schema.
  bool value(std::string_view key, json::value value);

  bool has(std::string_view key) const;  // after matching with the schema
  std::size_t size() const { return arguments_.size(); }
  json::object arguments_so_far() const override;
  // All members are there: closes the call.
  void close(TextSpan span, std::string_view raw, int repair = 0);

 private:
  void begin_member(std::string_view key);
  std::string_view value_text(bool complete) const;
  void send_value(bool complete);
  void fit(json::value& value);
  void write(std::string_view fragment);

  CallBook& book_;
  SchemaPosition root_;
  json::object arguments_;
  std::string text_;
  std::size_t bytes_ = 0;  // of keys and values
  bool coerced_ = false;

  // The value being read.
  std::string key_;
  std::string raw_;
  MarkupValue kind_ = MarkupValue::verbatim;
  SchemaPosition position_;
  bool open_ = false;
  bool json_ = false;
  bool live_ = false;
  std::size_t sent_ = 0;  // bytes of the value that were written
};

// Arguments that are a JSON object in the text, told by the events of a JsonExtent. Strict text is sent as it
// is, up to the first byte that is irregular or that coercion could touch; behind it nothing is sent before
// the call is closed. A dialect whose text is no strict JSON (Gemma's quotes) is sent as compact JSON
// instead.
class LiveJson {
 public:
  // The text of the value that `extent` reads begins at the front of `in`.
  LiveJson(CallBook& book, const Input& in, const JsonExtent& extent, const JsonOptions& options);

  // The events of the arguments, from the bracket that opens them to the one that closes them.
  void open_object(std::size_t at);
  void open_array(std::size_t at);
  void close_object(std::size_t end);
  void close_array(std::size_t end);
  void begin_string(bool is_key, std::size_t at);
  void string_part(std::string_view text);
  void end_string(std::size_t end);
  void scalar(std::size_t at, std::size_t end);
  // More text was read: sends what is certain of a string that has not ended.
  void advance();

  bool inside() const { return depth_ > 0; }  // between the brackets of the arguments
  std::size_t begin() const { return begin_; }
  std::size_t end() const { return end_; }

 private:
  void value_begins(std::size_t at) { value_begin_ = at; }
  void value_ends(std::size_t end);
  void close_container(std::size_t end);
  bool live() const { return !stopped_ && book_.streaming(); }
  void send_through(std::size_t end);
  void key_ends();

  CallBook& book_;
  const Input& in_;
  const JsonExtent& extent_;
  JsonOptions options_;
  bool verbatim_;

  SchemaPosition root_;
  bool stopped_ = false;
  int depth_ = 0;
  std::size_t begin_ = 0, end_ = 0;  // of the object
  std::size_t sent_ = 0;             // verbatim: offset up to which the text was sent
  std::size_t value_begin_ = 0;
  bool in_key_ = false;
  std::string key_;
  std::unordered_set<std::string> keys_;
  bool live_string_ = false;  // a value that is sent while it arrives
  std::size_t scanned_ = 0;   // verbatim: offset up to which that string is certain
};

}  // namespace gezel::turn
