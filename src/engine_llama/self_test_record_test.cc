#include "engine_llama/self_test_record.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "base/files.h"
#include "base/test_folder.h"

namespace gezel::engine_llama {
namespace {

using testing::Test;
using Names = std::vector<std::string>;

// A program that answers --self-test with a given report and counts how often it was asked.
class SelfTestRecord : public Test {
 protected:
  fs::path engine(const std::string& body) {
    const fs::path path = home_ / "engine";
    fs::remove(path);
    std::ofstream(path) << "#!/bin/sh\necho asked >> " << (home_ / "asked").string() << "\n" << body << "\n";
    ::chmod(path.c_str(), 0700);
    return path;
  }
  std::size_t times_asked() {
    const auto text = read_file(home_ / "asked");
    return text ? text->size() / std::string("asked\n").size() : 0;
  }

  TestFolder here_;
  const fs::path& home_ = here_.path();
  static constexpr const char* kReport =
      "echo noise; echo '{\"ok\":false,\"failing_buffer_types\":[\"AMX\"],\"rows\":[]}'; exit 1";
};

TEST_F(SelfTestRecord, NamesWhatFailed) {
  const auto names = failing_buffer_types(home_, engine(kReport), "cpu");
  ASSERT_TRUE(names) << names.error().message;
  EXPECT_EQ(*names, Names{"AMX"});
}

TEST_F(SelfTestRecord, AsksOncePerBuildAndProcessor) {
  const auto program = engine(kReport);
  ASSERT_TRUE(failing_buffer_types(home_, program, "cpu"));
  ASSERT_TRUE(failing_buffer_types(home_, program, "cpu"));
  EXPECT_EQ(times_asked(), 1u);
  ASSERT_TRUE(failing_buffer_types(home_, program, "another cpu"));
  EXPECT_EQ(times_asked(), 2u);
}

TEST_F(SelfTestRecord, AsksAgainWhenTheProgramChanged) {
  ASSERT_TRUE(failing_buffer_types(home_, engine(kReport), "cpu"));
  ASSERT_TRUE(failing_buffer_types(home_, engine(std::string(kReport) + " # rebuilt"), "cpu"));
  EXPECT_EQ(times_asked(), 2u);
}

TEST_F(SelfTestRecord, TakesADamagedRecordAsAbsent) {
  const auto program = engine(kReport);
  ASSERT_TRUE(failing_buffer_types(home_, program, "cpu"));
  ASSERT_TRUE(write_file_atomic(home_ / "engines/embedded/self-test.json", "{\"version\":1,"));
  EXPECT_EQ(*failing_buffer_types(home_, program, "cpu"), Names{"AMX"});
  EXPECT_EQ(times_asked(), 2u);
}

TEST_F(SelfTestRecord, AProgramThatDiesIsAnErrorWithItsEnd) {
  const auto names = failing_buffer_types(home_, engine("kill -ILL $$"), "cpu");
  ASSERT_FALSE(names);
  EXPECT_EQ(names.error().code, "engine-unusable");
  EXPECT_NE(names.error().message.find("signal 4"), std::string::npos) << names.error().message;
}

TEST_F(SelfTestRecord, AProgramThatDoesNotEndInTimeIsKilledAndNotRemembered) {
  for (const std::string body : {"exec sleep 1000", "exec sleep 1000 >/dev/null 2>&1", "exec yes"}) {
    const auto program = engine(body);
    const auto names = failing_buffer_types(home_, program, "cpu", Millis(0));
    ASSERT_FALSE(names) << body;
    EXPECT_EQ(names.error().code, "engine-unusable");
    EXPECT_NE(names.error().message.find("did not end within 0 s"), std::string::npos)
        << names.error().message;
  }
  EXPECT_EQ(*failing_buffer_types(home_, engine(kReport), "cpu"), Names{"AMX"});
}

TEST_F(SelfTestRecord, AProgramThatNobodyWaitsForIsKilledAndNotRemembered) {
  for (const std::string body : {"exec sleep 1000", "exec sleep 1000 >/dev/null 2>&1"}) {
    std::stop_source service;
    const std::jthread ending([&] { service.request_stop(); });
    const auto names =
        failing_buffer_types(home_, engine(body), "cpu", Millis(3'600'000), service.get_token());
    ASSERT_FALSE(names) << body;
    EXPECT_EQ(names.error().code, "cancelled");
  }
  EXPECT_EQ(*failing_buffer_types(home_, engine(kReport), "cpu"), Names{"AMX"});
}

TEST_F(SelfTestRecord, VariablesThatChangeTheEngineDoNotReachIt) {
  ::setenv("GGML_TEST_VARIABLE", "1", 1);
  ::setenv("LLAMA_TEST_VARIABLE", "1", 1);
  const auto names = failing_buffer_types(
      home_,
      engine(
          R"(echo "{\"ok\":true,\"failing_buffer_types\":[\"[$GGML_TEST_VARIABLE$LLAMA_TEST_VARIABLE]\"]}")"),
      "cpu");
  ::unsetenv("GGML_TEST_VARIABLE");
  ::unsetenv("LLAMA_TEST_VARIABLE");
  ASSERT_TRUE(names) << names.error().message;
  EXPECT_EQ(*names, Names{"[]"});
}

TEST_F(SelfTestRecord, RemembersAReportMadeElsewhere) {
  const auto program = engine(kReport);
  ASSERT_TRUE(
      remember_self_test(home_, program, "cpu", {{"ok", true}, {"failing_buffer_types", json::array{}}}));
  EXPECT_EQ(*failing_buffer_types(home_, program, "cpu"), Names{});
  EXPECT_EQ(times_asked(), 0u);
}

}  // namespace
}  // namespace gezel::engine_llama
