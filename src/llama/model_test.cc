#include <gmock/gmock.h>
#include <sys/resource.h>

#include <bit>
#include <cstring>

#include "llama/library.h"
#include "llama/llama.h"
#include "llama/test_support.h"

namespace gezel::llama {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using testing::gemma;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::read_whole;
using testing::smollm;
using testing::smollm_path;

// Loads what must not load, and checks what every such error promises.
Error refused(const std::filesystem::path& path) {
  auto model = Model::load({.path = path.string()});
  if (model) {
    ADD_FAILURE() << path.filename() << " was loaded";
    return {};
  }
  EXPECT_EQ(model.error().code, "model-invalid") << model.error().message;
  EXPECT_THAT(model.error().message, HasSubstr(path.filename().string()));
  EXPECT_THAT(model.error().message, Not(HasSubstr(path.parent_path().string())));
  return model.error();
}

// Where the parts of a GGUF lie: header, then metadata, then the tensor table, then data.
struct Layout {
  std::size_t first_tensor_name = 0;  // of the table
  std::size_t data = 0;
};

Layout layout_of(const std::string& file) {
  Layout layout;
  // SmolLM2's first tensor in the file; found by name, its length precedes it.
  for (const char* name : {"token_embd.weight", "output_norm.weight", "blk.0."}) {
    const auto at = file.find(name);
    if (at != std::string::npos && (layout.first_tensor_name == 0 || at < layout.first_tensor_name))
      layout.first_tensor_name = at;
  }
  layout.data = file.size() - smollm().size();
  return layout;
}

class DamagedFile : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { original = new std::string(read_whole(smollm_path())); }
  static void TearDownTestSuite() {
    delete original;
    original = nullptr;
  }
  static const std::string* original;
  TestFolder folder;
};
const std::string* DamagedFile::original = nullptr;

TEST(ModelLoad, DescribesSmolLM2) {
  const Model& model = smollm();
  EXPECT_EQ(model.trained_context(), 8192);
  EXPECT_EQ(model.sliding_window(), 0);
  EXPECT_FALSE(model.recurrent());
  EXPECT_TRUE(model.has_decoder());
  EXPECT_EQ(model.head_dimension(), 64);
  EXPECT_GT(model.size(), 90 * kMiB / 2);
  EXPECT_LT(model.size(), std::filesystem::file_size(smollm_path()));
  EXPECT_THAT(model.chat_template(), HasSubstr("<|im_start|>"));
  EXPECT_EQ(model.metadata("general.architecture"), "llama");
  EXPECT_EQ(model.metadata("no.such.key"), std::nullopt);
}

TEST(ModelLoad, DescribesGemma3) {
  const Model& model = gemma();
  EXPECT_EQ(model.sliding_window(), 512);
  EXPECT_EQ(model.head_dimension(), 256);
  EXPECT_EQ(model.chat_template(), "");
  EXPECT_FALSE(model.recurrent());
}

TEST(ModelLoad, ReportsProgressUpToOne) {
  float last = -1;
  auto model = Model::load({.path = smollm_path().string(), .progress = [&](float done) {
                              EXPECT_GE(done, last);
                              last = done;
                              return true;
                            }});
  ASSERT_TRUE(model);
  EXPECT_FLOAT_EQ(last, 1.0F);
}

TEST(ModelLoad, StopsWhenProgressSaysSo) {
  auto model = Model::load({.path = smollm_path().string(), .progress = [](float) { return false; }});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, "cancelled");
  EXPECT_EQ(model.error().kind, ErrorKind::cancelled);
}

TEST(ModelLoad, LongMetadataIsWhole) {
  const auto value = smollm().metadata("tokenizer.chat_template");
  ASSERT_TRUE(value);
  EXPECT_EQ(*value, smollm().chat_template());
  EXPECT_GT(value->size(), 256U);
}

TEST(ModelLoad, WorksWithoutMemoryMapping) {
  auto model = Model::load({.path = smollm_path().string(), .use_mmap = false});
  ASSERT_TRUE(model);
  EXPECT_EQ((*model)->size(), smollm().size());
}

TEST(ModelLoad, ExcludedLayoutsAreOnlyOutForThatLoad) {
  initialize();
  const auto before = extra_buffer_types();
  auto model = Model::load({.path = smollm_path().string(), .excluded_buffer_types = before});
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(extra_buffer_types(), before);
}

