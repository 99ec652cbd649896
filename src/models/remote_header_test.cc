// Headers of models on a real server on a loopback port.
#include "models/remote_header.h"

#include <gmock/gmock.h>

#include "models/install_test_support.h"

namespace gezel::models {
namespace {

using downloads::testing::Reply;
using downloads::testing::serve;
using downloads::testing::ServedRequest;
using downloads::testing::TestServer;
using ::testing::AllOf;
using ::testing::HasSubstr;

class RemoteHeaderTest : public testing::InstallTest {
 protected:
  InstallPlan plan(const std::string& name = "m.gguf") {
    return testing::plan_for({{name, content}}, server.url(""));
  }
  auto read(const InstallPlan& of) { return read_remote_header(of, "", transfers, {}, cancellation); }
  Error error_of(const InstallPlan& of) {
    const auto header = read(of);
    EXPECT_FALSE(header);
    return header ? Error{} : header.error();
  }

  // With a vocabulary that takes more than one look, and data that must not be read.
  static std::string large_model() {
    gguf::testing::TestFile file;
    file.text("general.architecture", "llama").u32("llama.block_count", 2).u32("llama.context_length", 4096);
    file.text("tokenizer.chat_template", "{{ messages }}");
    file.texts("tokenizer.ggml.tokens", 40'000, "a token");
    file.tensor("token_embd.weight", 4 * kMiB);
    return file.bytes();
  }

  std::string content = large_model();
  TestServer server{[this](const ServedRequest& request) { return serve(content, request); }};
};

TEST_F(RemoteHeaderTest, OnlyTheHeaderIsRead) {
  const auto header = read(plan());
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->metadata.geometry.block_count, 2U);
  EXPECT_EQ(header->metadata.vocabulary_tokens, 40'000U);
  EXPECT_EQ(header->file_bytes, content.size());
  EXPECT_EQ(header->read_bytes, kMiB) << "twice 256 KiB, then twice as much";
  EXPECT_TRUE(header->metadata.values.all().empty()) << "what nobody needs is not kept";
}

TEST_F(RemoteHeaderTest, WhatIsNoModelIsRefusedNamingTheHost) {
  content = "<html>please sign in</html>";
  const Error error = error_of(plan());
  EXPECT_EQ(error.kind, ErrorKind::corrupt);
  EXPECT_EQ(error.code, "model-invalid");
  EXPECT_EQ(error.param, "model");
  EXPECT_THAT(error.message,
              AllOf(HasSubstr("m.gguf cannot be read from 127.0.0.1"), HasSubstr("is not a GGUF file")));
}

TEST_F(RemoteHeaderTest, ADamagedHeaderIsRefusedAfterOneLook) {
  content[30] = '\xff';  // a key's length
  EXPECT_EQ(error_of(plan()).code, "model-invalid");
  EXPECT_EQ(server.requests().size(), 1U);
}

TEST_F(RemoteHeaderTest, ATruncatedFileIsRefused) {
  content.resize(2 * kMiB);
  EXPECT_THAT(error_of(plan()).message, HasSubstr("is truncated by"));
  content.resize(1000);
  EXPECT_THAT(error_of(plan()).message, HasSubstr("only"));
}

TEST_F(RemoteHeaderTest, AHeaderBeyondTheLimitIsRefused) {
  gguf::testing::TestFile file;
  file.text("general.architecture", "llama");
  file.numbers("tokenizer.ggml.scores", gguf::testing::kF32, std::vector<float>(9 * kMiB));
  file.tensor("token_embd.weight", 64);
  content = file.bytes();
  EXPECT_THAT(error_of(plan()).message, HasSubstr("the header exceeds 32.0 MiB"));
  EXPECT_LT(server.requests().size(), 12U);
}

TEST_F(RemoteHeaderTest, AMirrorHelpsOut) {
  auto from = plan();
  from.files[0].urls.insert(from.files[0].urls.begin(), server.url("/gone"));
  TestServer broken([](const ServedRequest&) {
    Reply out;
    out.status = 404;
    return out;
  });
  from.files[0].urls[0] = broken.url("/m.gguf");
  EXPECT_TRUE(read(from));
  from.files[0].urls.pop_back();
  const Error error = error_of(from);
  EXPECT_EQ(error.kind, ErrorKind::not_found);
  EXPECT_THAT(error.message, AllOf(HasSubstr("127.0.0.1"), HasSubstr("check the name")));
}

TEST_F(RemoteHeaderTest, APartIsNoWholeModel) {
  gguf::testing::TestFile file;
  file.text("general.architecture", "llama")
      .entry("split.count", gguf::testing::kU16, gguf::testing::raw<std::uint16_t>(3));
  content = file.tensor("token_embd.weight", 64).bytes();
  const Error error = error_of(plan("m-00001-of-00003.gguf"));
  EXPECT_EQ(error.code, "missing_parts");
  EXPECT_THAT(error.message, HasSubstr("one of 3 parts, and 1 is named"));
  EXPECT_TRUE(read(testing::plan_for(
      {{"m-00001-of-00003.gguf", content}, {"m-00002-of-00003.gguf", ""}, {"m-00003-of-00003.gguf", ""}},
      server.url(""))));
}

}  // namespace
}  // namespace gezel::models
