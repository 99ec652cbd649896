#include "engine_llama/prompt_cache_folder.h"

#include <gtest/gtest.h>

#include "base/test_folder.h"
#include "kvcache/store.h"
#include "kvcache/test_record.h"

namespace gezel::engine_llama {
namespace {

TEST(PromptCacheFolder, ASessionOfAModelThatIsNotLoadedIsForgotten) {
  const TestFolder home;
  const ManualClock clock;
  kvcache::Store files({.root = prompt_cache_root(home.path()), .fingerprint = kvcache::digest(1)}, clock);
  const auto keys = kvcache::counted(100);
  auto header = kvcache::header_of(keys, 0);
  header.tags = {kvcache::session_tag("default:s")};
  const std::vector<kvcache::Piece> rows{{kvcache::test_part(keys, 0), 0, header.end}};
  const auto record = kvcache::encode_record(header, kvcache::test_layout(), rows, nullptr);
  ASSERT_TRUE(record && files.write(*record));
  EXPECT_EQ(forget_session_on_disk(home.path(), "default:other").value_or(9), 0U);
  EXPECT_EQ(forget_session_on_disk(home.path(), "default:s").value_or(9), 1U);
  EXPECT_FALSE(std::filesystem::exists(files.file_of(header.own)));
}

}  // namespace
}  // namespace gezel::engine_llama
