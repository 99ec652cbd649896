#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "kvcache/boundaries.h"
#include "kvcache/coalesce.h"
#include "kvcache/mode.h"
#include "kvcache/prefix_break.h"
#include "kvcache/pressure.h"
#include "kvcache/resume.h"
#include "kvcache/slot_choice.h"
#include "kvcache/test_tree.h"

namespace gezel::kvcache {
namespace {

using testing::ElementsAre;

constexpr MonotonicTime kNow{std::chrono::hours(1)};

// --- boundaries

// Every token is `width` bytes.
std::vector<std::uint64_t> even(std::size_t tokens, std::uint64_t width = 4) {
  std::vector<std::uint64_t> ends;
  for (std::size_t i = 1; i <= tokens; ++i) ends.push_back(i * width);
  return ends;
}

std::vector<std::uint32_t> ends_of(const std::vector<Boundary>& boundaries) {
  std::vector<std::uint32_t> ends;
  for (const Boundary& boundary : boundaries) ends.push_back(boundary.tokens);
  return ends;
}

TEST(Boundaries, StandAtTheSystemEndUserMessagesAndToolResults) {
  const std::vector<TextSpan> spans = {{SpanKind::system, 0, 400},
                                       {SpanKind::user, 420, 800},
                                       {SpanKind::tool_result, 1000, 1400},
                                       {SpanKind::user, 1600, 2000}};
  const auto found = plan_boundaries(even(550), counted(550), spans, {});
  EXPECT_THAT(found, ElementsAre(Boundary{100, Class::system}, Boundary{350, Class::user},
                                 Boundary{400, Class::user}, Boundary{550, Class::user}))
      << "the first user message begins 5 tokens behind the system text";
}

TEST(Boundaries, MoveToTheTokenEdgeBeforeASpan) {
  const std::vector<TextSpan> spans = {{SpanKind::user, 203, 300}};
  EXPECT_THAT(ends_of(plan_boundaries(even(100), counted(100), spans, {})), ElementsAre(50U, 100U));
}

TEST(Boundaries, KeepOutOfMediaSpans) {
  auto keys = counted(200);
  for (int i = 80; i < 120; ++i) keys[i] = Key{1} << 63;
  const std::vector<TextSpan> spans = {{SpanKind::user, 400, 700}};
  EXPECT_THAT(ends_of(plan_boundaries(even(200), keys, spans, {})), ElementsAre(80U, 200U));
}

TEST(Boundaries, AShortSystemTextStillHasItsOwn) {
  const std::vector<TextSpan> spans = {{SpanKind::system, 0, 40}, {SpanKind::user, 60, 800}};
  EXPECT_THAT(plan_boundaries(even(300), counted(300), spans, {}),
              ElementsAre(Boundary{10, Class::system}, Boundary{300, Class::user}));
}

TEST(Boundaries, ModelsWithCheckpointsGetThemSpreadAndShortBeforeTheEnd) {
  const auto found = plan_boundaries(even(5000), counted(5000), {}, {.mode = Mode::hybrid, .spacing = 2048});
  EXPECT_THAT(ends_of(found), ElementsAre(2048U, 4096U, 4984U, 5000U));
  EXPECT_THAT(
      ends_of(plan_boundaries(even(4200), counted(4200), {}, {.mode = Mode::hybrid, .spacing = 2048})),
      ElementsAre(2048U, 4184U, 4200U))
      << "the margin counts more than a node 88 tokens before it";
}

TEST(Boundaries, AreNotAskedForWhatIsThereAlready) {
  const std::vector<TextSpan> spans = {{SpanKind::system, 0, 400}, {SpanKind::user, 800, 1200}};
  EXPECT_THAT(ends_of(plan_boundaries(even(300), counted(300), spans, {.after = 150})),
              ElementsAre(200U, 300U));
}

TEST(Boundaries, SpaceCheckpointsByWhatOneCosts) {
  EXPECT_EQ(checkpoint_spacing(100'663'296, 49'152), 2048U);
  EXPECT_EQ(checkpoint_spacing(1000, 49'152), 1024U);
  EXPECT_EQ(checkpoint_spacing(1000, 0), 1024U);
}

// --- slots

TEST(SlotChoice, ContinuesAConversationInItsSlot) {
  const std::vector<SlotState> slots = {
      {.held = 500, .keep = 480, .last_used = 9}, {}, {.held = 900, .keep = 100}};
  const SlotChoice choice = choose_slot(slots, 600, 0, kNow);
  EXPECT_EQ(choice.kind, SlotChoice::Kind::continues);
  EXPECT_EQ(choice.slot, 0);
  EXPECT_EQ(choice.keep, 480U);
}

TEST(SlotChoice, DoesNotTakeAConversationForItsSystemTextAlone) {
  // 400 tokens in common, 300 would be lost; the tree has the 400 anyway.
  const std::vector<SlotState> slots = {{.held = 700, .keep = 400}, {}};
  EXPECT_EQ(choose_slot(slots, 450, 400, kNow).kind, SlotChoice::Kind::empty);
}

TEST(SlotChoice, PrefersTheTreeWhenItHasMoreThanTheSlot) {
  const std::vector<SlotState> slots = {{.held = 60, .keep = 40}, {}};
  EXPECT_EQ(choose_slot(slots, 1000, 900, kNow).slot, 1);
  EXPECT_EQ(choose_slot(slots, 1000, 30, kNow).slot, 0);
}

TEST(SlotChoice, TheSamePromptAgainIsAContinuation) {
  const std::vector<SlotState> slots = {{.held = 540, .keep = 500}};
  const SlotChoice choice = choose_slot(slots, 500, 500, kNow);
  EXPECT_EQ(choice.kind, SlotChoice::Kind::continues);
  EXPECT_EQ(choice.keep, 499U);
}

TEST(SlotChoice, MostOfAPromptThatCannotBeMovedIsUsedWhereItIs) {
  // Asked again after a long answer, with an empty slot beside it.
  const std::vector<SlotState> slots = {{.held = 1300, .keep = 500}, {}};
  const SlotChoice again = choose_slot(slots, 500, 0, kNow);
  EXPECT_EQ(again.kind, SlotChoice::Kind::continues);
  EXPECT_EQ(again.slot, 0);
  EXPECT_EQ(again.keep, 499U);
  EXPECT_EQ(choose_slot(slots, 500, 500, kNow).slot, 1) << "what can be moved leaves the other its rows";
  EXPECT_EQ(choose_slot(slots, 700, 0, kNow).slot, 1) << "a conversation of its own";
}

TEST(SlotChoice, OfSeveralSlotsWithMostOfAPromptTheOneWithMoreIsUsed) {
  const std::vector<SlotState> slots = {{.held = 900, .keep = 450}, {.held = 900, .keep = 480}};
  EXPECT_EQ(choose_slot(slots, 500, 0, kNow).slot, 1);
}

TEST(SlotChoice, RecyclesTheLeastRecentlyUsed) {
  const std::vector<SlotState> slots = {
      {.held = 10, .last_used = 5}, {.held = 10, .last_used = 3}, {.live = true}};
  const SlotChoice choice = choose_slot(slots, 100, 0, kNow);
  EXPECT_EQ(choice.kind, SlotChoice::Kind::recycled);
  EXPECT_EQ(choice.slot, 1);
}

TEST(SlotChoice, SparesAForksParentWhileThereIsAnother) {
  std::vector<SlotState> slots = {{.held = 10, .last_used = 1, .kept_until = kNow + std::chrono::seconds(60)},
                                  {.held = 10, .last_used = 2}};
  EXPECT_EQ(choose_slot(slots, 100, 0, kNow).slot, 1);
  slots[1].live = true;
  EXPECT_EQ(choose_slot(slots, 100, 0, kNow).slot, 0);
}

TEST(SlotChoice, TiesGoNextToLiveSlots) {
  const std::vector<SlotState> slots = {{}, {}, {.live = true}, {}};
  EXPECT_EQ(choose_slot(slots, 100, 0, kNow).slot, 1);
  const std::vector<SlotState> busy = {{.live = true}};
  EXPECT_EQ(choose_slot(busy, 100, 0, kNow).kind, SlotChoice::Kind::none);
}

TEST(SlotChoice, AWindowCannotBeCutBackBehindItsOldestCell) {
  EXPECT_FALSE(window_allows(4500, 1024, 4976));
  EXPECT_TRUE(window_allows(5999, 1024, 4976));
  EXPECT_TRUE(window_allows(500, 1024, 0));
  EXPECT_TRUE(window_allows(4500, 0, 4976)) << "full attention";
}

// --- coalescing

TEST(Coalescer, WaitsFor128TokensAndNotFor127) {
  for (const std::uint32_t common : {127U, 128U}) {
    Coalescer prompts;
    prompts.lead(1, kTestDomain, counted(1000), {1000}, 0, Millis(1000), kNow);
    const auto newcomer = joined(counted(200 + common), counted(50, 9000));
    EXPECT_EQ(prompts.wait(2, kTestDomain, newcomer, 200, kNow).has_value(), common == 128);
  }
}

TEST(Coalescer, MakesTheLeaderStopWhereThePromptsPart) {
  Coalescer prompts;
  prompts.lead(1, kTestDomain, counted(1000), {1000}, 0, Millis(1000), kNow);
  const auto wait = prompts.wait(2, kTestDomain, joined(counted(600), counted(50, 9000)), 0, kNow);
  ASSERT_TRUE(wait);
  EXPECT_EQ(wait->tokens, 600U);
  EXPECT_EQ(wait->deadline, kNow + std::chrono::seconds(2));
  EXPECT_EQ(prompts.next_boundary(1), 600U);
  EXPECT_TRUE(prompts.wanted(1, 600));
  EXPECT_TRUE(prompts.advanced(1, 512).empty());
  EXPECT_THAT(prompts.advanced(1, 600), ElementsAre(2U));
  EXPECT_EQ(prompts.next_boundary(1), 1000U);
}

TEST(Coalescer, UsesABoundaryThatIsThereAnyway) {
  Coalescer prompts;
  prompts.lead(1, kTestDomain, counted(1000), {550, 1000}, 0, Millis(1000), kNow);
  EXPECT_EQ(prompts.wait(2, kTestDomain, joined(counted(600), counted(50, 9000)), 0, kNow)->tokens, 550U);
}

TEST(Coalescer, DoesNotWaitForWhatIsOverOrElsewhere) {
  Coalescer prompts;
  prompts.lead(1, kTestDomain, counted(1000), {1000}, 700, Millis(1000), kNow);
  EXPECT_FALSE(prompts.wait(2, kTestDomain, joined(counted(600), counted(50, 9000)), 0, kNow))
      << "already fed";
  EXPECT_FALSE(prompts.wait(2, domain_of("a", "", "", ""), counted(1000), 0, kNow)) << "another domain";
  EXPECT_FALSE(prompts.wait(2, kTestDomain, counted(1000), 0, kNow + std::chrono::seconds(2))) << "too slow";
  EXPECT_EQ(prompts.waiters(), 0U);
}

TEST(Coalescer, NobodyWaitsForALeaderThatFailedOrIsTooSlow) {
  Coalescer prompts;
  prompts.lead(1, kTestDomain, counted(1000), {1000}, 0, Millis(1000), kNow);
  for (const RunNumber run : {7U, 3U, 5U}) prompts.wait(run, kTestDomain, counted(1001), 0, kNow);
  EXPECT_THAT(prompts.ended(1), ElementsAre(7U, 3U, 5U)) << "in order of arrival";
  prompts.lead(7, kTestDomain, counted(1001), {1001}, 0, Millis(1000), kNow);
  prompts.wait(3, kTestDomain, counted(1001), 0, kNow);
  prompts.wait(5, kTestDomain, counted(1001), 0, kNow);
  prompts.forget(5);
  EXPECT_TRUE(prompts.expired(kNow + Millis(1999)).empty());
  EXPECT_THAT(prompts.expired(kNow + Millis(2000)), ElementsAre(3U));
}

TEST(Coalescer, ALeaderThatGetsOnIsWaitedForLonger) {
  Coalescer prompts;
  prompts.lead(1, kTestDomain, counted(1000), {300, 1000}, 0, Millis(1000), kNow);
  prompts.wait(2, kTestDomain, counted(1001), 0, kNow);
  EXPECT_EQ(prompts.next_wanted(1), 1000U) << "not 300, for which nobody waits";
  prompts.predict(1, Millis(3000), kNow + Millis(1500));
  EXPECT_TRUE(prompts.expired(kNow + Millis(7499)).empty());
  EXPECT_THAT(prompts.expired(kNow + Millis(7500)), ElementsAre(2U));
  EXPECT_EQ(prompts.next_wanted(1), std::nullopt);
  EXPECT_EQ(prompts.boundary_after(1, 300), 1000U);
}

// 8 requests with a common head of 12,000 tokens and tails of 100, in 8 slots at once: the head is computed
// once.
TEST(Coalescer, KnowsWhoWaitsForALeader) {
  Coalescer flight;
  const auto keys = counted(600);
  flight.lead(1, kTestDomain, keys, {600}, 0, Millis(1000), kNow);
  EXPECT_THAT(flight.waiting_for(1), ElementsAre());
  flight.wait(2, kTestDomain, joined(keys, counted(9, 5000)), 0, kNow);
  flight.wait(3, kTestDomain, joined(keys, counted(9, 6000)), 0, kNow);
  EXPECT_THAT(flight.waiting_for(1), ElementsAre(2, 3));
  EXPECT_THAT(flight.waiting_for(2), ElementsAre());
  flight.forget(2);
  EXPECT_THAT(flight.waiting_for(1), ElementsAre(3));
}

TEST(Coalescer, ComputesACommonHeadOnce) {
  Tree tree({.mode = Mode::full, .host_budget = kGiB});
  Coalescer prompts;
  std::vector<std::vector<Key>> requests;
  for (Key i = 0; i < 8; ++i) requests.push_back(joined(counted(12'000), counted(100, 100'000 + 1000 * i)));
  std::uint64_t computed = 0, cached = 0;
  std::deque<RunNumber> ready;
  for (RunNumber run = 0; run < 8; ++run) ready.push_back(run);
  struct Running {
    RunNumber run;
    std::uint32_t fed;
  };
  std::deque<Running> running;
  for (int step = 0; step < 1000 && (!ready.empty() || !running.empty()); ++step) {
    while (!ready.empty()) {
      const RunNumber run = ready.front();
      ready.pop_front();
      const auto& prompt = requests[run];
      const Resume resume = plan_resume(tree, Mode::full, tree.match(kTestDomain, prompt), 12'100, 100, {});
      if (prompts.wait(run, kTestDomain, prompt, resume.tokens, kNow)) continue;
      cached += resume.tokens;
      prompts.lead(run, kTestDomain, prompt, {12'100}, resume.tokens, Millis(5000), kNow);
      running.push_back({run, resume.tokens});
    }
    Running now = running.front();
    running.pop_front();
    const std::uint32_t end = std::min({now.fed + 512, 12'100U, *prompts.next_boundary(now.run)});
    computed += end - now.fed;
    now.fed = end;
    const bool boundary = end == prompts.next_boundary(now.run);
    if (boundary) {
      const NodeId id =
          tree.commit(kTestDomain, requests[now.run], end, Class::user, static_cast<int>(now.run), kNow);
      if (prompts.wanted(now.run, end)) absorb_all(tree, id, std::span(requests[now.run]).first(end));
    }
    for (const RunNumber run : prompts.advanced(now.run, end)) ready.push_back(run);
    if (end < 12'100) {
      running.push_back(now);
    } else {
      for (const RunNumber run : prompts.ended(now.run)) ready.push_back(run);
    }
  }
  EXPECT_EQ(computed, 12'000U + 8 * 100);
  EXPECT_EQ(cached, 7U * 12'000);
  EXPECT_EQ(tree.check(), "");
}

// --- where prompts part

TEST(PrefixBreak, SaysWhereAPromptLeftTheClosestOne) {
  Tree tree({.mode = Mode::full, .host_budget = kGiB});
  const auto before = joined(counted(100), counted(200, 5000));
  tree.commit(kTestDomain, before, 300, Class::user, 0, kNow);
  auto prompt = before;
  prompt[60] = 77777;
  const std::vector<TextSpan> spans = {{SpanKind::system, 0, 400}, {SpanKind::user, 404, 1200}};
  const auto found = find_prefix_break(tree, kTestDomain, prompt, even(300), spans);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->matched, 60U);
  EXPECT_EQ(found->previous, 300U);
  EXPECT_EQ(found->at_message, 0U);
  EXPECT_EQ(found->before.back(), 60U);
  EXPECT_EQ(found->now.front(), 77777U);
  EXPECT_EQ(found->then.front(), 61U);
  EXPECT_EQ(found->now.size(), kBreakTokens);
}

TEST(PrefixBreak, IsNothingWhenAPromptContinues) {
  Tree tree({.mode = Mode::full, .host_budget = kGiB});
  tree.commit(kTestDomain, counted(100), 100, Class::user, 0, kNow);
  EXPECT_FALSE(find_prefix_break(tree, kTestDomain, counted(150), even(150), {}));
  EXPECT_FALSE(find_prefix_break(tree, kTestDomain, counted(50), even(50), {}));
  EXPECT_FALSE(find_prefix_break(Tree({}), kTestDomain, counted(50), even(50), {}));
}

TEST(PrefixBreak, ShowsWholeCharactersOfAtMost48Bytes) {
  PrefixBreak found;
  for (Key i = 0; i < 24; ++i) {
    found.before.push_back(i);
    found.now.push_back(i);
  }
  found.then = {Key{1} << 63};
  const BreakSnippets text = snippets(found, [](Key) { return std::string("\xe2\x82\xac-"); });
  EXPECT_EQ(text.now.size(), 48U);
  EXPECT_TRUE(text.now.starts_with("\xe2\x82\xac"));
  EXPECT_TRUE(text.before.ends_with("-"));
  EXPECT_LE(text.before.size(), 48U);
  EXPECT_EQ(text.then, "");
  const BreakSnippets wide = snippets(found, [](Key) { return std::string("\xf0\x9f\x98\x80\xe2\x82\xac"); });
  EXPECT_EQ(wide.now.size(), 46U);
  EXPECT_EQ(static_cast<unsigned char>(wide.before[0]) & 0xc0, 0xc0);
}

// --- modes, the probe, pressure

TEST(Mode, IsGuessedFromWhatTheModelIs) {
  EXPECT_EQ(guess_mode({}), Mode::full);
  EXPECT_EQ(guess_mode({.sliding_window = true}), Mode::window);
  EXPECT_EQ(guess_mode({.hybrid = true}), Mode::hybrid);
  EXPECT_EQ(guess_mode({.recurrent = true}), Mode::recurrent);
  EXPECT_EQ(guess_mode({.diffusion = true}), Mode::none);
  EXPECT_EQ(guess_mode({.decoder = false}), Mode::none);
}

TEST(Probe, AcceptsAnotherBestTokenOnlyWhereTheColdRunWasUndecided) {
  const std::vector<float> cold = {1.0F, 2.0F, 1.9F}, close = {1.0F, 2.0F, 2.1F};
  const auto comparison = compare_logits(cold, close);
  EXPECT_FALSE(comparison.same_best);
  EXPECT_NEAR(comparison.cold_gap, 0.1, 1e-6);
  EXPECT_TRUE(acceptable(comparison, 0.5));
  EXPECT_FALSE(acceptable(comparison, 0.05));
  EXPECT_TRUE(acceptable(compare_logits(cold, cold), 0));
  EXPECT_FALSE(acceptable(compare_logits(cold, std::vector<float>{1, 2}), 10)) << "another vocabulary";
  EXPECT_FALSE(acceptable(compare_logits(cold, std::vector<float>{1, NAN, 2}), 10));
}

TEST(Probe, MeasuresEpsilonFromOneRowAgainstMany) {
  EXPECT_DOUBLE_EQ(measured_epsilon({}, {}), kStartEpsilon);
  EXPECT_NEAR(measured_epsilon(std::vector<double>{1, 2}, std::vector<double>{1.1, 1.7}), 0.6, 1e-9);
}

TEST(HostBudget, IsHalvedUnderPressureAndComesBack) {
  HostBudget budget(kGiB);
  EXPECT_EQ(budget.bytes(kNow), kGiB);
  budget.pressure(kNow);
  EXPECT_EQ(budget.bytes(kNow), kGiB / 2);
  for (int i = 0; i < 5; ++i) budget.pressure(kNow);
  EXPECT_EQ(budget.bytes(kNow), 256 * kMiB);
  EXPECT_EQ(budget.bytes(kNow + std::chrono::minutes(9)), 256 * kMiB);
  EXPECT_EQ(budget.bytes(kNow + std::chrono::minutes(10)), kGiB);
}

}  // namespace
}  // namespace gezel::kvcache
