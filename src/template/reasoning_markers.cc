#include "template/reasoning_markers.h"

#include <algorithm>
#include <array>

namespace gezel::chat {
namespace {

struct Markers {
  std::string_view open;
  std::string_view close;
  bool any_case;
};

constexpr std::array<Markers, 7> kMarkers = {{
    {"<think>", "</think>", true},
    {"<reasoning>", "</reasoning>", true},
    {"[THINK]", "[/THINK]", true},
    {"<seed:think>", "</seed:think>", true},
    {"<mm:think>", "</mm:think>", true},
    {"<|START_THINKING|>", "<|END_THINKING|>", false},
    {"<|channel>thought", "<channel|>", false},
}};

constexpr char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool matches_at(std::string_view text, std::size_t at, std::string_view marker, bool any_case) {
  const std::string_view here = text.substr(at, marker.size());
  if (here == marker) return true;
  return any_case && here.size() == marker.size() && std::ranges::equal(here, marker, {}, lower, lower);
}

constexpr bool may_begin_marker(char c) {
  return c == '<' || c == '[';
}

// Length of the marker that begins at `at`, 0 when there is none; `opens` tells which kind.
std::size_t marker_at(std::string_view text, std::size_t at, bool& opens) {
  if (!may_begin_marker(text[at])) return 0;
  for (const Markers& row : kMarkers) {
    opens = matches_at(text, at, row.open, row.any_case);
    if (opens) return row.open.size();
    if (matches_at(text, at, row.close, row.any_case)) return row.close.size();
  }
  return 0;
}

}  // namespace

bool ends_inside_reasoning(std::string_view text) {
  // From the end, because the last marker decides.
  for (std::size_t at = text.size(); at-- > 0;) {
    bool opens = false;
    if (marker_at(text, at, opens) != 0) return opens;
  }
  return false;
}

bool mentions_reasoning_marker(std::string_view template_source) {
  for (std::size_t at = 0; at < template_source.size(); ++at) {
    bool opens = false;
    if (marker_at(template_source, at, opens) != 0 && opens) return true;
  }
  return false;
}

std::string without_markers(std::string_view text) {
  std::string out;
  std::size_t copied = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    bool opens = false;
    if (marker_at(text, at, opens) == 0) continue;
    out += text.substr(copied, at + 1 - copied);
    out += ' ';
    copied = at + 1;
  }
  if (copied != 0) out += text.substr(copied);
  return out;
}

}  // namespace gezel::chat
