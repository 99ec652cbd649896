#include "capacity/build_metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gezel::capacity {
namespace {

using ::testing::ElementsAre;

TEST(BuildMetadata, TheFirstSchemaIsRead) {
  const auto build = parse_build_metadata(R"({"schemaVersion": 1, "engine": "llama-cpp", "revision": "b1",
      "platform": "linux-x64", "backend": "cuda-12", "cudaArchitectures": ["86", "90a"], "cudaToolkit": "12.4"})");
  ASSERT_TRUE(build);
  EXPECT_EQ(build->backend, "cuda-12");
  EXPECT_THAT(build->cuda_architectures, ElementsAre("86", "90a"));
  EXPECT_TRUE(is_gpu_backend(build->backend));
  EXPECT_FALSE(is_gpu_backend("cpu"));
}

TEST(BuildMetadata, AnythingElseSaysNothing) {
  for (const char* text :
       {"", "[]",
        R"({"schemaVersion": 2, "engine": "llama-cpp", "revision": "b", "platform": "p", "backend": "cpu"})",
        R"({"schemaVersion": 1, "engine": "mlx", "revision": "b", "platform": "p", "backend": "cpu"})",
        R"({"schemaVersion": 1, "engine": "llama-cpp", "platform": "p", "backend": "cpu"})"})
    EXPECT_FALSE(parse_build_metadata(text)) << text;
}

}  // namespace
}  // namespace gezel::capacity
