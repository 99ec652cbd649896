#include "prompt/behaviors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gezel::prompt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Behaviors, ListsAreReadAsPeopleWriteThem) {
  EXPECT_THAT(read_id_list(" a , b,,c, "), ElementsAre("a", "b", "c"));
  EXPECT_THAT(read_id_list(""), IsEmpty());
  EXPECT_THAT(read_id_list(" , "), IsEmpty());
}

TEST(Behaviors, AreForcedAndRemoved) {
  const Behaviors of_profile{.merge_system_messages = true};
  const auto out = switched(of_profile, {.force = {"provider.flatten-tool-transcript"},
                                         .remove = {"provider.merge-system-messages"}});
  EXPECT_EQ(out.behaviors, Behaviors{.flatten_tool_transcript = true});
  EXPECT_THAT(out.warnings, IsEmpty());
}

TEST(Behaviors, WhatChangesNothingIsSaid) {
  const Behaviors of_profile{.merge_system_messages = true};
  EXPECT_THAT(switched(of_profile, {.force = {"provider.merge-system-messages"}, .remove = {}}).warnings,
              ElementsAre(HasSubstr("GEZEL_FORCE_BEHAVIORS has 'provider.merge-system-messages'")));
  EXPECT_THAT(switched(of_profile, {.force = {}, .remove = {"capture-pre-tool-prose"}}).warnings,
              ElementsAre(HasSubstr("off already")));
  EXPECT_THAT(
      problems_of({.force = {"capture-pre-tool-prose"}, .remove = {"loud"}}),
      ElementsAre(HasSubstr("GEZEL_REMOVE_BEHAVIORS has 'loud', which changes nothing: the behaviours are")));
}

TEST(Behaviors, OneThatIsForcedAndRemovedIsRemoved) {
  EXPECT_EQ(
      switched({}, {.force = {"capture-pre-tool-prose"}, .remove = {"capture-pre-tool-prose"}}).behaviors,
      Behaviors{});
}

}  // namespace
}  // namespace gezel::prompt
