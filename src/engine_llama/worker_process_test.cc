// The real launcher, with small programs in place of the engine.
#include "engine_llama/worker_process.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <csignal>
#include <cstdlib>

#include "base/files.h"
#include "base/test_folder.h"

namespace gezel::engine_llama {
namespace {

class Launching : public testing::Test {
 protected:
  Result<std::unique_ptr<WorkerProcess>> launch(const std::string& script) {
    const auto program = folder / "program";
    EXPECT_TRUE(write_file_atomic(program, "#!/bin/sh\n" + script, 0700));
    return make_process_launcher(io.get_executor())->launch(program);
  }
  ExitStatus wait(WorkerProcess& process) {
    std::optional<ExitStatus> status;
    process.on_exit([&](ExitStatus s) { status = s; });
    while (!status && io.run_one() > 0) {
    }
    return status.value_or(ExitStatus{-1, -1});
  }
  std::string read_all(const Fd& fd) {
    std::string out;
    char buffer[4096];
    ssize_t got = 0;
    while ((got = ::read(fd.get(), buffer, sizeof buffer)) > 0)
      out.append(buffer, static_cast<std::size_t>(got));
    return out;
  }

  boost::asio::io_context io;
  TestFolder here;
  const fs::path& folder = here.path();
};

TEST_F(Launching, Case23_TheChildTalksOnDescriptor3WithoutOurEngineVariables) {
  ::setenv("LLAMA_ARG_CTX_SIZE", "512", 1);
  ::setenv("AIP_MODE", "PREDICTION", 1);
  ::setenv("HF_TOKEN", "secret", 1);
  ::setenv("GEZEL_TEST_KEPT", "yes", 1);
  auto process = launch("echo \"$@\" >&3; env >&3\n");
  ASSERT_TRUE(process);
  const auto said = read_all((*process)->take_socket());
  EXPECT_TRUE(said.starts_with("--worker-fd 3\n")) << said;
  EXPECT_EQ(said.find("LLAMA_"), std::string::npos);
  EXPECT_EQ(said.find("AIP_"), std::string::npos);
  EXPECT_EQ(said.find("HF_TOKEN"), std::string::npos);
  EXPECT_NE(said.find("GEZEL_TEST_KEPT=yes"), std::string::npos);
  EXPECT_EQ(wait(**process).code, 0);
}

TEST_F(Launching, ExitCodesAndOutputArrive) {
  auto process = launch("echo out; echo err >&2; exit 7\n");
  ASSERT_TRUE(process);
  EXPECT_EQ(read_all((*process)->take_output()), "out\nerr\n");
  EXPECT_EQ(wait(**process).code, 7);
}

TEST_F(Launching, AKilledChildSaysSo) {
  auto process = launch("read line <&3\n");
  ASSERT_TRUE(process);
  (*process)->signal(engine::EndSignal::kill);
  EXPECT_EQ(wait(**process).signal, SIGKILL);
}

TEST_F(Launching, AChildKeepsAtLeastTheNiceValueItWasStartedWith) {
  auto process = launch("read line <&3\n");
  ASSERT_TRUE(process);
  const auto pid = (*process)->pid();
  const int first = engine::nice_of(pid);
  EXPECT_TRUE((*process)->set_nice(10));
  EXPECT_EQ(engine::nice_of(pid), std::max(first, 10));
}

TEST_F(Launching, ADroppedProcessIsKilledAndReaped) {
  auto process = launch("read line <&3\n");
  ASSERT_TRUE(process);
  const auto pid = (*process)->pid();
  ASSERT_TRUE(engine::process_facts(pid));
  process->reset();
  io.run();  // the watch reaps it, then nothing is left to wait for
  EXPECT_FALSE(engine::process_facts(pid));
}

TEST_F(Launching, AMissingProgramIsALaunchError) {
  const auto process = make_process_launcher(io.get_executor())->launch(folder / "missing");
  ASSERT_FALSE(process);
  EXPECT_EQ(process.error().code, "engine-launch");
}

}  // namespace
}  // namespace gezel::engine_llama
