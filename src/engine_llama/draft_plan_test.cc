#include "engine_llama/draft_plan.h"

#include <gtest/gtest.h>

#include "engine_llama/launch_plan.h"
#include "engine_llama/test_models.h"

namespace gezel::engine_llama {
namespace {

class DraftPlanTest : public testing::Test {
 protected:
  engine::EngineResult<DraftPlan> plan() {
    return plan_draft(settings_, installed(model_), {}, &entry_, [this](const std::string& id) {
      return id == "small"
                 ? Result<models::InstalledModel>(installed(small_))
                 : fail(ErrorKind::not_found, "model_not_found", "no model '" + id + "' is installed");
    });
  }
  // Without a draft model, and the reason.
  std::string reason() {
    const auto made = plan();
    EXPECT_TRUE(made && made->files.empty());
    return made && made->note ? made->note->text : "";
  }

  const fs::path model_ = test_model("gemma-3-270m-q4_k_m.gguf");
  const fs::path small_ = test_model("SmolLM2-135M-Instruct.Q4_1.gguf");
  DraftSettings settings_;
  catalog::LaunchTuning entry_;
};

TEST_F(DraftPlanTest, WhereNobodyNamesOneThereIsNone) {
  EXPECT_EQ(reason(), "");
}

TEST_F(DraftPlanTest, OneIsNamedByItsPathOrItsId) {
  for (const std::string& name : {small_.string(), std::string("small")}) {
    settings_.model = name;
    const auto made = plan();
    ASSERT_TRUE(made) << made.error().error.message;
    EXPECT_EQ(made->files, std::vector{small_});
    EXPECT_EQ(made->bytes, fs::file_size(small_));
    EXPECT_TRUE(made->geometry);
    EXPECT_FALSE(made->required);
  }
}

TEST_F(DraftPlanTest, TheCatalogNamesOneForItsModel) {
  entry_.speculation = "draft-simple";
  entry_.draft_model = "small";
  entry_.draft_tokens = 4;
  const auto made = plan();
  ASSERT_TRUE(made) << made.error().error.message;
  EXPECT_EQ(made->files, std::vector{small_});
  EXPECT_EQ(made->most, 4);
  EXPECT_FALSE(made->required);
}

TEST_F(DraftPlanTest, OneOfTheCatalogThatIsNotInstalledIsNoTrouble) {
  entry_.speculation = "draft-simple";
  entry_.draft_model = "absent";
  const auto made = plan();
  ASSERT_TRUE(made && made->note);
  EXPECT_EQ(made->note->level, capacity::NoteLevel::info);
}

TEST_F(DraftPlanTest, APersonMaySwitchTheCatalogsOff) {
  entry_.speculation = "draft-simple";
  entry_.draft_model = "small";
  settings_.type = "none";
  EXPECT_EQ(reason(), "");
}

TEST_F(DraftPlanTest, WhatCannotBeReadIsNamedAndLeftOut) {
  settings_.model = "/absent/model.gguf";
  EXPECT_NE(reason().find("model.gguf"), std::string::npos);
  settings_.model = "absent";
  EXPECT_NE(reason().find("absent"), std::string::npos);
}

TEST_F(DraftPlanTest, WhoeverInsistsGetsAnErrorInstead) {
  settings_.type = "draft-simple";
  EXPECT_EQ(plan().error().error.code, "engine-launch") << "none is named";
  settings_.model = "/absent/model.gguf";
  EXPECT_EQ(plan().error().error.code, "engine-launch");
  settings_.model = "small";
  const auto made = plan();
  ASSERT_TRUE(made);
  EXPECT_TRUE(made->required);
}

TEST_F(DraftPlanTest, AModelIsItsOwnDraftModelOnlyWhereSomebodyInsists) {
  settings_.model = model_.string();
  EXPECT_NE(reason().find("its own"), std::string::npos);
  settings_.type = "draft-simple";
  EXPECT_EQ(plan().value().files, std::vector{model_});
}

TEST_F(DraftPlanTest, OtherWaysToDraftAreNamedAndLeftOut) {
  entry_.speculation = "draft-eagle3";
  EXPECT_NE(reason().find("draft-eagle3"), std::string::npos);
}

TEST(LaunchPlanWithADraftModel, CountsItsWeightsAndItsCache) {
  const auto plan = [](const EmbeddedOptions& options) {
    return make_planner(options, [] { return Result<std::vector<std::string>>(std::vector<std::string>{}); })(
        installed(test_model("SmolLM2-135M-Instruct.Q4_1.gguf")));
  };
  EmbeddedOptions options;
  options.draft.type = "draft-simple";
  options.draft.model = test_model("SmolLM2-135M-Instruct.Q4_1.gguf").string();
  const auto with = plan(options);
  ASSERT_TRUE(with) << with.error().error.message;
  EXPECT_EQ(with->capacity->model.draft_weights, fs::file_size(options.draft.model));
  EXPECT_TRUE(with->capacity->model.draft_geometry);
  options.speculation = false;
  const auto without = plan(options);
  ASSERT_TRUE(without);
  EXPECT_TRUE(without->draft.files.empty());
  EXPECT_EQ(without->capacity->model.draft_weights, 0U);
}

}  // namespace
}  // namespace gezel::engine_llama
