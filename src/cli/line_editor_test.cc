#include "cli/line_editor.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>

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

// Each line's keys, typed when the editor says that it reads keys itself (by asking for marked pastes); what
// comes earlier would go through the terminal's own line editing.
using Lines = std::vector<std::string>;
constexpr std::string_view kReady = "\x1b[?2004h";
const std::string kEnd = "\x04";

// Reads messages from a real terminal in a child process. Returns them as the child saw them, one "[...]"
// each.
std::string typed(const Lines& lines, const fs::path& history = {}) {
  int report[2];
  if (::pipe(report) != 0) return "no pipe";
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child == 0) {
    ::setenv("TERM", "xterm", 1);
    ::setenv("LC_ALL", "C", 1);
    std::string seen;
    {
      Environment env;
      env.input_is_terminal = env.out_is_terminal = true;
      env.out = &std::cout;
      const auto editor = LineEditor::open(env, history);
      for (InputLine line = editor->read(); line.kind != Kind::end; line = editor->read()) {
        seen += line.kind == Kind::text ? "[" + line.text + "]" : "^C";
      }
    }
    (void)!::write(report[1], seen.data(), seen.size());
    ::_exit(0);
  }
  ::close(report[1]);
  std::string screen;
  std::size_t at = 0;
  char buffer[4096];
  const auto wait_for = [&](std::string_view text) {
    for (;;) {
      if (const std::size_t found = screen.find(text, at); found != std::string::npos) {
        at = found + text.size();
        return true;
      }
      const ssize_t got = ::read(terminal, buffer, sizeof buffer);
      if (got <= 0) return false;
      screen.append(buffer, static_cast<std::size_t>(got));
    }
  };
  for (const std::string& keys : lines) {
    if (!wait_for(kReady)) return "the child ended early: " + screen;
    (void)!::write(terminal, keys.data(), keys.size());
  }
  while (::read(terminal, buffer, sizeof buffer) > 0) {
  }
  std::string seen;
  for (ssize_t got = 0; (got = ::read(report[0], buffer, sizeof buffer)) > 0;) {
    seen.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(report[0]);
  ::close(terminal);
  ::waitpid(child, nullptr, 0);
  return seen;
}

const std::string kCtrlA = "\x01", kCtrlC = "\x03", kLeft = "\x1b[D", kUp = "\x1b[A", kAltEnter = "\x1b\r";

TEST(TerminalEditor, EditsALineInAnyLanguage) {
  EXPECT_EQ(typed({"wörd" + kLeft + kLeft + "XY" + kCtrlA + "模型 \r", kEnd}), "[模型 wöXYrd]");
}

TEST(TerminalEditor, AltEnterAndPastesKeepLinesTogether) {
  EXPECT_EQ(typed({"a" + kAltEnter + "b\r", "\x1b[200~p1\rp2\x07é\r\x1b[201~!\r", kEnd}), "[a\nb][p1\np2é!]");
}

TEST(TerminalEditor, ControlCDropsWhatWasTyped) {
  EXPECT_EQ(typed({"half" + kCtrlC, "\"\"\"open\r", kCtrlC, "whole\r", kEnd}), "^C^C[whole]");
}

TEST(TerminalEditor, RecallsWhatWasTypedInAnEarlierProgram) {
  const TestWorld world;
  const fs::path history = world.env.home / "cli" / "history";
  EXPECT_EQ(typed({"first\r", "two\\\r", "lines\r", kEnd}, history), "[first][two\nlines]");
  EXPECT_EQ(fs::status(history).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(typed({kUp + "\r", kUp + kUp + "\r", kEnd}, history), "[two\nlines][first]");
}

}  // namespace
}  // namespace gezel::cli
