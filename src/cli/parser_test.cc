#include "cli/parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/exit_codes.h"
#include "cli/help.h"
#include "cli/table.h"

namespace gezel::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string problem(const Command& command, const std::vector<std::string>& words) {
  const auto parsed = parse_arguments(command, words);
  if (parsed) return "";
  EXPECT_EQ(exit_code_for(parsed.error()), kUsage);
  return parsed.error().message;
}

TEST(Parser, TakesFlagsAnywhereAndJoinsNothingItself) {
  const auto parsed =
      parse_arguments(kRun, {"model", "two", "--seed", "7", "words", "-t0.5", "--system=be kind"});
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->text("MODEL"), "model");
  EXPECT_THAT(parsed->all("PROMPT"), ElementsAre("two", "words"));
  EXPECT_EQ(parsed->integer("--seed"), 7);
  EXPECT_EQ(parsed->number("--temperature"), 0.5);
  EXPECT_EQ(parsed->text("--system"), "be kind");
  EXPECT_FALSE(parsed->has("--json"));
}

TEST(Parser, WordsThatAreCommandsStayWords) {
  const auto parsed = parse_arguments(kRun, {"model", "stop", "models"});
  ASSERT_TRUE(parsed);
  EXPECT_THAT(parsed->all("PROMPT"), ElementsAre("stop", "models"));
}

TEST(Parser, AfterTwoDashesEverythingIsAWord) {
  const auto parsed = parse_arguments(kRun, {"model", "--", "--json", "-x"});
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_THAT(parsed->all("PROMPT"), ElementsAre("--json", "-x"));
  EXPECT_FALSE(parsed->has("--json"));
}

TEST(Parser, KeepsASingleDashAsAWord) {
  const auto parsed = parse_arguments(kRun, {"model", "explain", "-"});
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_THAT(parsed->all("PROMPT"), ElementsAre("explain", "-"));
}

TEST(Parser, KeepsTextThatLooksLikeOtherSyntax) {
  const auto parsed = parse_arguments(kRun, {"model", "[1,2]", "{\"a\":1}", "%x", "", "a=b", "'q'"});
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_THAT(parsed->all("PROMPT"), ElementsAre("[1,2]", "{\"a\":1}", "%x", "", "a=b", "'q'"));
}

TEST(Parser, TheLastOfARepeatedFlagCounts) {
  const auto parsed = parse_arguments(kServe, {"--port", "1", "--port", "2"});
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->integer("--port"), 2);
}

TEST(Parser, HelpWinsOverWhatIsMissing) {
  const auto parsed = parse_arguments(kRun, {"--help"});
  ASSERT_TRUE(parsed);
  EXPECT_TRUE(parsed->has("--help"));
}

struct Case {
  const Command* command;
  std::vector<std::string> words;
  std::string says;
};

class WrongUse : public ::testing::TestWithParam<Case> {};

TEST_P(WrongUse, NamesFlagValueAndWhatIsAllowed) {
  EXPECT_THAT(problem(*GetParam().command, GetParam().words), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, WrongUse,
    ::testing::Values(
        Case{&kServe, {"--port", "99999"}, "--port is '99999'; it must be a whole number from 0 to 65535"},
        Case{&kServe, {"--port", "8x"}, "--port is '8x'"}, Case{&kServe, {"--port", "-1"}, "--port is '-1'"},
        Case{&kServe, {"--slots", "0"}, "--slots is '0'; it must be a whole number from 1 to 256"},
        Case{&kServe, {"--flash-attn", "maybe"}, "--flash-attn is 'maybe'; it may be on or off"},
        Case{&kServe, {"--prot", "1"}, "gezel serve has no option --prot, did you mean --port?"},
        Case{&kServe, {"extra"}, "'extra' is one argument too many"}, Case{&kServe, {"--port"}, "--port"},
        Case{&kRm, {}, "MODEL is missing"},
        Case{
            &kRun, {"m", "p", "--temperature", "3"}, "--temperature is '3'; it must be a number from 0 to 2"},
        Case{&kRun, {"m", "p", "--temperature", "nan"}, "--temperature is 'nan'"},
        Case{&kRun, {"m", "p", "--seed", "4294967296"}, "--seed is '4294967296'"},
        Case{&kRun, {"m", "p", "--system", ""}, "--system is empty"},
        Case{&kImport, {"f", "--mode", "steal"}, "it may be reference, link, copy or move"},
        Case{&kStop, {"a", "b"}, "'b' is one argument too many"},
        Case{&kCompletion, {"tcsh"}, "SHELL is 'tcsh'; it may be bash, zsh or fish"}));

TEST(Help, EveryCommandTeachesByExample) {
  for (const Command* command : commands()) {
    if (command->hidden) continue;
    const std::string help = command_help(*command, false);
    EXPECT_THAT(help, HasSubstr("Examples\n")) << command->name;
    EXPECT_THAT(help, HasSubstr(std::string("gezel ") + std::string(command->name)));
    EXPECT_THAT(help, HasSubstr("--home DIR"));
    EXPECT_EQ(help.find('\x1b'), std::string::npos);
  }
}

TEST(Help, ListsEveryFlagAndItsChoices) {
  const std::string help = command_help(kServe, false);
  for (const Flag& flag : kServe.flags) EXPECT_THAT(help, HasSubstr(std::string(flag.long_name())));
  EXPECT_THAT(help, HasSubstr("--flash-attn on|off"));
  EXPECT_THAT(command_help(kRun, false), HasSubstr("gezel run [MODEL] [PROMPT...] [options]"));
}

TEST(Help, LinesAreNoWiderThanAHundredColumns) {
  for (const Command* command : commands()) {
    std::istringstream lines(command_help(*command, false));
    for (std::string line; std::getline(lines, line);) {
      // Examples stay whole, so that they can be copied.
      if (line.find("gezel ") == std::string::npos) {
        EXPECT_LE(display_width(line), 100U) << line;
      }
    }
  }
}

}  // namespace
}  // namespace gezel::cli
