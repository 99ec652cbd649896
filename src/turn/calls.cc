#include "turn/calls.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "turn/usage.h"

namespace gezel::turn {
namespace {

constexpr std::size_t kIdLetters = 24;
constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

// Above this a double cannot tell neighbouring integers apart.
constexpr double kExactIntegers = 9007199254740992.0;

void write_double(double number, bool canonical, std::string& out) {
  if (!std::isfinite(number)) {
    // Read from a number too large for a double; so is this one.
    out += number < 0 ? "-1e999" : "1e999";
    return;
  }
  char text[40];
  const bool whole = number == std::floor(number) && std::abs(number) < kExactIntegers;
  const auto end = whole ? std::to_chars(text, text + sizeof text, static_cast<std::int64_t>(number)).ptr
                         : std::to_chars(text, text + sizeof text, number).ptr;
  out.append(text, end);
  if (whole && !canonical) out += ".0";
}

void write(const json::value& value, bool canonical, std::string& out);

void write(const json::object& object, bool canonical, std::string& out) {
  std::vector<const json::key_value_pair*> members;
  members.reserve(object.size());
  for (const auto& member : object) members.push_back(&member);
  if (canonical) {
    std::ranges::sort(members, {}, [](const auto* member) { return std::string_view(member->key()); });
  }
  out += '{';
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (i > 0) out += ',';
    out += json::serialize(members[i]->key());
    out += ':';
    write(members[i]->value(), canonical, out);
  }
  out += '}';
}

void write(const json::value& value, bool canonical, std::string& out) {
  if (const auto* object = value.if_object()) {
    write(*object, canonical, out);
  } else if (const auto* array = value.if_array()) {
    out += '[';
    for (std::size_t i = 0; i < array->size(); ++i) {
      if (i > 0) out += ',';
      write((*array)[i], canonical, out);
    }
    out += ']';
  } else if (const auto* number = value.if_double()) {
    write_double(*number, canonical, out);
  } else {
    out += json::serialize(value);
  }
}

}  // namespace

std::string to_string(Source source) {
  switch (source.form) {
    case Source::Form::native:
      return "native";
    case Source::Form::strong:
      return "strong:S" + std::to_string(source.row);
    case Source::Form::family:
      return "family:F" + std::to_string(source.row);
    case Source::Form::weak:
      return "weak:W" + std::to_string(source.row);
  }
  return {};
}

std::string compact_json(const json::value& value) {
  std::string out;
  write(value, false, out);
  return out;
}

std::string compact_json(const json::object& object) {
  std::string out;
  write(object, false, out);
  return out;
}

std::string canonical_json(const json::value& value) {
  std::string out;
  write(value, true, out);
  return out;
}

std::string canonical_json(const json::object& object) {
  std::string out;
  write(object, true, out);
  return out;
}

std::size_t collapse_duplicates(std::vector<Call>& calls) {
  std::unordered_set<std::string> seen;
  return std::erase_if(calls, [&](const Call& call) {
    // A name holds no line end, so the parts cannot run into each other.
    std::string key = call.name + '\n';
    key += call.malformed ? "malformed " + call.arguments_text : canonical_json(call.arguments);
    return !seen.insert(std::move(key)).second;
  });
}

bool prose_salvaged(const Provenance& provenance, std::span<const Source> grammar_spellings) {
  switch (provenance.source.form) {
    case Source::Form::native:
      return false;
    case Source::Form::weak:
      return true;
    default:
      return std::ranges::find(grammar_spellings, provenance.source) == grammar_spellings.end();
  }
}

CallIds::CallIds(Entropy& entropy, std::span<const std::string> used)
    : entropy_(&entropy), used_(used.begin(), used.end()) {}

std::string CallIds::take() {
  while (true) {
    std::string id = "call_";
    while (id.size() < 5 + kIdLetters) {
      unsigned char bytes[32];
      entropy_->fill(bytes, sizeof bytes);
      for (const unsigned char byte : bytes) {
        // Bytes above the largest multiple of 62 would make some letters likelier.
        if (byte < 4 * kLetters.size() && id.size() < 5 + kIdLetters) id += kLetters[byte % kLetters.size()];
      }
    }
    if (used_.insert(id).second) return id;
  }
}

}  // namespace gezel::turn
