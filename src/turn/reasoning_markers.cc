#include "turn/reasoning_markers.h"

#include <algorithm>
#include <array>

namespace gezel::turn {
namespace {

using enum MarkerScope;

constexpr ReasoningMarkers universal_row(int row, std::string_view open, std::string_view close) {
  return {.row = row, .open = open, .close = close, .any_case = true};
}
constexpr ReasoningMarkers family_row(int row, Family family, std::string_view open, std::string_view close) {
  return {.row = row, .open = open, .close = close, .scope = MarkerScope::family, .family = family};
}
constexpr ReasoningMarkers framed(ReasoningMarkers row) {
  row.close_frames = true;
  return row;
}

constexpr auto kRows = std::to_array<ReasoningMarkers>({
    universal_row(1, "<think>", "</think>"),
    {.row = 2, .open = "<reasoning>", .close = "</reasoning>", .scope = profile, .any_case = true},
    universal_row(3, "[THINK]", "[/THINK]"),
    universal_row(4, "<seed:think>", "</seed:think>"),
    universal_row(5, "<mm:think>", "</mm:think>"),
    {.row = 6, .open = "<|START_THINKING|>", .close = "<|END_THINKING|>"},
    {.row = 7, .open = "<|channel>thought", .close = "<channel|>", .word = true},
    // Damaged Gemma (3.3.8): the opener lost its beginning, or all but its word.
    framed(family_row(7, Family::gemma, "thought|>", "<end|>")),
    {.row = 7,
     .open = "thought\n",
     .scope = family,
     .family = Family::gemma,
     .at_start = true,
     .until_blank_line = true},
    framed(family_row(8, Family::harmony, "<|channel|>analysis<|message|>", "<|end|>")),
    framed(family_row(8, Family::harmony, "", "<|return|>")),
    framed(family_row(8, Family::harmony, "", "<|call|>")),
    framed(family_row(8, Family::harmony, "", "<|start|>")),
    family_row(9, Family::kimi_k3, "<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    framed(family_row(10, Family::muse, " to=self<|message|>", "<|eom|>")),
    framed(family_row(10, Family::muse, "", "<|eot|>")),
    // Row 11, Granite, has the markers of row 1; what is its own is in the framing below.
    {.row = 12,
     .open = "Here are my reasoning steps:",
     .close = "[BEGIN FINAL RESPONSE]",
     .scope = family,
     .family = Family::apriel,
     .at_start = true},
    framed(family_row(13, Family::solar, "<|think|>", "<|end|>")),
});

constexpr auto kControlWords = std::to_array<std::string_view>(
    {"eos", "bos", "pad", "unk", "mask", "turn", "tool_response", "start_of_turn", "end_of_turn", "im_start",
     "im_end", "eot_id", "eom_id", "end"});

constexpr auto kFamilyFraming = std::to_array<FamilyFraming>({
    {Family::other, "<|START_TEXT|>"},
    {Family::other, "<|END_TEXT|>"},
    {Family::other, "<|START_RESPONSE|>"},
    {Family::other, "<|END_RESPONSE|>"},
    {Family::kimi_k3, "<|open|>response<|sep|>"},
    {Family::kimi_k3, "<|close|>response<|sep|>"},
    {Family::kimi_k3, "<|close|>message<|sep|>"},
    {Family::kimi_k3, "<|end_of_msg|>"},
    {Family::minimax_m3, "]<]minimax[>["},
    {Family::functionary, ">>>all\n"},
    {Family::gigachat, "<|message_sep|>"},
    {Family::gigachat, "<|role_sep|>"},
    {Family::muse, " to=user<|message|>"},
    {Family::muse, "<|start|>assistant"},
    {Family::solar, "<|begin|>assistant"},
    {Family::solar, "<|content|>"},
    {Family::solar, "<|calls|>"},
    {Family::apriel, "[END FINAL RESPONSE]"},
    {Family::granite, "<response>"},
    {Family::granite, "</response>"},
});

constexpr auto kLoneCallClosers =
    std::to_array<std::string_view>({"<tool_call|>", "</tool_call|>", "</tool_call>"});

constexpr char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool matches_at(std::string_view text, std::size_t at, std::string_view marker, bool any_case) {
  const std::string_view here = text.substr(at, marker.size());
  if (here == marker) return true;
  return any_case && here.size() == marker.size() && std::ranges::equal(here, marker, {}, lower, lower);
}

// Length of the marker that begins at `at`, 0 when there is none; `opens` tells which kind.
std::size_t marker_at(std::string_view text, std::size_t at, bool& opens) {
  if (text[at] != '<' && text[at] != '[') return 0;
  for (const ReasoningMarkers& row : kRows) {
    if (row.scope == family) continue;
    opens = matches_at(text, at, row.open, row.any_case);
    if (opens) return row.open.size();
    if (matches_at(text, at, row.close, row.any_case)) return row.close.size();
  }
  return 0;
}

}  // namespace

std::span<const ReasoningMarkers> reasoning_markers() {
  return kRows;
}

std::span<const std::string_view> lone_call_closers() {
  return kLoneCallClosers;
}

std::span<const FamilyFraming> family_framing() {
  return kFamilyFraming;
}

std::vector<std::string> control_words() {
  std::vector<std::string> words;
  for (const std::string_view word : kControlWords) {
    for (const std::string_view open : {"<", "<|"}) {
      for (const std::string_view close : {">", "|>"})
        words.push_back(std::string(open).append(word).append(close));
    }
  }
  return words;
}

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

}  // namespace gezel::turn
