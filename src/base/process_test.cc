#include "base/process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

namespace gezel {
namespace {

std::string read_all(int fd) {
  std::string out;
  char buffer[512];
  ssize_t got = 0;
  while ((got = ::read(fd, buffer, sizeof buffer)) > 0) out.append(buffer, static_cast<std::size_t>(got));
  return out;
}

int wait_code(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(Spawn, JoinsStdoutAndStderr) {
  auto child = spawn({.program = "/bin/sh", .args = {"-c", "echo out; echo err >&2"}});
  ASSERT_TRUE(child) << child.error().message;
  EXPECT_EQ(read_all(child->output.get()), "out\nerr\n");
  EXPECT_EQ(wait_code(child->pid), 0);
}

TEST(Spawn, ReportsAProgramThatCannotStart) {
  const auto child = spawn({.program = "/nonexistent/program"});
  ASSERT_FALSE(child);
  EXPECT_EQ(child.error().code, "engine-launch");
  EXPECT_NE(child.error().message.find("ENOENT"), std::string::npos) << child.error().message;
}

TEST(Spawn, DropsAndSetsEnvironment) {
  ::setenv("LLAMA_ARG_CTX_SIZE", "512", 1);
  auto child = spawn({.program = "/bin/sh",
                      .args = {"-c", "echo \"${LLAMA_ARG_CTX_SIZE-unset} $ADDED\""},
                      .env_set = {"ADDED=yes"},
                      .env_drop = {"LLAMA_*"}});
  ASSERT_TRUE(child);
  EXPECT_EQ(read_all(child->output.get()), "unset yes\n");
  wait_code(child->pid);
}

TEST(Spawn, PassesExactlyTheGivenDescriptors) {
  auto pair = socket_pair();
  ASSERT_TRUE(pair);
  auto child = spawn({.program = "/bin/sh",
                      .args = {"-c", "echo hello >&3; ls /proc/self/fd | tr '\\n' ' '"},
                      .inherit = {{pair->second.get(), 3}}});
  ASSERT_TRUE(child);
  pair->second.reset();
  EXPECT_EQ(read_all(pair->first.get()), "hello\n");
  const std::string listed = read_all(child->output.get());
  EXPECT_EQ(listed, "0 1 2 3 4 ");  // 4 is ls reading the folder
  wait_code(child->pid);
}

TEST(Spawn, RunsInItsOwnProcessGroup) {
  auto child = spawn(
      {.program = "/bin/sh", .args = {"-c", "ps -o pgid= -p $$ 2>/dev/null || cut -d' ' -f5 /proc/$$/stat"}});
  ASSERT_TRUE(child);
  EXPECT_EQ(std::stoi(read_all(child->output.get())), child->pid);
  wait_code(child->pid);
}

TEST(Describe, NamesSignalsAndCodes) {
  EXPECT_EQ(describe({.code = 3}), "exit code 3");
  EXPECT_EQ(describe({.signal = 11}), "signal 11 (Segmentation fault)");
}

TEST(RunTool, WhatAProgramPrintsComesBack) {
  const auto said = run_tool("/bin/sh", {"-c", "echo out; echo err >&2"}, Millis(20'000), 100);
  ASSERT_TRUE(said) << said.error().message;
  EXPECT_EQ(*said, "out\nerr\n");
}

TEST(RunTool, FailuresSaySo) {
  EXPECT_EQ(run_tool("/bin/sh", {"-c", "exit 3"}, Millis(20'000), 100).error().code, "tool_failed");
  EXPECT_EQ(run_tool("/nowhere/tool", {}, Millis(20'000), 100).error().code, "engine-launch");
}

TEST(RunTool, AProgramThatNobodyWaitsForIsKilledAtOnce) {
  std::stop_source source;
  const std::jthread stopper([&] { source.request_stop(); });
  const auto said =
      run_tool("/bin/sh", {"-c", "exec sleep 1000"}, Millis(3'600'000), 100, source.get_token());
  EXPECT_EQ(said.error().code, "tool_stopped");
  EXPECT_EQ(
      run_tool("/bin/sh", {"-c", "exec 1>&- 2>&-; sleep 1000"}, Millis(3'600'000), 100, source.get_token())
          .error()
          .code,
      "tool_stopped")
      << "also when it said all that it will";
}

TEST(RunTool, AProgramThatDoesNotEndOrTalksTooMuchIsKilled) {
  EXPECT_EQ(run_tool("/bin/sh", {"-c", "exec sleep 1000"}, Millis(50), 100).error().code, "tool_stopped");
  EXPECT_EQ(run_tool("/bin/sh", {"-c", "while echo text; do :; done"}, Millis(20'000), 100).error().code,
            "tool_stopped");
}

}  // namespace
}  // namespace gezel
