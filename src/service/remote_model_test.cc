#include "service/remote_model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace gezel::service {
namespace {

TEST(HeaderMemory, OldHeadersAreForgottenAndAChangedFileIsAnother) {
  HeaderCache cache;
  const auto file = [](int number, Bytes size = 1) {
    models::PlannedFile out;
    out.urls = {fmt::format("https://models.example/{}", number)};
    out.size_bytes = size;
    return out;
  };
  for (int i = 0; i < 40; ++i) cache.put(file(i), {});
  EXPECT_EQ(cache.find(file(7)), nullptr);
  ASSERT_NE(cache.find(file(8)), nullptr);
  EXPECT_EQ(cache.find(file(8, 2)), nullptr);
  cache.put(file(40), {});
  EXPECT_NE(cache.find(file(8)), nullptr) << "it was used last";
  EXPECT_EQ(cache.find(file(9)), nullptr);
}

TEST(NetworkName, IsAHubReferenceOrAnAddress) {
  for (const char* name : {"hf:org/repo", "https://models.example/m.gguf", "file:///m.gguf"})
    EXPECT_TRUE(is_network_name(name)) << name;
  for (const char* name : {"small-q4", "llama-cpp:small-q4", "llama-cpp/small", "discovered:ollama/a"})
    EXPECT_FALSE(is_network_name(name)) << name;
}

}  // namespace
}  // namespace gezel::service
