#include "capacity/draft.h"

#include <gtest/gtest.h>

namespace gezel::capacity {
namespace {

TEST(Draft, Case79_WithoutProofOrDraftTheModelStartsPlainly) {
  const DraftChoice catalog =
      choose_draft({.catalog_type = "draft-simple", .catalog_model_id = "small", .catalog_n_max = 8});
  EXPECT_EQ(catalog.type, "");
  EXPECT_EQ(catalog.note->level, NoteLevel::info);
  const DraftChoice mtp = choose_draft({.configured_type = "draft-mtp"});
  EXPECT_EQ(mtp.type, "");
  EXPECT_EQ(mtp.note->level, NoteLevel::warn);
}

TEST(Draft, AHeadInModelOrCompanionIsProof) {
  EXPECT_TRUE(choose_draft({.configured_type = "draft-mtp", .target_has_mtp = true}).mtp());
  const DraftChoice companion =
      choose_draft({.catalog_type = "draft-mtp", .companion_has_mtp = true, .companion_path = "/m/mtp.gguf"});
  EXPECT_TRUE(companion.mtp());
  EXPECT_EQ(companion.model_path, "/m/mtp.gguf");
}

TEST(Draft, WhatTheUserForcesIsLeftWithAWarning) {
  const DraftChoice forced = choose_draft({.configured_type = "draft-simple", .catalog_model_id = "small"});
  EXPECT_EQ(forced.type, "draft-simple");
  EXPECT_EQ(forced.note->level, NoteLevel::warn);
}

TEST(Draft, ThePathIsTheUsersBeforeTheCompanionsBeforeTheCatalogs) {
  DraftInput input{.configured_path = "user",
                   .configured_n_max = 4,
                   .catalog_type = "draft-eagle3",
                   .catalog_path = "catalog",
                   .catalog_n_max = 8,
                   .companion_path = "companion"};
  EXPECT_EQ(choose_draft(input).model_path, "user");
  EXPECT_EQ(choose_draft(input).n_max, 4);
  input.configured_path.reset();
  EXPECT_EQ(choose_draft(input).model_path, "companion");
  input.companion_path.reset();
  EXPECT_EQ(choose_draft(input).model_path, "catalog");
  EXPECT_EQ(choose_draft({.catalog_type = "draft-simple", .catalog_model_id = "s", .installed_path = "/s"})
                .model_path,
            "/s");
  EXPECT_EQ(choose_draft({.configured_type = "ngram-mod", .catalog_path = "catalog"}).model_path, "");
}

TEST(Draft, NoneAndUnknownTypesAreOff) {
  EXPECT_EQ(choose_draft({.configured_type = "none", .catalog_type = "ngram-mod"}).type, "");
  EXPECT_FALSE(choose_draft({}).note);
  EXPECT_EQ(choose_draft({.configured_type = "magic"}).note->level, NoteLevel::warn);
}

}  // namespace
}  // namespace gezel::capacity