TEST(BufferTypeFilter, LeavesTheOthersInTheirOrder) {
  initialize();
  const auto before = extra_buffer_types();
  for (const auto& excluded : before) {
    const BufferTypeFilter filter({excluded});
    EXPECT_TRUE(filter.complete());
    auto expected = before;
    std::erase(expected, excluded);
    EXPECT_EQ(extra_buffer_types(), expected);
  }
  EXPECT_EQ(extra_buffer_types(), before);
}

TEST(ModelLoad, RefusesAModelWhoseWeightTypeComputesWrong) {
  auto model = Model::load({.path = smollm_path().string(), .excluded_buffer_types = {"CPU:q4_1"}});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, "engine-unusable");
  EXPECT_THAT(model.error().message, AllOf(HasSubstr("q4_1"), HasSubstr("gezel doctor")));
}

TEST(ModelLoad, OtherWeightTypesMayComputeWrong) {
  EXPECT_TRUE(Model::load({.path = smollm_path().string(), .excluded_buffer_types = {"CPU:iq1_s"}}));
}

TEST(ModelLoad, RefusesEverythingWithoutACpuBackend) {
  for (const char* name : {"CPU", "CPU:*"}) {
    auto model = Model::load({.path = smollm_path().string(), .excluded_buffer_types = {name}});
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().code, "engine-unusable");
  }
}

TEST(Library, NamesItsBuildAndProcessorFeatures) {
  EXPECT_THAT(build_info(), HasSubstr("libllama "));
  EXPECT_THAT(backends(), Contains(HasSubstr("CPU:")));
}

TEST_F(DamagedFile, AbsentFileIsNamed) {
  const auto model = Model::load({.path = (folder.path() / "none.gguf").string()});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().kind, ErrorKind::not_found);
  EXPECT_EQ(model.error().code, "model-unreadable");
  EXPECT_THAT(model.error().message, HasSubstr("none.gguf"));
}

TEST_F(DamagedFile, AFileThatCannotBeOpenedNowIsNoVerdictAboutTheFile) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto model = Model::load({.path = smollm_path().string()});
  setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, "model-unreadable") << model.error().message;
}

TEST_F(DamagedFile, FolderIsNoModel) {
  std::filesystem::create_directory(folder.path() / "folder.gguf");
  EXPECT_THAT(refused(folder.path() / "folder.gguf").message, HasSubstr("not a file"));
}

TEST_F(DamagedFile, EmptyFileIsRefused) {
  EXPECT_THAT(refused(folder.write("zero.gguf", "")).message, HasSubstr("0 bytes"));
}

TEST_F(DamagedFile, ThreeBytesAreRefused) {
  EXPECT_THAT(refused(folder.write("short.gguf", "GGU")).message, HasSubstr("too short"));
}

TEST_F(DamagedFile, OtherFormatIsRefused) {
  EXPECT_THAT(refused(folder.write("page.gguf", "<!DOCTYPE html>")).message, HasSubstr("no GGUF"));
}

TEST_F(DamagedFile, TruncatedFileIsRefusedWhereverItEnds) {
  const auto layout = layout_of(*original);
  for (const std::size_t length :
       {std::size_t{4}, std::size_t{8}, std::size_t{23}, std::size_t{24}, std::size_t{400},
        layout.first_tensor_name - 8, layout.first_tensor_name + 30, layout.data - 1, layout.data + 1,
        original->size() / 2, original->size() - 1}) {
    SCOPED_TRACE(length);
    refused(folder.write("cut.gguf", std::string_view(*original).substr(0, length)));
  }
}

// Only the metadata and tensor table are copied (the data is a hole in the file): 30 damaged files take no
// time.
std::filesystem::path write_head(const TestFolder& folder, std::string_view head, std::size_t size) {
  const auto path = folder.write("damaged.gguf", head);
  std::filesystem::resize_file(path, size);
  return path;
}

TEST_F(DamagedFile, DamagedHeaderIsRefused) {
  const auto layout = layout_of(*original);
  struct Case {
    std::size_t offset;
    std::uint64_t value;
    std::size_t width;
  };
  for (const auto& c : {Case{4, 99, 4}, Case{4, 0, 4}, Case{8, 0, 8}, Case{8, 5, 8}, Case{8, ~0ULL, 8},
                        Case{8, 1ULL << 40, 8}, Case{16, 0, 8}, Case{16, 1, 8}, Case{16, ~0ULL, 8},
                        Case{16, 1ULL << 40, 8}}) {
    SCOPED_TRACE(fmt::format("{} at {}", c.value, c.offset));
    std::string head = original->substr(0, layout.data);
    std::memcpy(head.data() + c.offset, &c.value, c.width);
    refused(write_head(folder, head, original->size()));
  }
}

