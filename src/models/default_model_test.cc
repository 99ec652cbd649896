#include "models/default_model.h"

#include <gmock/gmock.h>

namespace gezel::models {
namespace {

using catalog::Backend;
using ::testing::HasSubstr;

constexpr Bytes kGB = 1'000'000'000;
const std::string kA = "a-model", kB = "b-model";

std::string normalise(std::string_view id) {
  return id == "qwen3.6" ? "qwen3.6-27b-q4" : std::string(id);
}

TEST(DefaultModel, Case45TheNewestReplacesAMissingPin) {
  const Pins pins{"llama-cpp", {{"llama-cpp", "qwen3.6-27b-q8"}}};
  const auto used =
      default_model(pins, Backend::llama_cpp, {{kA, "2026-08-01", 4 * kGB}, {kB, "2026-08-03", 2 * kGB}}, {});
  EXPECT_EQ(used.value(), kB);
}

TEST(DefaultModel, Case46ThenTheLarger) {
  EXPECT_EQ(substitute({{kB, "2026-08-01", 2 * kGB}, {kA, "2026-08-01", 4 * kGB}}), kA);
}

TEST(DefaultModel, ThenById) {
  EXPECT_EQ(substitute({{kB, "2026-08-01", kGB}, {kA, "2026-08-01", kGB}}), kA);
  EXPECT_EQ(substitute({{kA, "yesterday", 9 * kGB}, {kB, "2001-01-01T00:00:00Z", kGB}}), kB);
  EXPECT_EQ(substitute({}), std::nullopt);
}

TEST(DefaultModel, AnInstalledPinIsUsed) {
  const Pins pins{"llama-cpp", {{"llama-cpp", kA}}};
  EXPECT_EQ(
      default_model(pins, Backend::llama_cpp, {{kA, "2026-08-01", kGB}, {kB, "2026-08-03", kGB}}, {}).value(),
      kA);
}

TEST(DefaultModel, Case47SaysHowFarAnInstallIs) {
  const Pins pins{"llama-cpp", {{"llama-cpp", kA}}};
  const auto none =
      default_model(pins, Backend::llama_cpp, {}, InstallProgress{kA, 4'340'000'000, 10'000'000'000, true});
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("43 % downloaded"));
  const auto verifying = default_model(pins, Backend::llama_cpp, {}, InstallProgress{kA, 10, 10, false});
  EXPECT_THAT(verifying.error().message, HasSubstr("being verified and prepared"));
}

TEST(DefaultModel, PercentIsFlooredAndNeverAHundred) {
  EXPECT_EQ(percent_done(999, 1000), 99);
  EXPECT_EQ(percent_done(1000, 1000), 99);
  EXPECT_EQ(percent_done(5, 0), 0);
}

TEST(DefaultModel, Case48ABareNameIsAPinnedDefault) {
  const Pins pins{"llama-cpp", {{"llama-cpp", "qwen3.6-27b-q4"}}};
  const auto found = match_bare_name("qwen3.6", pins, Backend::llama_cpp, &normalise);
  ASSERT_TRUE(found);
  EXPECT_EQ(qualified_id(found->backend, found->id), "llama-cpp:qwen3.6-27b-q4");
  EXPECT_FALSE(match_bare_name("other", pins, Backend::llama_cpp, &normalise));
}

TEST(DefaultModel, OfSeveralBackendsThePreferredOneWins) {
  const Pins pins{"ds4", {{"llama-cpp", kA}, {"ds4", kA}, {"mlx", kA}}};
  EXPECT_EQ(match_bare_name(kA, pins, Backend::mlx, &normalise)->backend, Backend::mlx);
  const Pins two{"llama-cpp", {{"llama-cpp", kA}, {"ds4", kA}}};
  EXPECT_EQ(match_bare_name(kA, two, Backend::mlx, &normalise)->backend, Backend::llama_cpp);
}

TEST(Reconcile, OneInstalledModelBecomesThePin) {
  const Pins pins{"llama-cpp", {{"llama-cpp", "gone"}}};
  EXPECT_EQ(reconcile_pin(pins, Backend::llama_cpp, {{kA, "", 1}}, ""), kA);
  EXPECT_EQ(reconcile_pin(pins, Backend::llama_cpp, {{kA, "", 1}, {kB, "", 1}}, kB), kB);
  EXPECT_EQ(reconcile_pin(pins, Backend::llama_cpp, {{kA, "", 1}, {kB, "", 1}}, "not-installed"),
            std::nullopt);
  EXPECT_EQ(reconcile_pin(pins, Backend::llama_cpp, {}, kA), std::nullopt);
  EXPECT_EQ(reconcile_pin({"llama-cpp", {{"llama-cpp", kA}}}, Backend::llama_cpp, {{kA, "", 1}}, kB),
            std::nullopt);
}

TEST(FirstRun, TheBestRatedOrTheFallback) {
  EXPECT_EQ(first_model({{kA, Backend::mlx}, {kB, Backend::llama_cpp}}, Backend::mlx).id, kA);
  EXPECT_EQ(first_model({}, Backend::llama_cpp).id, "gemma4-e2b-q4");
}

TEST(IsoTime, ReadsDatesTimesAndZones) {
  EXPECT_EQ(parse_iso_time("1970-01-01"), 0);
  EXPECT_EQ(parse_iso_time("1970-01-01T00:00:01.5Z"), 1500);
  EXPECT_EQ(parse_iso_time("1970-01-01T01:00:00+01:00"), 0);
  for (const char* text : {"", "yesterday", "2026-13-01", "2026-02-30", "2026-01-01T", "2026-01-01T25:00:00Z",
                           "2026-01-01T00:00:00+xx"})
    EXPECT_FALSE(parse_iso_time(text)) << text;
}

}  // namespace
}  // namespace gezel::models
