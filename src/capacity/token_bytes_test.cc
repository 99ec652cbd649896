#include "capacity/token_bytes.h"

#include <gtest/gtest.h>

#include "gguf/test_file.h"

namespace gezel::capacity {
namespace {

using gguf::testing::TestFile;

// Two layers with one head of 64 elements: 2 * 2 * 64 f16 elements of cache a token.
TestFile two_layers() {
  TestFile file;
  file.text("general.architecture", "llama")
      .u32("llama.block_count", 2)
      .u32("llama.embedding_length", 64)
      .u32("llama.attention.head_count", 1);
  return file;
}

gguf::Metadata read(const TestFile& file) {
  const std::string bytes = file.bytes();
  gguf::MemorySource source(bytes);
  auto metadata = gguf::read_metadata(source, "test.gguf");
  EXPECT_TRUE(metadata) << metadata.error().message;
  return metadata ? *metadata : gguf::Metadata{};
}

TEST(TokenBytes, ADenseModelIsReadWhole) {
  auto file = two_layers();
  file.tensor("token_embd.weight", 4096).tensor("blk.0.attn_q.weight", 1024);
  EXPECT_EQ(token_bytes(read(file), KvType::f16, 0).weights, 4096u + 1024u);
}

TEST(TokenBytes, OfEmbeddingsBesideAnOutputMatrixItIsOneRow) {
  auto file = two_layers();
  file.raw_tensor("token_embd.weight", {64, 16}, 0, 0, 4096).tensor("output.weight", 4096);
  EXPECT_EQ(token_bytes(read(file), KvType::f16, 0).weights, 256u + 4096u);
}

TEST(TokenBytes, OfExpertsItIsThoseThatATokenUses) {
  auto file = two_layers();
  file.u32("llama.expert_count", 8).u32("llama.expert_used_count", 2);
  file.tensor("blk.0.ffn_up_exps.weight", 8192).tensor("blk.0.attn_q.weight", 1024);
  EXPECT_EQ(token_bytes(read(file), KvType::f16, 0).weights, 2048u + 1024u);
}

TEST(TokenBytes, TheCacheGrowsWithTheDepthByItsType) {
  const auto metadata = read(two_layers());
  EXPECT_EQ(token_bytes(metadata, KvType::f16, 0).cache, 0u);
  EXPECT_EQ(token_bytes(metadata, KvType::f16, 100).cache, 100u * 2 * 2 * 64 * 2);
  EXPECT_EQ(token_bytes(metadata, KvType::q8_0, 100).cache, 100u * 2 * 2 * 64 * 34 / 32);
}

TEST(TokenBytes, OfASlidingWindowItIsTheWindow) {
  auto file = two_layers();
  file.u32("llama.attention.sliding_window", 10);
  file.numbers<std::uint32_t>("llama.attention.sliding_window_pattern", gguf::testing::kU32, {1, 0});
  const auto metadata = read(file);
  const auto geometry = kv_geometry(metadata);
  ASSERT_TRUE(geometry);
  ASSERT_EQ(geometry->windowed_layers, 1);
  EXPECT_EQ(token_bytes(metadata, KvType::f16, 100).cache, (100u + 10u) * 2 * 64 * 2);
}

TEST(TokenBytes, AnUnknownGeometryCountsTheWeightsAlone) {
  TestFile file;
  file.text("general.architecture", "llama").tensor("blk.0.attn_q.weight", 1024);
  const auto bytes = token_bytes(read(file), KvType::f16, 100);
  EXPECT_EQ(bytes.total(), 1024u);
}

}  // namespace
}  // namespace gezel::capacity
