// The speeds that `gezel models` lists, from the records of calibration or the running daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "cli/exit_codes.h"
#include "cli/fake_daemon.h"
#include "engine_llama/calibration_record.h"
#include "models/test_home.h"

namespace gezel::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ListedModels : public ::testing::Test {
 protected:
  ListedModels() {
    models::ModelStore store(world.env.home, *world.env.clock, *world.env.entropy);
    const auto file = files.write("tiny.gguf", models::testing::tiny_model());
    EXPECT_TRUE(store.import({.path = file.string(), .id = "tiny"}));
  }
  // 10 ms a token at every depth, 512 tokens of a prompt in 256 ms.
  void measure(bool complete = true) {
    using Kind = costmodel::Point::Kind;
    costmodel::Candidate candidate{.setting = {false, "f16", 2}};
    candidate.samples = {{{Kind::decode, 1, 0}, 10, 1, 1},
                         {{Kind::decode, 1, 2'048}, 10, 1, 1},
                         {{Kind::prefill, 512, 0}, 256, 1, 1},
                         {{Kind::prefill, 512, 2'048}, 256, 1, 1}};
    EXPECT_TRUE(engine_llama::CalibrationStore(world.env.home)
                    .keep({.model_id = "llama-cpp:tiny",
                           .measured_at = "2026-01-02T03:04:05.678Z",
                           .key = {"file", "engine", "cpu", 2, "cpu"},
                           .complete = complete,
                           .clean = true,
                           .candidates = {candidate},
                           .mix = {2'048, 512, 256}}));
  }
  json::value performance() {
    world.out.str("");
    EXPECT_EQ(world.run({"models", "--json"}), kOk) << world.err.str();
    return parse_json(world.out.str()).value().at("models").at(0).at("performance");
  }

  TestWorld world;
  TestFolder files;
};

TEST_F(ListedModels, HaveTheSpeedsThatWereMeasured) {
  measure();
  const auto shown = performance();
  EXPECT_EQ(shown.at("source").as_string(), "measured");
  EXPECT_NEAR(shown.at("decode_tps").as_double(), 100, 2);
  EXPECT_NEAR(shown.at("prefill_tps").as_double(), 2'000, 50);
  EXPECT_EQ(shown.at("at_depth").as_int64(), 2'048);
  EXPECT_EQ(shown.at("measured_at").as_string(), "2026-01-02T03:04:05.678Z");
  world.out.str("");
  EXPECT_EQ(world.run({"models"}), kOk);
  EXPECT_THAT(world.out.str(), AllOf(HasSubstr("TOK/S"), HasSubstr("100.0"), HasSubstr("PREFILL TOK/S")));
}

TEST_F(ListedModels, HaveNoneWhileTheyAreMeasured) {
  EXPECT_TRUE(performance().is_null());
  measure(false);
  EXPECT_TRUE(performance().is_null());
}

TEST_F(ListedModels, HaveTheSpeedsOfALoadedModelUntilItIsMeasured) {
  FakeDaemon daemon([](const SeenRequest& request) -> std::vector<std::string> {
    if (request.target == "/api/ps")
      return {json_reply(200, R"({"models":[{"id":"llama-cpp:tiny","state":"ready","decode_tps":52.5}]})")};
    if (request.target == "/v1/models") return {json_reply(200, R"({"data":[]})")};
    return {json_reply(200, R"({"ok":true})")};
  });
  world.point_to(daemon);
  const auto live = performance();
  EXPECT_EQ(live.at("decode_tps").as_double(), 52.5);
  EXPECT_FALSE(live.as_object().contains("measured_at"));
  measure();
  EXPECT_NEAR(performance().at("decode_tps").as_double(), 100, 2);
}

// The program of the engine is not here; all else of the report is.
TEST_F(ListedModels, AreComparedWithTheMemorysSpeedByDoctor) {
  measure();
  EXPECT_EQ(world.run({"doctor", "--json"}), kFailure);
  const auto report = parse_json(world.out.str()).value();
  const auto& speed = report.at("speed").as_object();
  ASSERT_EQ(speed.at("models").as_array().size(), 1u);
  EXPECT_EQ(speed.at("models").at(0).at("id").as_string(), "tiny");
  EXPECT_GT(speed.at("models").at(0).at("bytes_per_token").to_number<std::int64_t>(), 0);
  if (!speed.at("memory_bytes_per_second").is_null()) {
    EXPECT_GT(speed.at("memory_bytes_per_second").as_double(), 0);
    EXPECT_THAT(world.out.str(), HasSubstr("limit"));
  }
}

TEST_F(ListedModels, ThatWereNotMeasuredAreNamedByDoctor) {
  EXPECT_EQ(world.run({"doctor"}), kFailure);
  EXPECT_THAT(world.out.str(), AllOf(HasSubstr("not measured yet: tiny"), HasSubstr("gezel tune tiny"),
                                     Not(HasSubstr("GB/s"))));
}

}  // namespace
}  // namespace gezel::cli
