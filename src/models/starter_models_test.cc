// Import of the two models that the project's tests run, from the dependency cache.
#include <cstdlib>

#include "models/test_home.h"

namespace gezel::models {
namespace {

fs::path cached_model(std::string_view name) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const fs::path root = cache != nullptr && *cache != '\0'
                            ? fs::path(cache)
                            : fs::path(home == nullptr ? "/" : home) / ".cache";
  return root / "gezel-inference" / "models" / name;
}

class StarterModels : public testing::StoreTest {};

TEST_F(StarterModels, SmolLm2IsRecognised) {
  const auto model =
      import(cached_model("SmolLM2-135M-Instruct.Q4_1.gguf"), "reference", "smollm2-135m-instruct");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->architecture, "llama");
  EXPECT_EQ(model->quantization, "Q4_1");
  EXPECT_EQ(model->context_window, 8192);
  EXPECT_TRUE(model->chat_template_present);
  EXPECT_EQ(model->default_template, "");
}

TEST_F(StarterModels, Gemma3HasNoTemplateOfItsOwnAndIsOneOfGemmas) {
  const auto model = import(cached_model("gemma-3-270m-q4_k_m.gguf"), "reference", "gemma3-270m");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->architecture, "gemma3");
  EXPECT_EQ(model->quantization, "Q4_K_M");
  EXPECT_EQ(model->context_window, 32768);
  EXPECT_FALSE(model->chat_template_present);
  EXPECT_EQ(model->default_template, "default:gemma");
  ASSERT_TRUE(store.verify(*model));
  EXPECT_EQ(string_or(manifest_of("gemma3-270m"), "sha256"),
            "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818");
}

}  // namespace
}  // namespace gezel::models
