#include "turn/unknown_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "turn/parser_test_support.h"
#include "turn/test_table.h"

namespace gezel::turn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string feedback(std::vector<Unparsed> calls) {
  return unknown_feedback(calls, case_tools());
}

TEST(UnknownFeedback, NamesTheNearestToolOrAllOfThem) {
  EXPECT_EQ(feedback({{"get_wether", "{}"}}),
            "ERROR: nothing was called. There is no tool `get_wether`. Did you mean get_weather?");
  EXPECT_THAT(feedback({{"lunch", "{}"}}),
              HasSubstr("There is no tool `lunch`. The tools are: get_weather, add, "));
}

TEST(UnknownFeedback, ListsFortyTools) {
  std::vector<ToolSchema> tools;
  for (int i = 0; i < 45; ++i) tools.push_back(make_tool_schema("tool_number_" + std::to_string(i), {}));
  const std::vector<Unparsed> calls = {{"lunch", ""}};
  const std::string text = unknown_feedback(calls, tools);
  EXPECT_THAT(text, HasSubstr("tool_number_39, +5 more."));
  EXPECT_THAT(text, Not(HasSubstr("tool_number_40")));
}

TEST(UnknownFeedback, SaysWhenTheNameIsAParameter) {
  EXPECT_THAT(feedback({{"city", "{}"}}), HasSubstr("`city` is a parameter of get_weather, not a tool."));
}

TEST(UnknownFeedback, MalformedCallsAreAskedForOnceMore) {
  EXPECT_EQ(feedback({{"ping", "{broken"}}),
            "ERROR: nothing was called. The call of `ping` could not be read: its form or its JSON is "
            "broken. Write it "
            "once more, as one complete call.");
  EXPECT_THAT(feedback({{"", "<tool_call>"}}), HasSubstr("A call could not be read"));
}

TEST(UnknownFeedback, ANameTwiceIsExplainedOnceAndALongOneIsCut) {
  const std::string text = feedback({{"lunch", "1"}, {"lunch", "2"}});
  EXPECT_EQ(text.find("lunch"), text.rfind("lunch"));
  EXPECT_LT(feedback({{std::string(10'000, 'x'), ""}}).size(), 400u);
}

// P34 three times with differing arguments, as the parser gives it.
TEST(CorrectiveRounds, B31TwoRoundsThenTheTurnEndsAndNothingRan) {
  CorrectiveRounds rounds;
  for (int i = 0; i < 3; ++i) {
    ParserOptions options;
    options.tools = case_tools();
    const Message message = parse_message("<tool_call>{\"name\":\"get_wether\",\"arguments\":{\"city\":\"" +
                                              std::to_string(i) + "\"}}</tool_call>",
                                          options);
    EXPECT_TRUE(message.calls.empty());
    const auto answer = rounds.next(message.unparsed, case_tools());
    EXPECT_EQ(answer.again, i < 2);
    if (i < 2) {
      EXPECT_THAT(answer.feedback, StartsWith("ERROR:"));
    } else {
      EXPECT_THAT(answer.note, StartsWith("No tool ran"));
      EXPECT_THAT(answer.note, HasSubstr("get_wether"));
      EXPECT_FALSE(answer.warning.empty());
    }
  }
}

TEST(CorrectiveRounds, TheSameCallRightAfterFeedbackEndsThem) {
  CorrectiveRounds rounds;
  const std::vector<Unparsed> calls = {{"lunch", R"({"a":1})"}};
  EXPECT_TRUE(rounds.next(calls, case_tools()).again);
  EXPECT_FALSE(rounds.next(calls, case_tools()).again);
}

TEST(CorrectiveRounds, AfterAnotherIterationTheSameCallIsNoRepetition) {
  CorrectiveRounds rounds;
  const std::vector<Unparsed> calls = {{"lunch", "{}"}};
  EXPECT_TRUE(rounds.next(calls, case_tools()).again);
  rounds.other_iteration();
  EXPECT_TRUE(rounds.next(calls, case_tools()).again);
  rounds.other_iteration();
  EXPECT_FALSE(rounds.next(calls, case_tools()).again) << "both rounds are used";
}

TEST(CorrectiveRounds, FailedBodiesAreCutInTheNote) {
  CorrectiveRounds rounds;
  const std::vector<Unparsed> calls = {{"lunch", std::string(1000, 'x')}};
  rounds.next(calls, case_tools());
  const auto note = rounds.next(calls, case_tools()).note;
  EXPECT_THAT(note, HasSubstr(std::string(kFailedBodyChars, 'x') + "…"));
  EXPECT_THAT(note, Not(HasSubstr(std::string(kFailedBodyChars + 1, 'x'))));
}

}  // namespace
}  // namespace gezel::turn
