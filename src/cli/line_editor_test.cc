#include "cli/line_editor.h"

#include <gtest/gtest.h>

#include "cli/fake_daemon.h"

namespace gezel::cli {
namespace {

using Kind = InputLine::Kind;

TEST(MessageAssembler, ALineIsAMessage) {
  MessageAssembler assembler;
  EXPECT_EQ(assembler.feed("hello"), "hello");
  EXPECT_EQ(assembler.feed(""), "");
  EXPECT_FALSE(assembler.finish());
}

TEST(MessageAssembler, ABackslashContinues) {
  MessageAssembler assembler;
  EXPECT_EQ(assembler.feed("one\\"), std::nullopt);
  EXPECT_TRUE(assembler.open());
  EXPECT_EQ(assembler.feed("two"), "one\ntwo");
}

TEST(MessageAssembler, QuotesHoldLinesTogether) {
  MessageAssembler assembler;
  EXPECT_EQ(assembler.feed("\"\"\"one\\"), std::nullopt);
  EXPECT_EQ(assembler.feed(""), std::nullopt);
  EXPECT_EQ(assembler.feed("two"), std::nullopt);
  EXPECT_EQ(assembler.feed("\"\"\""), "one\\\n\ntwo");
  EXPECT_EQ(assembler.feed("\"\"\"short\"\"\""), "short");
}

TEST(MessageAssembler, TheEndOfInputEndsAText) {
  MessageAssembler assembler;
  EXPECT_EQ(assembler.feed("\"\"\"open"), std::nullopt);
  EXPECT_EQ(assembler.finish(), "open\n");
  EXPECT_FALSE(assembler.open());
}

TEST(LineEditor, ReadsAPipeLineByLine) {
  TestWorld world;
  world.pipe_in("one\r\n\ntwo\\\nthree\nlast");
  const auto editor = LineEditor::open(world.env, {});
  EXPECT_EQ(editor->read().text, "one");
  EXPECT_EQ(editor->read().text, "");
  EXPECT_EQ(editor->read().text, "two\nthree");
  EXPECT_EQ(editor->read().text, "last");
  EXPECT_EQ(editor->read().kind, Kind::end);
}

}  // namespace
}  // namespace gezel::cli
