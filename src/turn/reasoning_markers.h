// turn/reasoning_markers.h
//
// What opens and closes a block of reasoning: the table of spec 50 section 3.1, one row per family of
// markers, and the questions about a prompt or a template that the table alone answers.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "turn/family.h"

namespace gezel::turn {

// For which models a row counts.
enum class MarkerScope : std::uint8_t {
  universal,  // every model that reasons
  profile,    // where the model's profile asks for it
  family,     // its own family
};

struct ReasoningMarkers {
  int row = 0;
  std::string_view open;
  std::string_view close;
  MarkerScope scope = MarkerScope::universal;
  Family family = Family::other;  // of scope `family`
  bool any_case = false;          // without regard to letter case
  bool word = false;              // the opener ends a word: no letter or digit follows
  bool at_start = false;          // the opener counts only at the beginning of the message
  bool close_frames = false;      // outside a block the closer is framing, no sign of a block that was open
  bool until_blank_line = false;  // a blank line ends the block, too
};

// Rows 1 to 13; a row with several closers stands several times.
std::span<const ReasoningMarkers> reasoning_markers();

// Chat-control words that any family may leak, in all spellings (section 3.3.7).
std::vector<std::string> control_words();
// What the messages of a family have around reasoning and answer: removed like the words, and part of the
// text that the engine must not leave out. Family::other: of every family.
struct FamilyFraming {
  Family family = Family::other;
  std::string_view token;
};
std::span<const FamilyFraming> family_framing();
// Closers of calls that are removed as well where tools were offered: there their opener is missing.
std::span<const std::string_view> lone_call_closers();

// --- about prompts and templates; only rows of scope `universal` and `profile` count

// True when the last opener in the text has no closer after it.
bool ends_inside_reasoning(std::string_view text);

// A template shows one of the openers.
bool mentions_reasoning_marker(std::string_view template_source);

// The text with every marker made harmless ("<think>" becomes "< think>"): what people write about markers
// opens no block. Works on JSON text as well. Unchanged text comes back as "".
std::string without_markers(std::string_view text);

}  // namespace gezel::turn
