#include "models/ensure.h"

#include <gmock/gmock.h>

namespace gezel::models {
namespace {

using catalog::Backend;
using ::testing::HasSubstr;

class Ensure : public ::testing::Test {
 protected:
  Result<Ensured> ensure(std::string_view model) {
    return check_ensure(model, catalog_, host, [&](Backend backend, std::string_view id) {
      return catalog::qualified_id(backend, id) == installed;
    });
  }
  std::string code(std::string_view model) {
    const auto result = ensure(model);
    return result ? "" : result.error().code;
  }

  catalog::Catalog catalog_{catalog::CatalogOptions{}};
  catalog::Host host;
  std::string installed;
};

TEST_F(Ensure, Case12ABackendWithoutItsProgramIsUnsupported) {
  EXPECT_EQ(code("ds4:glm-5.2-754b-q2"), "unsupported_backend");
}
TEST_F(Ensure, Case15ABareIdIsAmbiguous) {
  for (const char* model :
       {"qwen3.5-9b-q4", "", "ollama:qwen3.5", "llama-cpp:", "llama-cpp:../x", "llama-cpp:a/b"})
    EXPECT_EQ(code(model), "ambiguous_model") << model;
}
TEST_F(Ensure, Case16NoMlxSourceOffersTheIdThatWorks) {
  for (const auto system : {catalog::HostSystem::linux, catalog::HostSystem::macos}) {
    host = {.system = system, .arm64 = true};
    const auto result = ensure("mlx:muse-glimmer-30b-q4");
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, "no_source_for_backend");
    EXPECT_THAT(result.error().message, HasSubstr("llama-cpp:muse-glimmer-30b-q4"));
  }
}
TEST_F(Ensure, Case17ADisabledSourceIsNone) {
  const auto result = ensure("mlx:ornith1.5-35b-a3b-q8");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, "no_source_for_backend");
  EXPECT_THAT(result.error().message, HasSubstr("llama-cpp:ornith1.5-35b-a3b-q8"));
}
TEST_F(Ensure, Case18AnUnknownIdIsNotFound) {
  EXPECT_EQ(code("llama-cpp:nope-1b-q4"), "unknown_model");
}
TEST_F(Ensure, MlxOffAppleSiliconIsUnsupported) {
  EXPECT_EQ(code("mlx:qwen3.5-9b-q4"), "unsupported_backend");
  host = {.system = catalog::HostSystem::macos, .arm64 = true};
  EXPECT_EQ(code("mlx:qwen3.5-9b-q4"), "");
  host.store = true;
  EXPECT_EQ(code("mlx:qwen3.5-9b-q4"), "unsupported_backend");
}
TEST_F(Ensure, WhatIsInstalledIsReadyWithOrWithoutACatalogEntry) {
  installed = "llama-cpp:local-mine";
  EXPECT_TRUE(ensure("llama-cpp:local-mine")->ready);
  installed = "llama-cpp:qwen3.6-27b-q4";
  const auto old = ensure("llama-cpp:qwen3.6");
  EXPECT_TRUE(old->ready);
  EXPECT_EQ(old->id.id, "qwen3.6-27b-q4");
}
TEST_F(Ensure, ImagesAreEnsuredToo) {
  EXPECT_EQ(ensure("sd-cpp:sd-1.5")->resolved->item->id, "sd-1.5");
  EXPECT_EQ(code("sd-cpp:qwen3.5-9b-q4"), "unknown_model");
}
TEST_F(Ensure, ADownloadIsResumableWhileItsIdHasASource) {
  EXPECT_TRUE(is_resumable("qwen3.5-9b-q4", Backend::llama_cpp, catalog_));
  EXPECT_FALSE(is_resumable("qwen3.5-9b-q4", Backend::ds4, catalog_));
  EXPECT_FALSE(is_resumable("local-x", Backend::llama_cpp, catalog_));
}

}  // namespace
}  // namespace gezel::models
