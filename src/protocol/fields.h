// protocol/fields.h
//
// From a description of a message's fields to its JSON and back. A message is described once (schema.h), one
// line a field:
//
//   void describe(auto& field, like<Phase> auto& phase) {
//     field.required("phase", phase.phase);
//     field("progress", phase.progress, range(0, 1));
//   }
//
// `field(name, value, limit)` is written unless it is an unset optional or an empty list, and may be absent
// when read. `field.required` is always written and must be there. A limit bounds a number, the bytes of a
// string or the elements of a list. Also: `field.hex` for raw bytes, `field.word` for a string out of a fixed
// set, `field.group` for a nested object whose fields are members of the same struct, `field.list` for a list
// whose elements need a description of their own.
//
// Unknown members are skipped, so that a later version can add fields without a new protocol number.
#pragma once
#include <array>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "protocol/json_reader.h"
#include "protocol/json_writer.h"

namespace gezel::protocol {

// T or const T: descriptions serve for reading and for writing.
template <class M, class T>
concept like = std::same_as<std::remove_const_t<M>, T>;

struct Limit {
  std::optional<std::int64_t> min, max;
};
constexpr Limit range(std::int64_t min, std::int64_t max) {
  return {min, max};
}
constexpr Limit up_to(std::int64_t max) {
  return {0, max};
}
constexpr Limit at_least(std::int64_t min) {
  return {min, std::nullopt};
}

// The elements of a list without a limit of its own.
inline constexpr std::size_t kDefaultMaxItems = 1 << 20;

using Words = std::span<const std::string_view>;

// What the values of an enumeration are called, in their order: specialised with an array `values`.
template <class Enumeration>
struct Names;

namespace detail {

template <class T>
concept Enumeration = std::is_enum_v<T>;
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_vector = false;
template <class T>
inline constexpr bool is_vector<std::vector<T>> = true;
template <class T>
inline constexpr bool is_pair = false;
template <class A, class B>
inline constexpr bool is_pair<std::pair<A, B>> = true;

inline std::size_t max_size(const Limit& limit, std::size_t fallback) {
  return limit.max ? static_cast<std::size_t>(*limit.max) : fallback;
}

}  // namespace detail

// ---- writing

class FieldWriter {
 public:
  explicit FieldWriter(std::string& out) : out_(out) {}

  template <class T>
  void operator()(std::string_view name, const T& value, Limit = {}) {
    if constexpr (detail::is_optional<T>) {
      if (!value) return;
    } else if constexpr (detail::is_vector<T>) {
      if (value.empty()) return;
    }
    required(name, value);
  }
  template <class T>
  void required(std::string_view name, const T& value, Limit = {}) {
    key(name);
    write(value);
  }
  void hex(std::string_view name, const std::string& bytes, Limit = {}) {
    key(name);
    append_json_hex(out_, bytes);
  }
  void word(std::string_view name, const std::string& value, Words) { required(name, value); }
  template <class Describe>
  void group(std::string_view name, Describe&& describe_group) {
    key(name);
    write_object(describe_group);
  }
  template <class T, class Describe>
  void list(std::string_view name, const std::vector<T>& items, Limit, Describe&& describe_item) {
    if (items.empty()) return;
    key(name);
    write_array(
        items, [&](const T& item) { write_object([&](FieldWriter& field) { describe_item(field, item); }); });
  }

  template <class T>
  void write(const T& value) {
    if constexpr (std::same_as<T, bool>)
      out_ += value ? "true" : "false";
    else if constexpr (std::is_arithmetic_v<T>)
      append_json_number(out_, value);
    else if constexpr (detail::Enumeration<T>)
      append_json_string(out_, Names<T>::values[static_cast<std::size_t>(value)]);
    else if constexpr (std::same_as<T, std::string>)
      append_json_string(out_, value);
    else if constexpr (detail::is_optional<T>)
      write(*value);
    else if constexpr (detail::is_vector<T>)
      write_array(value, [&](const auto& item) { write(item); });
    else if constexpr (detail::is_pair<T>)
      write_pair(value);
    else
      write_object([&](FieldWriter& field) { describe(field, value); });
  }

 private:
  void key(std::string_view name) {
    if (!std::exchange(first_, false)) out_.push_back(',');
    out_.push_back('"');
    out_ += name;
    out_ += "\":";
  }
  template <class Describe>
  void write_object(Describe&& describe_object) {
    out_.push_back('{');
    FieldWriter field(out_);
    describe_object(field);
    out_.push_back('}');
  }
  template <class T, class Write>
  void write_array(const std::vector<T>& items, Write&& write_item) {
    out_.push_back('[');
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_.push_back(',');
      write_item(items[i]);
    }
    out_.push_back(']');
  }
  template <class A, class B>
  void write_pair(const std::pair<A, B>& pair) {
    out_.push_back('[');
    write(pair.first);
    out_.push_back(',');
    write(pair.second);
    out_.push_back(']');
  }

  std::string& out_;
  bool first_ = true;
};

// ---- reading

template <class T>
bool read_value(JsonReader& in, T& value, Limit limit = {});
template <class Describe>
bool read_object(JsonReader& in, Describe&& describe_object);

// Reads the one member whose key was just met.
class MemberReader {
 public:
  MemberReader(JsonReader& in, std::string_view key, std::uint64_t& seen) : in_(in), key_(key), seen_(seen) {}

