#include "turn/splitter.h"

#include <gtest/gtest.h>

#include <random>

#include "turn/parser_test_support.h"
#include "turn/reasoning_markers.h"
#include "turn/regions.h"
#include "turn/test_table.h"

namespace gezel::turn {
namespace {

using Boundaries = std::vector<ReasoningTracker::Boundary>;

Boundaries track(std::string_view text, SplitterOptions options = {}, StartState start = StartState::closed,
                 std::size_t piece = 1) {
  ReasoningTracker tracker(options, start);
  Boundaries all;
  for (std::size_t at = 0; at < text.size(); at += piece) {
    for (const auto& boundary : tracker.feed(text.substr(at, piece))) all.push_back(boundary);
  }
  return all;
}

std::string written(const Boundaries& boundaries) {
  std::string out;
  for (const auto& b : boundaries) {
    out += std::to_string(b.begin) + "-" + std::to_string(b.end) + (b.inside ? "open" : "close") +
           (b.by_call ? "(call) " : " ");
  }
  return out;
}

TEST(StartState, TheEnginesStatementWins) {
  EXPECT_EQ(start_state({.statement = "1", .template_opens = true, .enable_thinking = false}),
            StartState::open);
  EXPECT_EQ(start_state({.statement = "0", .template_opens = true}), StartState::closed);
}

TEST(StartState, WhatIsNoStatementIsIgnored) {
  EXPECT_EQ(start_state({.statement = "maybe", .template_opens = true}), StartState::open);
  EXPECT_EQ(start_state({.statement = "", .template_opens = false}), StartState::closed);
}

TEST(StartState, TheTemplateOpensUnlessThinkingIsOff) {
  EXPECT_EQ(start_state({.template_opens = true}), StartState::open);
  EXPECT_EQ(start_state({.template_opens = true, .enable_thinking = false}), StartState::closed);
  EXPECT_EQ(start_state({.template_opens = false, .enable_thinking = true}), StartState::closed);
}

TEST(StartState, UnknownWhenNobodyKnows) {
  EXPECT_EQ(start_state({}), StartState::unknown);
  EXPECT_EQ(start_state({.statement = "maybe", .enable_thinking = true}), StartState::unknown);
}

TEST(ReasoningTracker, TellsAMarkerWithItsLastByte) {
  ReasoningTracker tracker({}, StartState::open);
  EXPECT_TRUE(tracker.feed("thoughts</think").empty());
  EXPECT_TRUE(tracker.inside());
  EXPECT_EQ(tracker.pending(), 7u);
  EXPECT_EQ(written(tracker.feed(">")), "8-16close ");
  EXPECT_FALSE(tracker.inside());
  EXPECT_EQ(tracker.pending(), 0u);
}

TEST(ReasoningTracker, ABlockMayOpenAgain) {
  EXPECT_EQ(written(track("a</think>b<think>c</think>d", {}, StartState::open)),
            "1-9close 10-17open 18-26close ");
}

TEST(ReasoningTracker, AStrayCloserChangesNothing) {
  EXPECT_EQ(written(track("a</think>b")), "");
}

TEST(ReasoningTracker, AnOpenerOfACallEndsABlockWhereTheFamilySaysSo) {
  const SplitterOptions ends{.calls = true, .tool_open_ends_reasoning = true};
  EXPECT_EQ(written(track("a<tool_call>", ends, StartState::open)), "1-12close(call) ");
  const SplitterOptions does_not{.calls = true, .tool_open_ends_reasoning = false};
  EXPECT_EQ(written(track("a<tool_call>", does_not, StartState::open)), "");
}

TEST(ReasoningTracker, AnOpenerWhoseGuardFailsEndsNothing) {
  const SplitterOptions options{.calls = true};
  EXPECT_EQ(written(track("the <tool_calls> tag", options, StartState::open)), "");
  EXPECT_EQ(written(track("the <tool_calls> [", options, StartState::open)), "4-16close(call) ");
}

TEST(ReasoningTracker, KnowsTheFamiliesMarkers) {
  EXPECT_EQ(written(track("<|channel|>analysis<|message|>a<|end|>", {.family = Family::harmony})),
            "0-30open 31-38close ");
  EXPECT_EQ(written(track("<|channel|>analysis<|message|>a<|end|>", {})), "");
  EXPECT_EQ(written(track("a<|close|>think<|sep|>b", {.family = Family::kimi_k3}, StartState::open)),
            "1-22close ");
}

TEST(ReasoningTracker, KnowsMarkersOfTheTemplateItself) {
  const SplitterOptions options{.private_markers = {{"<<begin>>", "<<end>>"}}};
  EXPECT_EQ(written(track("<<begin>>a<<end>>b", options)), "0-9open 10-17close ");
}

TEST(ReasoningTracker, WithoutSplittingThereIsNoReasoning) {
  EXPECT_EQ(written(track("<think>a</think>", {.split_reasoning = false}, StartState::open)), "");
}

TEST(ReasoningTracker, GivesTheSameForEveryPieceSize) {
  for_each_row("parse.jsonl", [](const json::object& row) {
    const std::string text = string_or(row, "in");
    const SplitterOptions options{.family = family_named(string_or(row, "fam", "universal")).value(),
                                  .calls = true};
    for (const StartState start : {StartState::closed, StartState::open}) {
      const std::string whole = written(track(text, options, start, text.size() + 1));
      for (const std::size_t piece : {1, 2, 3, 7}) {
        EXPECT_EQ(written(track(text, options, start, piece)), whole) << piece;
      }
    }
  });
}

// Worker and daemon must agree where reasoning ends. The tracker does not read calls, so texts with calls are
// compared up to the first one.
TEST(ReasoningTracker, SplitsLikeTheParser) {
  for_each_row("parse.jsonl", [](const json::object& row) {
    const Family family = family_named(string_or(row, "fam", "universal")).value();
    if (family == Family::harmony || string_or(row, "profile") == "plain") return;
    if (row.contains("calls") || row.contains("truncated") || row.contains("unknown") ||
        row.contains("malformed"))
      return;
    const StartState start = string_or(row, "start") == "open" ? StartState::open : StartState::closed;
    const std::string text = string_or(row, "in");
    SplitterOptions options{.family = family, .calls = !row.contains("tools")};
    options.tool_open_ends_reasoning = bool_or(row, "toolEnds", true);
    std::string reasoning;
    std::size_t from = 0;
    bool inside = start == StartState::open;
    const auto add = [&](std::size_t end) {
      const std::string_view block = trimmed(std::string_view(text).substr(from, end - from));
      if (inside && !block.empty()) reasoning.append(reasoning.empty() ? "" : "\n\n").append(block);
    };
    for (const auto& boundary : track(text, options, start)) {
      add(boundary.begin);
      from = boundary.end;
      inside = boundary.inside;
    }
    add(text.size());
    if (string_or(row, "id") == "P10") return;  // the repeated opener is dropped by whoever shows the text
    if (string_or(row, "start") == "unknown") return;
    EXPECT_EQ(reasoning, string_or(row, "r"));
  });
}

TEST(ReasoningMarkers, ThirteenRowsOfWhichTheUniversalOnesAreKnownToPrompts) {
  for (const ReasoningMarkers& row : reasoning_markers()) {
    if (row.open.empty() || row.close.empty()) continue;
    const std::string open(row.open), close(row.close);
    const bool known = row.scope != MarkerScope::family;
    EXPECT_EQ(ends_inside_reasoning("a" + open + "b"), known) << open;
    EXPECT_FALSE(ends_inside_reasoning("a" + open + "b" + close)) << open;
    EXPECT_EQ(mentions_reasoning_marker("x " + open), known) << open;
  }
}

TEST(ReasoningMarkers, TheLastOneDecidesAndRowsOneToFiveHaveAnyCase) {
  EXPECT_TRUE(ends_inside_reasoning("</think><THINK>"));
  EXPECT_FALSE(ends_inside_reasoning("<THINK></Think>"));
  EXPECT_FALSE(ends_inside_reasoning("<|start_thinking|>"));
}

TEST(ReasoningMarkers, AreMadeHarmlessInWhatPeopleWrite) {
  for (const ReasoningMarkers& row : reasoning_markers()) {
    if (row.scope == MarkerScope::family) continue;
    EXPECT_FALSE(ends_inside_reasoning(without_markers("a" + std::string(row.open) + "b"))) << row.open;
  }
  EXPECT_EQ(without_markers("no marker < here"), "");
}

TEST(Families, EveryFamilyHasANameThatLeadsBack) {
  for (int i = 0; i <= static_cast<int>(Family::gemma); ++i) {
    const auto family = static_cast<Family>(i);
    EXPECT_EQ(family_named(to_string(family)), family);
  }
  EXPECT_FALSE(family_named("nobody"));
}

// --- white space

std::string joined(bool drop_leading, const std::vector<std::string>& pieces) {
  ContentWriter writer(drop_leading);
  std::string out;
  for (const std::string& piece : pieces) {
    if (piece == "-") {
      writer.removed();
    } else {
      writer.text(piece, out);
    }
  }
  writer.finish(out);
  return out;
}

TEST(Content, ARegionLeavesWhatItsWhiteSpaceSays) {
  EXPECT_EQ(joined(true, {"a ", "-", "\n", "-", "b"}), "a\n\nb");
  EXPECT_EQ(joined(true, {"a ", "-", "b"}), "a b");
  EXPECT_EQ(joined(true, {"a", "-", "b"}), "ab");
}

TEST(Content, ARegionAtTheEdgesLeavesNothing) {
  EXPECT_EQ(joined(false, {"\n", "-", " a ", "-", "\n"}), "a");
}

TEST(Content, OtherWhiteSpaceStays) {
  EXPECT_EQ(joined(false, {"\n a\n\n", "\n b \n"}), "\n a\n\n\n b \n");
  EXPECT_EQ(joined(true, {"\n a\n\n", "\n b \n"}), "a\n\n\n b \n");
}

TEST(Content, AVeryLongRunOfWhiteSpaceIsReleasedAtTheSamePlacesHoweverItIsCut) {
  for (const bool removed : {false, true}) {
    for (const bool drop : {false, true}) {
      const std::string space(200'000, ' ');
      std::vector<std::string> whole = {"a", space}, cut = {"a"};
      for (std::size_t at = 0; at < space.size(); at += 999) cut.push_back(space.substr(at, 999));
      for (auto* pieces : {&whole, &cut}) {
        if (removed) pieces->push_back("-");
        pieces->push_back("b");
      }
      EXPECT_EQ(joined(drop, whole), joined(drop, cut));
      EXPECT_LE(joined(drop, whole).size(), space.size() + 2);
    }
  }
}

TEST(Reasoning, AVeryLongRunOfWhiteSpaceIsReleasedAtTheSamePlacesHoweverItIsCut) {
  const std::string text = "a" + std::string(200'000, '\n');
  std::string whole, cut;
  ReasoningWriter one, many;
  one.begin_block();
  one.text(text, whole);
  many.begin_block();
  for (std::size_t at = 0; at < text.size(); at += 777)
    many.text(std::string_view(text).substr(at, 777), cut);
  EXPECT_EQ(whole, cut);
  EXPECT_EQ(whole.size(), 1 + 3 * kMaxHeldSpace);
}

}  // namespace
}  // namespace gezel::turn
