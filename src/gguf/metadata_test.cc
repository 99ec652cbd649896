#include "gguf/metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <random>

#include "base/test_folder.h"
#include "gguf/reader.h"
#include "gguf/test_file.h"

namespace gezel::gguf {
namespace {

using namespace testing;  // TestFile and raw() of this module
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Result<Metadata> parse(const std::string& bytes, const Limits& limits = {}) {
  MemorySource source(bytes);
  return read_metadata(source, "m.gguf", limits);
}

std::string error_of(const std::string& bytes, const Limits& limits = {}) {
  const auto metadata = parse(bytes, limits);
  if (metadata) return "no error";
  EXPECT_EQ(metadata.error().code, "model-invalid");
  return metadata.error().message;
}

TestFile llama() {
  TestFile file;
  file.text("general.architecture", "llama").u32("llama.block_count", 2);
  return file;
}

std::filesystem::path cached_model(const char* name) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const std::filesystem::path base =
      cache && *cache ? cache : std::filesystem::path(std::getenv("HOME")) / ".cache";
  return base / "gezel-inference" / "models" / name;
}

TEST(GgufMetadata, ReadsTheStarterModel) {
  const auto m = read_metadata(cached_model("SmolLM2-135M-Instruct.Q4_1.gguf"));
  ASSERT_TRUE(m) << m.error().message;
  EXPECT_EQ(m->version, 3u);
  EXPECT_EQ(m->architecture, "llama");
  EXPECT_EQ(m->file_type_name, "MOSTLY_Q4_1");
  EXPECT_EQ(m->quantization, "Q4_1");
  EXPECT_EQ(m->geometry.context_length, 8192u);
  EXPECT_EQ(m->geometry.block_count, 30u);
  EXPECT_EQ(m->geometry.embedding_length, 576u);
  EXPECT_EQ(m->geometry.head_count->mean, 9);
  EXPECT_EQ(m->geometry.head_count_kv->mean, 3);
  EXPECT_EQ(m->vocabulary_tokens, 49'152u);
  ASSERT_TRUE(m->chat_template);
  EXPECT_THAT(*m->chat_template, HasSubstr("<|im_start|>"));
  EXPECT_EQ(m->tensors.size(), m->tensor_count);
  EXPECT_EQ(m->header_bytes + m->tensor_sizes.non_expert_bytes, m->file_size_bytes);
  EXPECT_LT(m->read_operations, 32u);
}

TEST(GgufMetadata, ReadsASlidingWindowModelWithoutTemplate) {
  const auto m = read_metadata(cached_model("gemma-3-270m-q4_k_m.gguf"));
  ASSERT_TRUE(m) << m.error().message;
  EXPECT_EQ(m->architecture, "gemma3");
  EXPECT_EQ(m->quantization, "Q4_K_M");
  EXPECT_EQ(m->geometry.sliding_window, 512u);
  EXPECT_EQ(m->geometry.key_length, 256u);
  EXPECT_EQ(m->vocabulary_tokens, 262'144u);
  EXPECT_FALSE(m->chat_template);
  EXPECT_LT(m->read_operations, 64u);
}

TEST(GgufMetadata, Case23_SkipsALargeVocabularyWithFewReads) {
  TestFile file = llama();
  file.texts("tokenizer.ggml.tokens", 50'000, "a token of twenty by").u32("llama.context_length", 131'072);
  const auto m = parse(file.bytes());
  ASSERT_TRUE(m);
  EXPECT_EQ(m->geometry.context_length, 131'072u);
  EXPECT_LT(m->read_operations, 32u);
  EXPECT_EQ(m->values.layers_at("tokenizer.ggml.tokens"), nullptr);
}

TEST(GgufMetadata, SkipsFixedWidthArraysWithoutReadingThem) {
  TestFile file = llama();
  file.numbers("tokenizer.ggml.scores", kF32, std::vector<float>(1'000'000)).u32("llama.context_length", 7);
  const auto m = parse(file.bytes());
  ASSERT_TRUE(m);
  EXPECT_EQ(m->geometry.context_length, 7u);
  EXPECT_LT(m->bytes_read, 600u * 1024);
}

TEST(GgufMetadata, Case25_AProjectorsKeyNeverStandsInForTheLanguageModels) {
  TestFile file;
  file.u32("clip.vision.block_count", 27).u32("qwen3.block_count", 36).text("general.architecture", "qwen3");
  EXPECT_EQ(parse(file.bytes())->geometry.block_count, 36u);
  TestFile only_clip;
  only_clip.u32("clip.vision.block_count", 27).text("general.architecture", "qwen3");
  EXPECT_FALSE(parse(only_clip.bytes())->geometry.block_count);
}

TEST(GgufMetadata, KeysMatchBySuffixWhenTheArchitectureIsNotNamed) {
  TestFile file;
  file.u32("mystery.block_count", 5);
  EXPECT_EQ(parse(file.bytes())->geometry.block_count, 5u);
}

TEST(GgufMetadata, Case26_PerLayerCountsKeepArrayAndMean) {
  TestFile file = llama();
  file.numbers<std::uint32_t>("llama.attention.head_count_kv", kU32, {6, 6, 6, 2});
  const auto m = parse(file.bytes());
  ASSERT_TRUE(m->geometry.head_count_kv);
  EXPECT_EQ(m->geometry.head_count_kv->mean, 5);
  EXPECT_THAT(m->geometry.head_count_kv->per_layer, ElementsAre(6, 6, 6, 2));
}

TEST(GgufMetadata, PerLayerArraysThatAreTooLongOrNegativeAreAbsent) {
  TestFile file = llama();
  file.numbers("llama.attention.head_count_kv", kU32, std::vector<std::uint32_t>(513, 1));
  file.numbers<std::int32_t>("llama.attention.head_count", kI32, {4, -1});
  const auto m = parse(file.bytes());
  ASSERT_TRUE(m);
  EXPECT_FALSE(m->geometry.head_count_kv);
  EXPECT_FALSE(m->geometry.head_count);
}

TEST(GgufMetadata, AWindowPatternMayBeFlagsOrAPeriod) {
  TestFile flags = llama();
  flags.numbers<std::uint8_t>("llama.attention.sliding_window_pattern", kBool, {1, 0});
  EXPECT_THAT(*parse(flags.bytes())->geometry.sliding_window_layers, ElementsAre(1, 0));
  TestFile period = llama();
  period.u32("llama.attention.sliding_window_pattern", 6);
  EXPECT_EQ(parse(period.bytes())->geometry.sliding_window_period, 6u);
}

TEST(GgufMetadata, NumbersOfAnyIntegerTypeAreAccepted) {
  const std::vector<std::pair<std::uint32_t, std::string>> seven = {
      {kU8, raw<std::uint8_t>(7)},   {kI8, raw<std::int8_t>(7)},    {kU16, raw<std::uint16_t>(7)},
      {kI16, raw<std::int16_t>(7)},  {kU32, raw<std::uint32_t>(7)}, {kI32, raw<std::int32_t>(7)},
      {kU64, raw<std::uint64_t>(7)}, {kI64, raw<std::int64_t>(7)}};
  for (const auto& [type, bytes] : seven) {
    TestFile file = llama();
    file.entry("llama.context_length", type, bytes);
    EXPECT_EQ(parse(file.bytes())->geometry.context_length, 7u) << type;
  }
}

TEST(GgufMetadata, NegativeAndFloatNumbersLeaveTheFieldAbsent) {
  TestFile file = llama();
  file.entry("llama.context_length", kI32, raw<std::int32_t>(-7))
      .entry("llama.embedding_length", kF32, raw(7.0f));
  const auto m = parse(file.bytes());
  EXPECT_FALSE(m->geometry.context_length);
  EXPECT_FALSE(m->geometry.embedding_length);
}

TEST(GgufMetadata, SamplingDefaultsAreNumbersWithoutTheirPrefix) {
  TestFile file = llama();
  file.entry("general.sampling.temp", kF32, raw(0.5f))
      .entry("general.sampling.top_k", kI32, raw<std::int32_t>(64));
  file.text("general.sampling.sequence", "kpt");
  EXPECT_THAT(parse(file.bytes())->sampling, ElementsAre(std::pair("temp", 0.5), std::pair("top_k", 64.0)));
}

TEST(GgufMetadata, PoolingTypeIsRead) {
  TestFile file;
  file.text("general.architecture", "bert").u32("bert.pooling_type", 2);
  EXPECT_EQ(parse(file.bytes())->pooling_type, 2);
}

TEST(GgufMetadata, AnUnknownFileTypeIsNamedByItsNumber) {
  const auto m = parse(llama().u32("general.file_type", 999).bytes());
  EXPECT_EQ(m->file_type_name, "UNKNOWN_999");
  EXPECT_EQ(m->quantization, "");
}

TEST(GgufMetadata, ChatTemplatesAreKeptHoweverLong) {
  const std::string text(200'000, 'x');
  EXPECT_EQ(parse(llama().text("tokenizer.chat_template", text).bytes())->chat_template, text);
}

TEST(GgufMetadata, Case27_TensorBytesAreSummedByClassAndLayer) {
  TestFile file;
  file.text("general.architecture", "moe").u32("moe.block_count", 2);
  file.tensor("token_embd.weight", 1024)
      .tensor("blk.0.ffn_gate_up_exps.weight", 8192)
      .tensor("blk.1.ffn_down_exps.weight", 4096)
      .tensor("blk.1.ffn_gate_shexp.weight", 512)
      .tensor("blk.0.ffn_up.weight", 2048);
  const auto m = parse(file.bytes());
  ASSERT_TRUE(m) << m.error().message;
  EXPECT_EQ(m->tensor_sizes.expert_bytes_total, 12'288u);
  EXPECT_THAT(m->tensor_sizes.expert_bytes_by_layer, ElementsAre(8192, 4096));
  EXPECT_EQ(m->tensor_sizes.non_expert_bytes, 3584u);
  EXPECT_THAT(m->tensor_sizes.dense_ffn_bytes_by_layer, ElementsAre(2048, 0));
}

TEST(GgufMetadata, ATensorTypeOfTheFutureIsMeasuredByOffsets) {
  TestFile file = llama();
  file.raw_tensor("a", {32}, 200, 0, 96).raw_tensor("b", {8}, 0, 96, 32);
  const auto m = parse(file.bytes());
  ASSERT_TRUE(m) << m.error().message;
  EXPECT_EQ(m->tensors[0].bytes, 96u);
}

// --- refusals
// ---------------------------------------------------------------------------------------------------------

TEST(GgufMalformed, AnEmptyFileIsCalledEmpty) {
  EXPECT_THAT(error_of(""), HasSubstr("m.gguf is empty (0 bytes)"));
}

TEST(GgufMalformed, Case22_AnotherMagicIsNotAGgufFile) {
  EXPECT_THAT(error_of("GGML" + std::string(100, '\0')),
              HasSubstr("not a GGUF file: it begins with \"GGML\""));
}

TEST(GgufMalformed, Case22_OldVersionsAndBigEndianFilesAreTold) {
  const auto with_version = [](std::uint32_t version) {
    return "GGUF" + raw(version) + std::string(16, '\0');
  };
  EXPECT_THAT(error_of(with_version(1)), HasSubstr("unsupported GGUF version 1"));
  EXPECT_THAT(error_of(with_version(4)), HasSubstr("unsupported GGUF version 4"));
  EXPECT_THAT(error_of(with_version(50'331'648)), HasSubstr("byte order"));
  EXPECT_EQ(error_of(with_version(2)), "no error");
}

TEST(GgufMalformed, Case24_EveryTruncationOfTheHeaderIsAnError) {
  TestFile file = llama();
  file.texts("tokenizer.ggml.tokens", 3, "tok")
      .numbers<std::uint32_t>("llama.attention.head_count", kU32, {1, 2});
  file.entry("llama.flag", kBool, raw<std::uint8_t>(1)).tensor("t", 64);
  const std::string header = file.header();
  for (std::size_t size = 0; size < header.size(); ++size) {
    EXPECT_NE(error_of(header.substr(0, size)), "no error") << size;
  }
}

TEST(GgufMalformed, TruncatedDataSaysByHowManyBytes) {
  TestFile file = llama();
  file.tensor("a", 64).tensor("b", 64);
  const std::string bytes = file.bytes();
  EXPECT_EQ(error_of(bytes), "no error");
  EXPECT_THAT(error_of(bytes.substr(0, bytes.size() - 5)), HasSubstr("m.gguf is truncated by 5 bytes"));
  EXPECT_THAT(error_of(bytes.substr(0, bytes.size() - 100)), HasSubstr("m.gguf is truncated by 100 bytes"));
  EXPECT_THAT(error_of(file.header()), HasSubstr("m.gguf is truncated by 128 bytes"));
}

struct Refusal {
  const char* name;
  std::string bytes;
  const char* message;
};

TEST(GgufMalformed, Case24_EveryLimitIsNamedWithKeyOrTensor) {
  const std::string u32_array = raw<std::uint32_t>(kU32), string_array = raw<std::uint32_t>(kString);
  const auto counts = [](std::uint64_t tensors, std::uint64_t entries) {
    return "GGUF" + raw<std::uint32_t>(3) + raw(tensors) + raw(entries);
  };
  const std::vector<Refusal> refusals = {
      {"entries", counts(0, 65'537), "65537 metadata keys, at most 65536"},
      {"tensors", counts(1'048'577, 0), "1048577 tensors, at most 1048576"},
      {"empty key", llama().u32("", 1).bytes(), "metadata key 2 is empty"},
      {"key length", counts(0, 1) + raw<std::uint64_t>(70'000) + std::string(70'100, 'k'),
       "at most 65535 are accepted"},
      {"duplicate key", llama().u32("a.b", 1).u32("a.b", 2).bytes(), "key \"a.b\" appears twice"},
      {"value type", llama().entry("a.b", 13, "").bytes(), "key \"a.b\" has the unknown value type 13"},
      {"string length", llama().entry("a.b", kString, raw<std::uint64_t>(17 * kMiB)).bytes(),
       "at most 16777216"},
      {"string beyond end", llama().entry("a.b", kString, raw<std::uint64_t>(5000)).bytes(), "but only"},
      {"array of arrays",
       llama().entry("a.b", kArray, raw<std::uint32_t>(kArray) + raw<std::uint64_t>(1)).bytes(),
       "key \"a.b\" is an array of arrays"},
      {"array count", llama().entry("a.b", kArray, string_array + raw(std::uint64_t{1} << 60)).bytes(),
       "entries, but only"},
      {"array of numbers", llama().entry("a.b", kArray, u32_array + raw(~std::uint64_t{0})).bytes(),
       "entries, but only"},
      {"element type", llama().entry("a.b", kArray, raw<std::uint32_t>(77) + raw<std::uint64_t>(0)).bytes(),
       "unknown element type 77"},
      {"alignment type", llama().entry("general.alignment", kU64, raw<std::uint64_t>(32)).bytes(),
       "32-bit unsigned"},
      {"alignment odd", llama().u32("general.alignment", 33).bytes(), "general.alignment is 33"},
      {"alignment small", llama().u32("general.alignment", 4).bytes(), "general.alignment is 4"},
      {"tensor name", llama().tensor(std::string(64, 'n'), 32).bytes(),
       "the name of tensor 0 has 64 bytes, at most 63"},
      {"tensor twice", llama().tensor("t", 32).tensor("t", 32).bytes(), "tensor t is listed twice"},
      {"dimensions", llama().raw_tensor("t", {1, 1, 1, 1, 1}, 0, 0, 32).bytes(), "tensor t has 5 dimensions"},
      {"no dimension", llama().raw_tensor("t", {}, 0, 0, 32).bytes(), "tensor t has 0 dimensions"},
      {"shape overflow", llama().raw_tensor("t", {1u << 31, 1u << 31, 1u << 31}, 0, 0, 32).bytes(),
       "impossible shape"},
      {"half a block", llama().raw_tensor("t", {33}, 2, 0, 32).bytes(),
       "impossible shape 33 x 1 x 1 x 1 for its type 2"},
      {"misaligned", llama().raw_tensor("t", {8}, 0, 8, 32).bytes(), "offset 8, which is no multiple"},
      {"gap", llama().tensor("a", 32).raw_tensor("b", {8}, 0, 96, 32).bytes(), "tensor b lies at offset 96"},
      {"overlap", llama().tensor("a", 64).raw_tensor("b", {8}, 0, 32, 64).bytes(),
       "tensor b lies at offset 32"},
      {"far away",
       llama().raw_tensor("a", {8}, 200, 0, 32).raw_tensor("b", {8}, 0, std::uint64_t{1} << 60, 0).header(),
       "truncated by"},
  };
  for (const Refusal& refusal : refusals) {
    const std::string message = error_of(refusal.bytes);
    EXPECT_THAT(message, AllOf(HasSubstr(refusal.message), HasSubstr("m.gguf"))) << refusal.name;
  }
}

TEST(GgufMalformed, TheHeaderBudgetBoundsTheWork) {
  Limits limits;
  limits.header_bytes = 1000;
  EXPECT_THAT(error_of(llama().texts("tokenizer.ggml.tokens", 1000, "x").bytes(), limits),
              HasSubstr("the header exceeds 1000 B while reading key \"tokenizer.ggml.tokens\""));
}

TEST(GgufMalformed, TheMemoryForKeptValuesIsBounded) {
  Limits limits;
  limits.retained_bytes = 10'000;
  TestFile file = llama();
  for (int i = 0; i < 10; ++i) file.text("a.b" + std::to_string(i), std::string(2000, 'v'));
  EXPECT_THAT(error_of(file.bytes(), limits), HasSubstr("the metadata exceeds 9.8 KiB"));
}

TEST(GgufMalformed, HostileKeysArePrintedSafely) {
  const std::string message = error_of(llama().entry("\x1b[31m\n" + std::string(1000, 'k'), 99, "").bytes());
  EXPECT_THAT(message, AllOf(HasSubstr("key \"?[31m?kkk"), Not(HasSubstr(std::string(100, 'k')))));
}

TEST(GgufFile, MessagesNameTheFileWithoutItsFolder) {
  const TestFolder folder;
  const auto empty = read_metadata(folder.write("empty.gguf", ""));
  EXPECT_THAT(empty.error().message, AllOf(HasSubstr("empty.gguf is empty"), Not(HasSubstr("gguf-test-"))));
  const auto missing = read_metadata(folder.write("x", "").parent_path() / "missing.gguf");
  EXPECT_EQ(missing.error().kind, ErrorKind::not_found);
  EXPECT_THAT(missing.error().message,
              AllOf(HasSubstr("missing.gguf does not exist"), Not(HasSubstr("gguf-test-"))));
}

TEST(GgufFile, AFolderOrPipeIsNoModel) {
  EXPECT_THAT(read_metadata(std::filesystem::temp_directory_path()).error().message,
              HasSubstr("not a regular file"));
  EXPECT_THAT(read_metadata("/dev/zero").error().message, HasSubstr("not a regular file"));
}

TEST(GgufPrefix, AHeaderIsReadFromTheBeginningOfAFile) {
  TestFile file = llama();
  file.texts("tokenizer.ggml.tokens", 1000, "a token").tensor("blk.0.ffn_up.weight", 4096);
  const std::string bytes = file.bytes(), header = file.header();
  for (std::size_t size = 0; size < header.size(); size += 97) {
    PrefixSource source(std::string_view(bytes).substr(0, size), bytes.size());
    EXPECT_FALSE(read_metadata(source, "m.gguf")) << size;
    EXPECT_TRUE(source.overran()) << size;
  }
  PrefixSource whole(header, bytes.size());
  const auto m = read_metadata(whole, "m.gguf");
  ASSERT_TRUE(m) << m.error().message;
  EXPECT_EQ(m->geometry.block_count, 2u);
  EXPECT_EQ(m->tensor_sizes.non_expert_bytes, 4096u);
  EXPECT_EQ(m->file_size_bytes, bytes.size());
}

TEST(GgufPrefix, WhatIsHereIsReadInPiecesAsLargeAsPossible) {
  TestFile file = llama();
  file.texts("tokenizer.ggml.tokens", 50'000, "a token").tensor("blk.0.ffn_up.weight", 4096);
  const std::string bytes = file.bytes(), header = file.header();
  PrefixSource source(header, bytes.size());
  const auto m = read_metadata(source, "m.gguf");
  ASSERT_TRUE(m) << m.error().message;
  EXPECT_EQ(m->vocabulary_tokens, 50'000u);
  EXPECT_LE(m->read_operations, header.size() / kReadAheadBytes + 1);
}

// --- split models
// -----------------------------------------------------------------------------------------------------

TestFile shard(std::uint32_t number, std::uint32_t count) {
  TestFile file;
  if (number == 0) file = llama();
  file.entry("split.no", kU16, raw(static_cast<std::uint16_t>(number)));
  file.entry("split.count", kU16, raw(static_cast<std::uint16_t>(count)));
  return file.tensor("blk." + std::to_string(number) + ".ffn_up.weight", 64 * (number + 1));
}

TEST(GgufSplit, AllShardsAreSummed) {
  const TestFolder folder;
  const auto first = folder.write("m-00001-of-00002.gguf", shard(0, 2).bytes());
  folder.write("m-00002-of-00002.gguf", shard(1, 2).bytes());
  const auto m = read_model(first);
  ASSERT_TRUE(m) << m.error().message;
  EXPECT_EQ(m->tensor_sizes.non_expert_bytes, 192u);
  EXPECT_THAT(m->tensor_sizes.dense_ffn_bytes_by_layer, ElementsAre(64, 128));
  EXPECT_EQ(m->file_size_bytes, shard(0, 2).bytes().size() + shard(1, 2).bytes().size());
  EXPECT_TRUE(m->file_size_complete);
}

TEST(GgufSplit, Case28_WithAShardMissingMetadataIsReadAndTheModelIsNot) {
  const TestFolder folder;
  const auto first = folder.write("m-00001-of-00003.gguf", shard(0, 3).bytes());
  folder.write("m-00002-of-00003.gguf", shard(1, 3).bytes());
  const auto m = read_metadata(first);
  ASSERT_TRUE(m) << m.error().message;
  EXPECT_FALSE(m->file_size_complete);
  EXPECT_EQ(m->geometry.block_count, 2u);
  EXPECT_THAT(read_model(first).error().message, HasSubstr("m-00003-of-00003.gguf: shard 3 of 3 is missing"));
}

TEST(GgufSplit, ALaterShardIsRefusedNamingTheFirst) {
  const TestFolder folder;
  folder.write("m-00001-of-00002.gguf", shard(0, 2).bytes());
  const auto second = folder.write("m-00002-of-00002.gguf", shard(1, 2).bytes());
  EXPECT_THAT(read_model(second).error().message,
              HasSubstr("shard 2 of 2; name the first, m-00001-of-00002.gguf"));
}

TEST(GgufSplit, NumbersThatDisagreeAreRefused) {
  const TestFolder folder;
  const auto first = folder.write("m-00001-of-00002.gguf", shard(0, 2).bytes());
  folder.write("m-00002-of-00002.gguf", shard(0, 2).bytes());
  EXPECT_THAT(read_model(first).error().message,
              HasSubstr("its name says shard 2 of 2, its metadata shard 1 of 2"));
  const auto wrong = folder.write("w-00001-of-00003.gguf", shard(0, 2).bytes());
  EXPECT_THAT(read_model(wrong).error().message, HasSubstr("its name says 3 shards, its metadata 2"));
  const auto unnamed = folder.write("plain.gguf", shard(0, 2).bytes());
  EXPECT_THAT(read_model(unnamed).error().message, HasSubstr("one of 2 shards, but it is not named like"));
}

TEST(GgufMetadata, TenThousandDamagedHeadersNeverReachBeyondTheFile) {
  testing::TestFile file;
  file.text("general.architecture", "qwen3").u32("qwen3.block_count", 4).u32("qwen3.context_length", 4096);
  file.numbers<std::uint32_t>("qwen3.attention.head_count_kv", testing::kU32, {6, 6, 6, 2});
  file.texts("tokenizer.ggml.tokens", 40, "token").text("tokenizer.chat_template", "{{ messages }}");
  file.tensor("token_embd.weight", 1024).tensor("blk.0.ffn_down_exps.weight", 4096);
  const std::string good = file.bytes();
  const std::size_t header = file.header().size();
  std::mt19937 choose(1);
  const auto below = [&](std::size_t bound) { return choose() % bound; };
  for (int round = 0; round < 10'000; ++round) {
    std::string bytes = good;
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) {
      switch (below(4)) {
        case 0:
          bytes[below(std::min(header, bytes.size()))] ^= static_cast<char>(1U << below(8));
          break;
        case 1:
          bytes[below(std::min(header, bytes.size()))] = '\xff';
          break;
        case 2:
          bytes.insert(below(bytes.size()), 1 + below(8), '\0');
          break;
        default:
          bytes.resize(1 + below(bytes.size()));
      }
    }
    // A source of exactly these bytes refuses, and sanitizers see, every read beyond them.
    MemorySource source(bytes);
    const auto metadata = read_metadata(source, "damaged.gguf");
    if (!metadata) {
      EXPECT_EQ(metadata.error().code, "model-invalid");
      continue;
    }
    for (const Tensor& tensor : metadata->tensors) {
      ASSERT_LE(tensor.offset, bytes.size());
      ASSERT_LE(tensor.bytes, bytes.size() - tensor.offset);
    }
  }
}

}  // namespace
}  // namespace gezel::gguf