  template <class T>
  void operator()(std::string_view name, T& value, Limit limit = {}) {
    if (matches(name)) ok_ = read_value(in_, value, limit);
  }
  template <class T>
  void required(std::string_view name, T& value, Limit limit = {}) {
    (*this)(name, value, limit);
  }
  void hex(std::string_view name, std::string& bytes, Limit limit = {}) {
    if (!matches(name)) return;
    std::string digits;
    ok_ = in_.string(digits, 2 * detail::max_size(limit, std::numeric_limits<std::size_t>::max() / 2)) &&
          (decode_hex(digits, bytes) || in_.fail_expected("no hexadecimal text", "pairs of 0-9 and a-f"));
  }
  void word(std::string_view name, std::string& value, Words words) {
    if (!matches(name)) return;
    ok_ = in_.string(value, 64);
    for (const std::string_view word : words) {
      if (value == word) return;
    }
    std::string expected = "one of";
    for (const std::string_view word : words) (expected += ' ') += word;
    ok_ = ok_ && in_.fail_expected("another word", expected);
  }
  template <class Describe>
  void group(std::string_view name, Describe&& describe_group) {
    if (matches(name)) ok_ = read_object(in_, describe_group);
  }
  template <class T, class Describe>
  void list(std::string_view name, std::vector<T>& items, Limit limit, Describe&& describe_item) {
    if (!matches(name)) return;
    items.clear();
    ok_ = in_.array(detail::max_size(limit, kDefaultMaxItems), [&] {
      T& item = items.emplace_back();
      return read_object(in_, [&](auto& field) { describe_item(field, item); });
    });
  }

  bool matched() const { return matched_; }
  bool ok() const { return ok_; }

 private:
  bool matches(std::string_view name) {
    const int index = index_++;
    if (matched_ || name != key_) return false;
    matched_ = true;
    const std::uint64_t bit = std::uint64_t{1} << index;
    if ((seen_ & bit) != 0) {
      ok_ = in_.fail_expected("there twice", "it once");
      return false;
    }
    seen_ |= bit;
    return true;
  }

  JsonReader& in_;
  std::string_view key_;
  std::uint64_t& seen_;  // one bit a field, in the order of the description
  int index_ = 0;
  bool matched_ = false;
  bool ok_ = true;
};

// After the last member: were all required ones there?
class RequiredCheck {
 public:
  RequiredCheck(JsonReader& in, std::uint64_t seen) : in_(in), seen_(seen) {}

  template <class T>
  void operator()(std::string_view, T&, Limit = {}) {
    ++index_;
  }
  template <class T>
  void required(std::string_view name, T&, Limit = {}) {
    check(name);
  }
  void hex(std::string_view name, std::string&, Limit = {}) { check(name); }
  void word(std::string_view name, std::string&, Words) { check(name); }
  template <class Describe>
  void group(std::string_view name, Describe&&) {
    check(name);
  }
  template <class T, class Describe>
  void list(std::string_view, std::vector<T>&, Limit, Describe&&) {
    ++index_;
  }

  bool ok() const { return ok_; }

 private:
  void check(std::string_view name) {
    const bool there = (seen_ >> index_++ & 1) != 0;
    if (!there && ok_) ok_ = in_.fail_missing(name);
  }

  JsonReader& in_;
  std::uint64_t seen_;
  int index_ = 0;
  bool ok_ = true;
};

template <class Describe>
bool read_object(JsonReader& in, Describe&& describe_object) {
  std::uint64_t seen = 0;
  const bool read = in.object([&](std::string_view key) {
    MemberReader member(in, key, seen);
    describe_object(member);
    return member.matched() ? member.ok() : in.skip();
  });
  if (!read) return false;
  RequiredCheck check(in, seen);
  describe_object(check);
  return check.ok();
}

template <class T>
bool read_value(JsonReader& in, T& value, Limit limit) {
  if constexpr (std::same_as<T, bool>) {
    return in.boolean(value);
  } else if constexpr (std::integral<T>) {
    // A limit outside the type (a negative minimum for an unsigned field) does not restrict it further.
    const auto clamp = [](std::optional<std::int64_t> bound, T fallback) {
      return bound && std::in_range<T>(*bound) ? static_cast<T>(*bound) : fallback;
    };
    return in.integer(value, clamp(limit.min, std::numeric_limits<T>::min()),
                      clamp(limit.max, std::numeric_limits<T>::max()));
  } else if constexpr (std::floating_point<T>) {
    const auto bound = [](std::optional<std::int64_t> at) {
      return at ? std::optional<double>(static_cast<double>(*at)) : std::nullopt;
    };
    return in.number(value, bound(limit.min), bound(limit.max));
  } else if constexpr (detail::Enumeration<T>) {
    std::string word;
    if (!in.string(word, 64)) return false;
    const auto& names = Names<T>::values;
    std::string expected = "one of";
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (word == names[i]) {
        value = static_cast<T>(i);
        return true;
      }
      (expected += ' ') += names[i];
    }
    return in.fail_expected("another word", expected);
  } else if constexpr (std::same_as<T, std::string>) {
    return in.string(value, detail::max_size(limit, std::numeric_limits<std::size_t>::max()));
  } else if constexpr (detail::is_optional<T>) {
    return read_value(in, value.emplace(), limit);
  } else if constexpr (detail::is_vector<T>) {
    value.clear();
    return in.array(detail::max_size(limit, kDefaultMaxItems),
                    [&] { return read_value(in, value.emplace_back()); });
  } else if constexpr (detail::is_pair<T>) {
    std::size_t count = 0;
    if (!in.array(2,
                  [&] { return count++ == 0 ? read_value(in, value.first) : read_value(in, value.second); }))
      return false;
    return count == 2 || in.fail_expected("too short", "an array of two elements");
  } else {
    return read_object(in, [&](auto& field) { describe(field, value); });
  }
}

}  // namespace gezel::protocol
