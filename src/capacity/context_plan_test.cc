#include "capacity/context_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/json.h"

namespace gezel::capacity {
namespace {

using ::testing::HasSubstr;

// 128 KiB per token of f16: a slot of 8,192 tokens takes 1 GiB.
constexpr KvGeometry kGeometry{.global_elements = 65'536};

ContextRequest read_request(const json::object& test_case) {
  ContextRequest request;
  request.available = static_cast<Bytes>(int_or(test_case, "available", 0));
  request.weights = static_cast<Bytes>(int_or(test_case, "weights", 0));
  if (!test_case.contains("geometry")) request.geometry = kGeometry;
  if (test_case.contains("trained")) request.trained = int_or(test_case, "trained", 0);
  const auto& want = *object_at(test_case, "want");
  if (want.contains("slots")) request.slots = static_cast<int>(int_or(want, "slots", 0));
  if (want.contains("context")) request.context = int_or(want, "context", 0);
  return request;
}

void check_plan(const json::object& expect, const ContextPlan& plan) {
  EXPECT_EQ(plan.slots, int_or(expect, "slots", -1));
  EXPECT_EQ(plan.context_per_slot, int_or(expect, "context", -1));
  EXPECT_EQ(plan.kv_bytes,
            static_cast<Bytes>(int_or(expect, "kv_bytes", static_cast<std::int64_t>(plan.kv_bytes))));
  EXPECT_EQ(plan.budget,
            static_cast<Bytes>(int_or(expect, "budget", static_cast<std::int64_t>(plan.budget))));
  EXPECT_EQ(plan.reduced, bool_or(expect, "reduced", plan.reduced));
  EXPECT_EQ(plan.estimated, bool_or(expect, "estimated", false));
  EXPECT_THAT(plan.note, HasSubstr(string_or(expect, "note")));
  EXPECT_LE(plan.kv_bytes, plan.budget);
}

void check_error(const json::object& expect, const Error& error) {
  EXPECT_EQ(error.code, string_or(expect, "error"));
  EXPECT_EQ(error.param, string_or(expect, "param"));
  for (const auto& part : *array_at(expect, "message")) {
    EXPECT_THAT(error.message, HasSubstr(std::string(part.as_string())));
  }
}

TEST(ContextPlan, EveryCaseOfTheTableHolds) {
  std::ifstream table(GEZEL_TESTDATA "/capacity/context_plan.jsonl");
  int cases = 0;
  for (std::string line; std::getline(table, line); ++cases) {
    const auto parsed = parse_json(line);
    ASSERT_TRUE(parsed) << line;
    const auto& test_case = parsed->as_object();
    SCOPED_TRACE(string_or(test_case, "name"));
    const auto plan = plan_context(read_request(test_case));
    const auto& expect = *object_at(test_case, "expect");
    ASSERT_EQ(plan.has_value(), !expect.contains("error"));
    if (plan) {
      check_plan(expect, *plan);
    } else {
      check_error(expect, plan.error());
    }
  }
  EXPECT_GT(cases, 20);
}

TEST(ContextPlan, AReductionIsExplained) {
  const auto plan = plan_context({.geometry = kGeometry, .available = 16 * kGiB});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->note,
            "8 slots of 8192 tokens were reduced to 4 of 8192: 16.0 GiB of memory are available.");
}

TEST(ContextPlan, MoreMemoryNeverGivesLess) {
  int slots = 0;
  Tokens context = 0;
  for (Bytes available = kGiB; available <= 40 * kGiB; available += kGiB / 4) {
    const auto plan = plan_context({.geometry = kGeometry, .available = available});
    ASSERT_TRUE(plan);
    EXPECT_GE(plan->slots, slots);
    EXPECT_GE(plan->context_per_slot, context);
    slots = plan->slots;
    context = plan->context_per_slot;
  }
}

}  // namespace
}  // namespace gezel::capacity
