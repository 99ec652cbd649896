#include <gtest/gtest.h>

#include <csignal>

#include "engine/exit.h"
#include "engine/output_capture.h"
#include "engine/redact.h"

namespace gezel::engine {
namespace {

std::string panic_of(std::initializer_list<std::string_view> lines) {
  PanicWatch watch;
  for (const auto line : lines) watch.line(line);
  return watch.kind();
}

TEST(PanicWatch, KnowsEveryPatternWithoutCase) {
  struct Case {
    std::string_view line, kind;
  };
  const Case cases[] = {
      {"CUDA error: invalid argument", "cuda-invalid-argument"},
      {"cuda ERROR: invalid configuration argument", "cuda-invalid-argument"},
      {"CUDA error: out of memory", "cuda-out-of-memory"},
      {"CUDA error: memory allocation failure", "cuda-out-of-memory"},
      {"vk::Device::allocateMemory: ErrorOutOfDeviceMemory", "vulkan-out-of-memory"},
      {"ggml_vulkan: Device memory allocation of size 12 failed.", "vulkan-out-of-memory"},
      {"ggml_vulkan: found 1 device with memory", ""},
      {"CUDA error: an illegal memory access was encountered", "cuda-illegal-memory-access"},
      {"CUDA error: device-side assert triggered", "cuda-device-assert"},
      {"/src/ggml.c:12: GGML_ASSERT(n > 0) failed", "assertion-failed"},
      {"x.cc:3: Assertion `a' failed.", "assertion-failed"},
      {"CUDA error: unknown", "cuda-error"},
      {"terminate called after throwing an instance of 'std::bad_alloc'", "host-out-of-memory"},
      {"mmap failed: Cannot allocate memory", "host-out-of-memory"},
      {"gezel-engine: error while loading shared libraries: libomp.so.5", "missing-library"},
      {R"({"level":"error","message":"chat template or tokenizer ran away"})", "template-overrun"},
      {"all is well", ""},
  };
  for (const auto& c : cases) EXPECT_EQ(panic_of({c.line}), c.kind) << c.line;
}

TEST(PanicWatch, Case7_And8_ALaterLineWinsOnlyWithAtLeastTheSameRank) {
  EXPECT_EQ(panic_of({"CUDA error: out of memory", "GGML_ASSERT(x)"}), "cuda-out-of-memory");
  EXPECT_EQ(panic_of({"GGML_ASSERT(x)", "CUDA error: an illegal memory access was encountered"}),
            "cuda-illegal-memory-access");
  EXPECT_EQ(panic_of({"CUDA error: out of memory", "CUDA error: device-side assert"}), "cuda-device-assert");
}

ExitSnapshot ended(ExitStatus status, std::string kind = {}, StopReason reason = StopReason::none) {
  ExitSnapshot s;
  s.pid = 42;
  s.exited_at = WallTime(Millis(1'700'000'000'123));
  s.status = status;
  s.panic_kind = std::move(kind);
  s.expected = reason;
  conclude(s);
  return s;
}

TEST(ExitSnapshot, IsNamedByPidAndTime) {
  EXPECT_EQ(ended({0, SIGSEGV}).incident_id, "native-42-1700000000123");
}

TEST(ExitSnapshot, TellsAnIllegalInstructionAndAKillFromTheSignal) {
  EXPECT_EQ(ended({0, SIGILL}).panic_kind, "illegal-instruction");
  EXPECT_EQ(ended({0, SIGKILL}).panic_kind, "killed");
  EXPECT_EQ(ended({0, SIGILL}, "assertion-failed").panic_kind, "assertion-failed");
  EXPECT_EQ(ended({0, SIGKILL}, "", StopReason::idle).panic_kind, "");
}

TEST(ExitSnapshot, StrikesAreCrashesThatMemoryAndPlansDoNotExplain) {
  EXPECT_TRUE(counts_as_strike(ended({0, SIGSEGV})));
  EXPECT_TRUE(counts_as_strike(ended({1, 0}, "assertion-failed")));
  for (const auto kind : {kHeartbeatLost, kProtocolViolation, kStuck, kTemplateOverrun})
    EXPECT_TRUE(counts_as_strike(ended({0, SIGKILL}, std::string(kind)))) << kind;
  EXPECT_FALSE(counts_as_strike(ended({1, 0})));
  EXPECT_FALSE(counts_as_strike(ended({0, SIGKILL})));
  EXPECT_FALSE(counts_as_strike(ended({0, SIGABRT}, "host-out-of-memory")));
  EXPECT_FALSE(counts_as_strike(ended({0, SIGSEGV}, "", StopReason::stop)));
}

TEST(ExitSnapshot, OnlyACrashOfItsOwnMayBeARequestsDoing) {
  EXPECT_TRUE(may_be_a_requests_doing(ended({0, SIGSEGV})));
  EXPECT_TRUE(may_be_a_requests_doing(ended({0, SIGABRT}, "assertion-failed")));
  EXPECT_FALSE(may_be_a_requests_doing(ended({0, SIGABRT}, "host-out-of-memory")));
  EXPECT_FALSE(may_be_a_requests_doing(ended({0, SIGKILL}, std::string(kHeartbeatLost))));
  EXPECT_FALSE(may_be_a_requests_doing(ended({0, SIGTERM})));
  EXPECT_FALSE(may_be_a_requests_doing(ended({7, 0}, std::string(kTemplateOverrun))));
}

TEST(ExitSnapshot, ABuildThatCannotRunHereIsRecognised) {
  EXPECT_TRUE(proves_build_unusable(ended({0, SIGILL})));
  EXPECT_TRUE(proves_build_unusable(ended({127, 0}, "missing-library")));
  EXPECT_FALSE(proves_build_unusable(ended({0, SIGSEGV})));
}

TEST(ExitSnapshot, TheIncidentLineHasNoTailAndNoSecret) {
  auto s = ended({0, SIGABRT}, "assertion-failed");
  s.panic_line = "assertion failed, Bearer abcdefghijklmnop";
  s.output_tail = "private";
  const auto line = to_json(incident_json(s));
  EXPECT_EQ(line.find("private"), std::string::npos);
  EXPECT_EQ(line.find("abcdefghijklmnop"), std::string::npos);
  EXPECT_NE(line.find("\"signal\":6"), std::string::npos);
}

TEST(Redact, HidesSecretsAndNothingElse) {
  struct Case {
    std::string_view in, out;
  };
  const Case cases[] = {
      {"n_tokens = 12345678901234, token = 5", "n_tokens = 12345678901234, token = 5"},
      {"Authorization: Bearer abc.def-123", "Authorization: Bearer [redacted]"},
      {"api_key=supersecret42&x=1", "api_key=[redacted]&x=1"},
      {"password: \"hunter22\"", "password: \"[redacted]\""},
      {"GET https://me:pw@example.org/a@b", "GET https://[redacted]@example.org/a@b"},
      {"https://example.org/a@b", "https://example.org/a@b"},
      {"using hf_abcdefghijklmnopqrst now", "using [redacted] now"},
      {"load_model: token_embd.weight 12 MiB", "load_model: token_embd.weight 12 MiB"},
  };
  for (const auto& c : cases) EXPECT_EQ(redact(c.in), c.out);
}

TEST(OutputCapture, LinesDoNotDependOnHowTheBytesArrive) {
  const std::string output =
      "one\ntwo 10%\rtwo 20%\r\n\xff"
      "bad\nlast";
  const std::vector<std::string> expected = {"one", "two 10%", "two 20%",
                                             "\xEF\xBF\xBD"
                                             "bad",
                                             "last"};
  for (std::size_t piece = 1; piece <= output.size(); ++piece) {
    std::vector<std::string> lines;
    OutputCapture capture([&](std::string_view line) { lines.emplace_back(line); });
    for (std::size_t at = 0; at < output.size(); at += piece)
      capture.feed(std::string_view(output).substr(at, piece));
    capture.finish();
    EXPECT_EQ(lines, expected) << "pieces of " << piece;
  }
}

TEST(OutputCapture, KeepsTheLastWholeLinesOfALongOutput) {
  OutputCapture capture([](std::string_view) {});
  for (int i = 0; i < 20'000; ++i) capture.feed("line " + std::to_string(i) + "\n");
  EXPECT_LE(capture.tail().size(), OutputCapture::kTailBytes);
  EXPECT_GT(capture.tail().size(), OutputCapture::kTailBytes - 100);
  EXPECT_TRUE(capture.tail().starts_with("line "));
  EXPECT_TRUE(capture.tail().ends_with("line 19999\n"));
}

TEST(OutputCapture, CutsALineWithoutEnd) {
  std::size_t lines = 0;
  OutputCapture capture([&](std::string_view line) {
    EXPECT_LE(line.size(), OutputCapture::kMaxLineBytes);
    ++lines;
  });
  capture.feed(std::string(100'000, 'x'));
  capture.finish();
  EXPECT_EQ(lines, 7U);
}

}  // namespace
}  // namespace gezel::engine
