#include "capacity/slots.h"

#include <gtest/gtest.h>

#include "capacity/kv_choice.h"
#include "capacity/test_machines.h"

namespace gezel::capacity {
namespace {

using namespace testing;  // gib() and the machines of this module

TEST(Slots, Case48_TheTierGoesByFastMemory) {
  EXPECT_EQ(tier_slots(gib(11.9)), 1);
  EXPECT_EQ(tier_slots(gib(12)), 2);
  EXPECT_EQ(tier_slots(gib(24)), 3);
  EXPECT_EQ(tier_slots(gib(48)), 4);
}

SlotInput slot_input(const MemoryProfile& profile, Bytes weights, Bytes slot_kv,
                     EngineFamily family = EngineFamily::llama_cpp) {
  return {.family = family,
          .fast_bytes = profile.budget.fast_bytes,
          .fast_budget = profile.budget.fast_bytes,
          .concurrency_bytes = profile.budget.concurrency_bytes,
          .weights = weights,
          .resident = resident_bytes(family, weights),
          .slot_kv = slot_kv};
}

TEST(Slots, Case49_AQuantizedCacheBuysASecondSlot) {
  const MemoryProfile host = card_host(16, 48);
  const Bytes f16 = Bytes{81'920} * 65'536;
  const SlotInput wide = slot_input(host, gib(5), f16);
  const SlotInput narrow = slot_input(host, gib(5), quick_scaled(f16, KvType::q8_0));
  TradeInput trade{.chosen = KvType::f16,
                   .tier = tier_slots(host.budget.fast_bytes),
                   .f16_ceiling = slot_ceiling(wide),
                   .q8_ceiling = slot_ceiling(narrow)};
  EXPECT_EQ(trade.tier, 2);
  EXPECT_EQ(trade.f16_ceiling, 1);
  EXPECT_EQ(trade.q8_ceiling, 2);
  EXPECT_TRUE(trade_for_a_slot(trade));
  EXPECT_EQ(plan_slots(narrow), 2);
  trade.slots_configured = true;
  EXPECT_FALSE(trade_for_a_slot(trade));
}

TEST(Slots, Case50_MlxKeepsMoreBack) {
  const MemoryProfile host = unified_host(64);
  EXPECT_EQ(host.budget.concurrency_bytes, 48'103'633'715u);
  const Bytes slot_kv = Bytes{98'304} * 65'536;
  EXPECT_EQ(slot_ceiling(slot_input(host, gib(20), slot_kv)), 3);
  EXPECT_EQ(slot_ceiling(slot_input(host, gib(20), slot_kv, EngineFamily::mlx)), 2);
}

TEST(Slots, SmallModelsInOurOwnWorkerGetUpToEight) {
  SlotInput input = slot_input(plain_host(64), gib(1), gib(0.5));
  EXPECT_EQ(plan_slots(input), 3);
  input.embedded = true;
  EXPECT_EQ(plan_slots(input), 8);
  input.configured = 11;
  EXPECT_EQ(plan_slots(input), 11);
  input.draft_mtp = true;
  EXPECT_EQ(plan_slots(input), 1);
}

TEST(Slots, PropertyMoreMemoryNeverLowersTierOrCeiling) {
  int tier = 0, ceiling = 0;
  for (double ram = 4; ram < 200; ram += 0.5) {
    const MemoryProfile host = plain_host(ram);
    const int now = slot_ceiling(slot_input(host, gib(2), gib(1)));
    EXPECT_GE(tier_slots(host.budget.fast_bytes), tier);
    EXPECT_GE(now, ceiling);
    tier = tier_slots(host.budget.fast_bytes);
    ceiling = now;
  }
}

}  // namespace
}  // namespace gezel::capacity
