// What `gezel serve` makes of its flags and the environment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include "cli/exit_codes.h"
#include "cli/fake_daemon.h"
#include "cli/run_cli.h"

namespace gezel::cli {
namespace {

using testing::HasSubstr;

class ServeTest : public testing::Test {
 protected:
  ServeTest() {
    world.env.serve = [this](const http::DaemonOptions& options) {
      got = options;
      return 0;
    };
    world.env.engine = "/bin/sh";
  }
  TestWorld world;
  http::DaemonOptions got;
};

TEST_F(ServeTest, HandsOverWhatWasGiven) {
  world.env.port = "4000";
  EXPECT_EQ(world.run({"serve", "--slots", "3", "--ctx", "4096", "--threads", "2", "--flash-attn", "off",
                       "--idle-timeout", "0", "--no-auth", "--log-format", "json"}),
            kOk);
  EXPECT_EQ(got.service.target_itl_ms, std::nullopt);
  EXPECT_EQ(got.port, 4000);
  EXPECT_TRUE(got.no_auth);
  EXPECT_EQ(got.service.slots, 3);
  EXPECT_EQ(got.service.context, 4096);
  EXPECT_EQ(got.service.threads, 2);
  EXPECT_EQ(got.service.flash_attention, false);
  EXPECT_EQ(got.service.idle_timeout, Millis(0));
  EXPECT_EQ(got.service.home, world.env.home);
  EXPECT_EQ(got.service.engine_program, "/bin/sh");
  EXPECT_EQ(world.run({"--home", "/tmp/elsewhere", "serve", "--port", "0"}), kOk);
  EXPECT_EQ(got.port, 0);
  EXPECT_EQ(got.service.home, "/tmp/elsewhere");
}

TEST_F(ServeTest, TakesTheTargetPaceFromItsFlagElseFromItsVariable) {
  world.env.target_itl_ms = "10";
  EXPECT_EQ(world.run({"serve"}), kOk);
  EXPECT_EQ(got.service.target_itl_ms, 10);
  EXPECT_EQ(world.run({"serve", "--target-itl", "1000"}), kOk);
  EXPECT_EQ(got.service.target_itl_ms, 1'000);
}

TEST_F(ServeTest, TakesTheAmbientQuietFromItsVariableAndIgnoresNonsense) {
  EXPECT_EQ(world.run({"serve"}), kOk);
  EXPECT_EQ(got.service.ambient_quiet, std::nullopt);
  world.env.ambient_quiet_ms = "0";
  EXPECT_EQ(world.run({"serve"}), kOk);
  EXPECT_EQ(got.service.ambient_quiet, Millis(0));
  world.env.ambient_quiet_ms = "soon";
  EXPECT_EQ(world.run({"serve"}), kOk);
  EXPECT_EQ(got.service.ambient_quiet, std::nullopt);
  EXPECT_THAT(world.err.str(), HasSubstr("GEZEL_AMBIENT_QUIET_MS is 'soon'"));
}

TEST_F(ServeTest, SpeculatesUnlessItIsToldOtherwise) {
  EXPECT_EQ(world.run({"serve"}), kOk);
  EXPECT_TRUE(got.service.speculation);
  EXPECT_EQ(world.run({"serve", "--no-speculation"}), kOk);
  EXPECT_FALSE(got.service.speculation);
  world.env.speculation = "off";
  EXPECT_EQ(world.run({"serve"}), kOk);
  EXPECT_FALSE(got.service.speculation);
}

TEST_F(ServeTest, TakesADraftModelFromFlagAndEnvironment) {
  EXPECT_EQ(world.run({"serve"}), kOk);
  EXPECT_FALSE(got.service.draft.any());
  world.env.draft_model = "small";
  EXPECT_EQ(world.run({"serve"}), kOk);
  EXPECT_EQ(got.service.draft.model, "small");
  EXPECT_EQ(world.run({"serve", "--draft-model", "/models/other.gguf"}), kOk);
  EXPECT_EQ(got.service.draft.model, "/models/other.gguf");
}

TEST_F(ServeTest, CalibratesUnlessItIsToldOtherwise) {
  EXPECT_EQ(world.run({"serve"}), kOk);
  EXPECT_TRUE(got.service.calibration);
  EXPECT_EQ(world.run({"serve", "--no-calibration"}), kOk);
  EXPECT_FALSE(got.service.calibration);
  world.env.calibration = "off";
  EXPECT_EQ(world.run({"serve"}), kOk);
  EXPECT_FALSE(got.service.calibration);
  world.env.calibration = "maybe";
  EXPECT_EQ(world.run({"serve"}), kOk);
  EXPECT_TRUE(got.service.calibration);
  EXPECT_THAT(world.err.str(), HasSubstr("GEZEL_CALIBRATION is 'maybe'"));
}

TEST_F(ServeTest, IsAGoodNeighbourUnlessItIsToldOtherwise) {
  EXPECT_EQ(world.run({"serve"}), kOk);
  EXPECT_TRUE(got.service.good_neighbour);
  world.env.good_neighbour = "off";
  EXPECT_EQ(world.run({"serve"}), kOk);
  EXPECT_FALSE(got.service.good_neighbour);
  EXPECT_EQ(world.run({"serve", "--good-neighbour", "auto"}), kOk);
  EXPECT_TRUE(got.service.good_neighbour);
  world.env.good_neighbour = "never";
  EXPECT_EQ(world.run({"serve"}), kOk);
  EXPECT_TRUE(got.service.good_neighbour);
  EXPECT_THAT(world.err.str(), HasSubstr("GEZEL_GOOD_NEIGHBOUR is 'never'"));
}

TEST_F(ServeTest, TakesBehavioursFromTheirVariables) {
  world.env.force_behaviors = "capture-pre-tool-prose, prompt.compact-tool-schemas";
  world.env.remove_behaviors = "provider.merge-system-messages";
  EXPECT_EQ(world.run({"serve"}), kOk);
  EXPECT_EQ(got.service.behaviors.force,
            (std::vector<std::string>{"capture-pre-tool-prose", "prompt.compact-tool-schemas"}));
  EXPECT_EQ(got.service.behaviors.remove, std::vector<std::string>{"provider.merge-system-messages"});
}

}  // namespace
}  // namespace gezel::cli
