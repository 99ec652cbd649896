#include "engine_llama/measured_speed.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"

namespace gezel::engine_llama {
namespace {

using costmodel::Point;

// 10 ms a token at the beginning and 20 ms at a depth of 2,000; 512 tokens of a prompt take 256 ms.
CalibrationRecord record_of(std::string model, std::string measured_at) {
  costmodel::Candidate candidate{.setting = {false, "f16", 2}};
  candidate.samples = {{{Point::Kind::decode, 1, 0}, 10, 1, 1},
                       {{Point::Kind::decode, 1, 2'000}, 20, 1, 1},
                       {{Point::Kind::prefill, 512, 0}, 256, 1, 1},
                       {{Point::Kind::prefill, 512, 2'000}, 256, 1, 1}};
  return {.model_id = std::move(model),
          .measured_at = std::move(measured_at),
          .key = {"file", "engine", "cpu", 2, "cpu"},
          .complete = true,
          .clean = true,
          .candidates = {candidate},
          .mix = {2'000, 512, 256}};
}

TEST(MeasuredSpeed, IsThatOfTheModelsOwnMix) {
  const auto speed = measured_speed(record_of("llama-cpp:m", "2026-01-01"));
  ASSERT_TRUE(speed);
  EXPECT_NEAR(speed->decode_tps, 50, 1);
  EXPECT_NEAR(speed->shallow_tps, 100, 2);
  EXPECT_NEAR(speed->prefill_tps, 2'000, 40);
  EXPECT_EQ(speed->at_depth, 2'000);
}

TEST(MeasuredSpeed, IsUnknownWhileMeasuringIsNotDone) {
  auto record = record_of("llama-cpp:m", "2026-01-01");
  record.complete = false;
  EXPECT_FALSE(measured_speed(record));
  record.complete = true;
  record.candidates.clear();
  EXPECT_FALSE(measured_speed(record));
}

TEST(MeasuredSpeed, TheNewestRecordOfAModelCounts) {
  const TestFolder home;
  const CalibrationStore store(home.path());
  auto old = record_of("llama-cpp:m", "2026-01-01"), other = record_of("llama-cpp:n", "2026-01-01");
  auto latest = record_of("llama-cpp:m", "2026-02-01");
  latest.key.cores = 1;
  other.key.model = "other";
  for (const auto& record : {latest, old, other}) ASSERT_TRUE(store.keep(record));
  const auto speeds = measured_speeds(home.path());
  ASSERT_EQ(speeds.size(), 2u);
  EXPECT_EQ(speeds.at("llama-cpp:m").measured_at, "2026-02-01");
}

TEST(MeasuredSpeed, AFileThatIsNoModelIsAnError) {
  const TestFolder folder;
  EXPECT_FALSE(bytes_of_a_token(folder.write("m.gguf", "nothing"), {}));
}

}  // namespace
}  // namespace gezel::engine_llama
