#include "capacity/ladder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "capacity/test_machines.h"

namespace gezel::capacity {
namespace {

using namespace testing;  // gib() and the machines of this module
using ::testing::AllOf;
using ::testing::HasSubstr;

// --- clamp

TEST(Ladder, Case51_TheClampStaysAboveItsFloor) {
  LinearCost cost{.resident = gib(9), .token = 200 * kKiB};
  Room room{.budget = gib(24), .free_ram = gib(14)};
  const Clamp clamp = clamp_context(65'536, 1, cost, room);
  EXPECT_EQ(clamp.context, 12'288);
  EXPECT_TRUE(clamp.clamped);
  EXPECT_EQ(clamp.binding, Binding::live_memory);
  room.free_ram = gib(5);
  EXPECT_EQ(clamp_context(65'536, 1, cost, room).context, 8'192);
  room.free_ram = gib(30);
  cost.token = 60 * kKiB;
  EXPECT_EQ(clamp_context(65'536, 1, cost, room).context, 65'536);
  EXPECT_FALSE(clamp_context(65'536, 1, cost, room).clamped);
}

TEST(Ladder, Case52_WhatOthersHoldIsNotThere) {
  const LinearCost cost{.resident = gib(8), .token = 100 * kKiB};
  const Room room{.budget = gib(30), .committed_other = gib(6)};
  const Clamp clamp = clamp_context(65'536, 2, cost, room);
  EXPECT_EQ(clamp.context, 65'536);
  EXPECT_FALSE(clamp.clamped);
  EXPECT_EQ(clamp.possible, 67'108 / 1024 * 1024);
}

TEST(Ladder, AnUnknownCostClampsNothing) {
  const Clamp clamp = clamp_context(65'536, 4, {.resident = gib(99)}, {.budget = gib(1)});
  EXPECT_EQ(clamp.context, 65'536);
  EXPECT_FALSE(clamp.clamped);
}

TEST(Ladder, AReasonNamesEverythingThatCounted) {
  const LinearCost cost{.resident = gib(9), .token = 200 * kKiB};
  const Room room{.budget = gib(24), .committed_other = gib(1), .free_ram = gib(14), .vram = gib(1)};
  const Clamp clamp = clamp_context(65'536, 1, cost, room);
  EXPECT_THAT(clamp_reason(clamp, 65'536, 1, cost, room),
              AllOf(HasSubstr("65536 tokens were asked for and 16384 fit, with 1 slot"), HasSubstr("9.0 GiB"),
                    HasSubstr("12.5 GiB at 65536"), HasSubstr("14.0 GiB of main memory are free now"),
                    HasSubstr("1.0 GiB of graphics memory"), HasSubstr("other models hold 1.0 GiB")));
}

// --- ladder

TEST(Ladder, Case53_SlotsAreShedBeforeContext) {
  const Ladder ladder = run_ladder({.requested = 98'304,
                                    .minimum = 65'536,
                                    .slots = 3,
                                    .cost = {.resident = gib(10), .token = 96 * kKiB},
                                    .room = {.budget = gib(32)}});
  EXPECT_EQ(ladder.slots, 2);
  EXPECT_EQ(ladder.context, 95'232);
  EXPECT_TRUE(ladder.clamped);
  EXPECT_TRUE(ladder.satisfied);
  EXPECT_EQ(
      clamp_context(98'304, 3, {.resident = gib(10), .token = 96 * kKiB}, {.budget = gib(32)}, 1).context,
      63'488);
}

TEST(Ladder, Case54_TheMinimumIsNeverUndercut) {
  LadderInput input{.requested = 65'536,
                    .minimum = 65'536,
                    .slots = 2,
                    .cost = {.resident = gib(12), .token = 400 * kKiB},
                    .room = {.budget = gib(30)}};
  const Ladder denied = run_ladder(input);
  EXPECT_FALSE(denied.satisfied);
  EXPECT_EQ(denied.slots, 1);
  EXPECT_EQ(denied.context, 36'864);
  input.minimum = 32'768;
  const Ladder granted = run_ladder(input);
  EXPECT_TRUE(granted.satisfied);
  EXPECT_EQ(granted.slots, 1);
  EXPECT_EQ(granted.context, 36'864);
}

TEST(Ladder, Case55_WeightsThatDoNotFitLeaveNothing) {
  const Ladder ladder = run_ladder({.requested = 65'536,
                                    .minimum = 65'536,
                                    .slots = 2,
                                    .cost = {.resident = gib(20), .token = kKiB},
                                    .room = {.budget = gib(16)}});
  EXPECT_FALSE(ladder.satisfied);
  EXPECT_EQ(ladder.context, 1);
}

TEST(Ladder, Case56_FreeMemoryCountsBesideTheCards) {
  LadderInput input{.requested = 65'536,
                    .minimum = 65'536,
                    .cost = {.resident = gib(14), .token = 128 * kKiB},
                    .room = {.budget = gib(44), .free_ram = gib(20), .vram = gib(15.2)}};
  EXPECT_EQ(run_ladder(input).context, 65'536);
  EXPECT_TRUE(run_ladder(input).satisfied);
  input.room.free_ram = gib(4);
  EXPECT_EQ(run_ladder(input).context, 20'480);
  EXPECT_FALSE(run_ladder(input).satisfied);
}

TEST(Ladder, Case57_AMeasurementOfTheCardCounts) {
  LadderInput input{.requested = 65'536,
                    .minimum = 32'768,
                    .cost = {.resident = gib(10), .token = 128 * kKiB},
                    .room = {.budget = gib(44), .free_ram = gib(4)}};
  input.room.vram = live_vram(gib(15.2), gib(9), 4'000);
  EXPECT_EQ(run_ladder(input).context, 6'144);
  EXPECT_FALSE(run_ladder(input).satisfied);
  input.room.vram = live_vram(gib(15.2), gib(9), 6'000);  // too old
  EXPECT_EQ(run_ladder(input).context, 47'104);
  EXPECT_TRUE(run_ladder(input).satisfied);
  EXPECT_EQ(live_vram(gib(15.2), std::nullopt, 0), gib(15.2));
}

TEST(Ladder, WithoutAWishOneSlotMayRunBelowTheFloor) {
  const LadderInput input{.requested = 65'536,
                          .minimum = 65'536,
                          .slots = 4,
                          .cost = {.resident = gib(12), .token = 400 * kKiB},
                          .room = {.budget = gib(30)}};
  const Ladder ladder = run_ladder(input, 4'096);
  EXPECT_TRUE(ladder.satisfied);
  EXPECT_TRUE(ladder.below_floor);
  EXPECT_EQ(ladder.slots, 1);
  EXPECT_EQ(ladder.context, 36'864);
  LadderInput full = input;
  full.room.budget = gib(12);
  EXPECT_FALSE(run_ladder(full, 4'096).satisfied);
  EXPECT_FALSE(run_ladder(input, std::nullopt).satisfied);
}

TEST(Ladder, ASmallMachineKeepsLessOfItsFreeMemory) {
  EXPECT_EQ(live_reserve(gib(1)), 128 * kMiB);
  EXPECT_EQ(live_reserve(gib(4)), gib(4) / 10);
  EXPECT_EQ(live_reserve(gib(16)), gib(2));
  // What is left never falls when the machine grows.
  for (Bytes ram = kMiB; ram < gib(8); ram += 10 * kMiB)
    EXPECT_LE(live_reserve(ram + 10 * kMiB), live_reserve(ram) + 10 * kMiB) << ram;
}

// --- properties

struct RandomLadders {
  std::mt19937_64 random{20'240'611};
  Bytes upto(Bytes most) { return random() % (most + 1); }
  LadderInput next() {
    LadderInput input{
        .requested = static_cast<Tokens>(1 + upto(300'000)),
        .slots = static_cast<int>(1 + upto(7)),
        .cost = {.resident = upto(gib(40)), .slot_fixed = upto(gib(1)), .token = 1 + upto(kMiB)},
        .room = {.budget = upto(gib(100)), .committed_other = upto(gib(20)), .vram = upto(gib(24))}};
    input.minimum = static_cast<Tokens>(1 + upto(static_cast<Bytes>(input.requested) - 1));
    if (upto(1) == 1) input.room.free_ram = upto(gib(64));
    return input;
  }
};

TEST(Ladder, PropertyEveryGrantSatisfiesItsOwnInequality) {
  RandomLadders ladders;
  for (int i = 0; i < 20'000; ++i) {
    const LadderInput input = ladders.next();
    const Ladder ladder = run_ladder(input);
    ASSERT_GE(ladder.slots, 1);
    ASSERT_LE(ladder.slots, input.slots);
    ASSERT_LE(ladder.context, input.requested);
    ASSERT_EQ(ladder.satisfied, ladder.context >= input.minimum);
    if (!ladder.satisfied || ladder.context == 1) continue;
    const auto slots = static_cast<unsigned __int128>(ladder.slots);
    const auto cache = slots * static_cast<unsigned __int128>(ladder.context) * input.cost.token;
    const auto weights = input.cost.resident + slots * input.cost.slot_fixed;
    ASSERT_LE(weights + cache + cache / 4, ladder.clamp.cap);
    ASSERT_LE(weights + cache + input.room.committed_other, input.room.budget);
  }
}

// Slots first, then the window: a machine with more memory gives more slots, or as many with a longer window.
TEST(Ladder, PropertyMoreMemoryNeverGivesLessAndMoreCommittedNeverMore) {
  RandomLadders ladders;
  for (int i = 0; i < 20'000; ++i) {
    const LadderInput input = ladders.next();
    const Ladder before = run_ladder(input, 4'096);
    LadderInput more = input;
    more.room.budget += ladders.upto(gib(20));
    if (more.room.free_ram) *more.room.free_ram += ladders.upto(gib(20));
    const Ladder after = run_ladder(more, 4'096);
    ASSERT_GE(std::pair(after.satisfied, std::pair(after.slots, after.context)),
              std::pair(before.satisfied, std::pair(before.slots, before.context)));
    LadderInput crowded = input;
    crowded.room.committed_other += ladders.upto(gib(20));
    const Ladder less = run_ladder(crowded, 4'096);
    ASSERT_LE(std::pair(less.satisfied, std::pair(less.slots, less.context)),
              std::pair(before.satisfied, std::pair(before.slots, before.context)));
  }
}

}  // namespace
}  // namespace gezel::capacity
