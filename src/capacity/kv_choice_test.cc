#include "capacity/kv_choice.h"

#include <gtest/gtest.h>

namespace gezel::capacity {
namespace {

TEST(KvChoice, TheTypeGoesByConfigurationBackendAndFamily) {
  EXPECT_EQ(choose_kv({.configured = KvType::q4_0, .on_gpu = true}).type, KvType::q4_0);
  EXPECT_EQ(choose_kv({.architecture = "llama"}).type, KvType::f16);
  EXPECT_EQ(choose_kv({.on_gpu = true, .architecture = "llama"}).type, KvType::q8_0);
  EXPECT_EQ(choose_kv({.on_gpu = true, .architecture = "llama"}).flash_attention, true);
  EXPECT_EQ(choose_kv({.on_gpu = true, .architecture = "Gemma3"}).type, KvType::f16);
  EXPECT_EQ(choose_kv({.on_gpu = true, .architecture = "x", .model_id = "my-GEMMA-tune"}).type, KvType::f16);
  EXPECT_EQ(choose_kv({.architecture = "llama"}).flash_attention, std::nullopt);
  EXPECT_EQ(choose_kv({.calibrated = with_type(KvType::q8_0)}).type, KvType::q8_0);
}

}  // namespace
}  // namespace gezel::capacity