TEST_F(DamagedFile, DamagedMetadataIsRefused) {
  const auto layout = layout_of(*original);
  const std::string head = original->substr(0, layout.data);
  struct Case {
    const char* find;
    const char* replace;
  };
  for (const auto& c :
       {Case{"general.architecture", "general.archXtecture"}, Case{"llama.block_count", "llama.blXck_count"},
        Case{"llama.embedding_length", "llama.embXdding_length"},
        Case{"llama.attention.head_count\x04", "llama.attention.heXd_count\x04"},
        Case{"tokenizer.ggml.model", "tokenizer.ggml.mXdel"},
        Case{"tokenizer.ggml.tokens", "tokenizer.ggml.tokXns"}}) {
    SCOPED_TRACE(c.find);
    std::string damaged = head;
    const auto at = damaged.find(c.find);
    ASSERT_NE(at, std::string::npos);
    damaged.replace(at, std::strlen(c.find), c.replace);
    EXPECT_THAT(refused(write_head(folder, damaged, original->size())).message,
                HasSubstr("cannot be loaded"));
  }
}

TEST_F(DamagedFile, AbsurdNumbersInMetadataAreRefused) {
  const auto layout = layout_of(*original);
  const std::string head = original->substr(0, layout.data);
  for (const char* key : {"llama.block_count", "llama.embedding_length", "llama.feed_forward_length",
                          "llama.attention.head_count\x04", "llama.attention.head_count_kv"}) {
    const std::string name(key,
                           key[std::strlen(key) - 1] == '\x04' ? std::strlen(key) - 1 : std::strlen(key));
    for (const std::uint32_t value : {0U, 1U, 7U, 0x7fffffffU, 0xffffffffU}) {
      SCOPED_TRACE(fmt::format("{} = {}", name, value));
      std::string damaged = head;
      const auto at = damaged.find(key);
      ASSERT_NE(at, std::string::npos);
      std::memcpy(damaged.data() + at + name.size() + 4, &value, 4);  // after the key: type, value
      refused(write_head(folder, damaged, original->size()));
    }
  }
}

TEST_F(DamagedFile, DamagedTensorTableIsRefused) {
  const auto layout = layout_of(*original);
  const std::string head = original->substr(0, layout.data);
  const auto name = layout.first_tensor_name;
  std::uint64_t name_length = 0;
  std::memcpy(&name_length, head.data() + name - 8, 8);
  const std::size_t dimensions = name + name_length;  // u32 count, u64 each, u32 type, u64 offset
  std::uint32_t rank = 0;
  std::memcpy(&rank, head.data() + dimensions, 4);
  ASSERT_TRUE(rank == 1 || rank == 2);
  const std::size_t type = dimensions + 4 + 8 * rank;
  struct Case {
    const char* what;
    std::size_t offset;
    std::uint64_t value;
    std::size_t width;
  };
  for (const auto& c :
       {Case{"name length", name - 8, ~0ULL, 8}, Case{"name length", name - 8, 0, 8},
        Case{"name", name, 'x', 1}, Case{"rank", dimensions, 77, 4}, Case{"rank", dimensions, 0, 4},
        Case{"extent", dimensions + 4, ~0ULL, 8}, Case{"extent", dimensions + 4, 0, 8},
        Case{"extent", dimensions + 4, 577, 8}, Case{"type", type, 4, 4}, Case{"type", type, 200, 4},
        Case{"type", type, 0xffffffff, 4}, Case{"offset", type + 4, ~0ULL, 8},
        Case{"offset", type + 4, 1ULL << 40, 8}, Case{"offset", type + 4, 3, 8}}) {
    SCOPED_TRACE(fmt::format("{} = {}", c.what, c.value));
    std::string damaged = head;
    std::memcpy(damaged.data() + c.offset, &c.value, c.width);
    refused(write_head(folder, damaged, original->size()));
  }
}

}  // namespace
}  // namespace gezel::llama
