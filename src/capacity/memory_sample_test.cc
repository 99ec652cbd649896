#include "capacity/memory_sample.h"

#include <gtest/gtest.h>

#include <random>

#include "capacity/test_machines.h"

namespace gezel::capacity {
namespace {

using namespace testing;  // gib() of this module

TEST(MemorySample, WhatTheSystemGivesBackIsNotUsed) {
  const MemorySample sample = main_memory_sample({.total = gib(64), .free = gib(10), .cached = gib(20)});
  EXPECT_EQ(sample.used, gib(34));
  EXPECT_EQ(sample.ours, 0u);
}

TEST(MemorySample, WithoutObservationOursIsWhatIsReserved) {
  MemorySampleInput input{.total = gib(64), .free = gib(30), .daemon = gib(1)};
  input.engines = {{"a", gib(4), gib(6)}, {"b", gib(2), gib(10)}, {"a", gib(4), gib(6)}};
  const MemorySample sample = main_memory_sample(input);
  EXPECT_FALSE(sample.measured);
  EXPECT_EQ(sample.ours, gib(23));
  EXPECT_EQ(sample.weights, gib(10));
  EXPECT_EQ(sample.cache, gib(12));
  EXPECT_EQ(sample.infrastructure, gib(1));
  ASSERT_EQ(sample.models.size(), 2u);
  EXPECT_EQ(sample.models[0].model, "a");
  EXPECT_EQ(sample.models[0].bytes, gib(12));
  EXPECT_EQ(sample.models[0].replicas, 2);
}

TEST(MemorySample, AnObservationIsNeverMoreThanWhatIsUsed) {
  const MemorySample sample =
      main_memory_sample({.total = gib(8), .free = gib(6), .observed = gib(5), .daemon = gib(1)});
  EXPECT_TRUE(sample.measured);
  EXPECT_EQ(sample.ours, gib(2));
}

TEST(MemorySample, ThePartsAlwaysSumToOurs) {
  std::mt19937_64 random{3};
  const auto upto = [&](Bytes most) { return random() % (most + 1); };
  for (int i = 0; i < 2'000; ++i) {
    MemorySampleInput input{
        .total = upto(gib(64)), .free = upto(gib(64)), .cached = upto(gib(8)), .daemon = upto(gib(2))};
    if (upto(1) == 1) input.observed = upto(gib(64));
    for (Bytes k = upto(3); k > 0; --k) input.engines.push_back({"m", upto(gib(20)), upto(gib(20))});
    const MemorySample sample = main_memory_sample(input);
    ASSERT_EQ(sample.weights + sample.cache + sample.infrastructure, sample.ours);
    ASSERT_LE(sample.ours, sample.used);
  }
}

TEST(MemorySample, CardsCountOnlyWhenAllOfThemReport) {
  EXPECT_FALSE(device_sample({}, gib(1)));
  EXPECT_FALSE(device_sample({{gib(24), gib(2)}, {gib(24), std::nullopt}}, gib(1)));
  const auto sample = device_sample({{gib(24), gib(2)}, {gib(24), gib(3)}}, std::nullopt);
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->used, gib(5));
  EXPECT_EQ(sample->ours, std::nullopt);
}

}  // namespace
}  // namespace gezel::capacity
