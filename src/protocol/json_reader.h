// protocol/json_reader.h
//
// Reads JSON straight into the fields it belongs to. No tree in between: a prompt of 64 MiB is copied once,
// into its own string, and hostile input costs no more memory than the fields it fills.
//
// The first failure ends reading; it names the frame, the field by its path ("request.messages[2].role"),
// what was found and what was expected. Every function returns false from then on.
#pragma once
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gezel::protocol {

class JsonReader {
 public:
  // `frame` names the message in errors. Both views must outlive the reader.
  JsonReader(std::string_view frame, std::string_view text) : frame_(frame), text_(text) {}

  // `member(key)` reads the member's value and returns whether that went well. A key is seen as it is
  // written: one that uses escapes equals no field name and is an unknown member.
  template <class Member>
  bool object(Member&& member) {
    if (!open('{', "an object")) return false;
    for (bool first = true;; first = false) {
      std::string_view key;
      switch (next_member(first, key)) {
        case Step::end:
          return true;
        case Step::failed:
          return false;
        case Step::more:
          break;
      }
      path_.push_back({key, 0});
      if (!member(key)) return false;
      path_.pop_back();
    }
  }

  // `element()` reads one element. More than `max_items` is an error.
  template <class Element>
  bool array(std::size_t max_items, Element&& element) {
    if (!open('[', "an array")) return false;
    for (std::size_t index = 0;; ++index) {
      switch (next_element(index == 0)) {
        case Step::end:
          return true;
        case Step::failed:
          return false;
        case Step::more:
          break;
      }
      path_.push_back({{}, index});
      if (index >= max_items)
        return fail_expected("element", "at most " + std::to_string(max_items) + " elements");
      if (!element()) return false;
      path_.pop_back();
    }
  }

  bool string(std::string& out, std::size_t max_bytes);
  bool boolean(bool& out);

  // A whole number from `min` to `max`.
  template <class T>
  bool integer(T& out, T min, T max) {
    std::string_view token;
    T value{};
    if (!number_token(token)) return false;
    const auto [end, code] = std::from_chars(token.data(), token.data() + token.size(), value);
    if (code != std::errc{} || end != token.data() + token.size() || value < min || value > max) {
      return fail_expected(token.substr(0, 40),
                           "a whole number from " + std::to_string(min) + " to " + std::to_string(max));
    }
    out = value;
    return true;
  }

  // A number from `min` to `max` inclusive. Without bounds also the strings "inf", "-inf" and "nan", which
  // JSON has no numbers for.
  bool number(double& out, std::optional<double> min = {}, std::optional<double> max = {});
  bool number(float& out, std::optional<double> min = {}, std::optional<double> max = {});

  // Any value; nested at most kMaxJsonDepth deep.
  bool skip();
  // Only white space may follow.
  bool end();

  bool failed() const { return error_.has_value(); }
  Error take_error() { return std::move(*error_); }
  // Fails with "<frame> frame: <field> <found>; expected <expected>".
  bool fail_expected(std::string_view found, std::string_view expected);
  // Fails with "<frame> frame: <field> is missing" for a member of the object being read.
  bool fail_missing(std::string_view key);

 private:
  enum class Step { more, end, failed };
  struct Segment {
    std::string_view key;  // without data: an element, see `index`
    std::size_t index;
  };

  void skip_space();
  bool open(char bracket, std::string_view expected);
  Step next_member(bool first, std::string_view& key);
  Step next_element(bool first);
  bool number_token(std::string_view& token);
  bool string_token(std::string_view& raw, bool& has_escapes);
  bool decode(std::string_view raw, std::string& out);
  bool check_escapes(std::string_view raw);
  bool skip_nested(int depth);
  bool literal(std::string_view word);
  bool fail_syntax(std::string_view expected);
  bool fail_with(std::string problem);
  std::string path() const;
  std::string found() const;
  template <class T>
  bool floating(T& out, std::optional<double> min, std::optional<double> max);

  std::string_view frame_;
  std::string_view text_;
  std::size_t position_ = 0;
  std::vector<Segment> path_;
  std::optional<Error> error_;
};

}  // namespace gezel::protocol
