#include "capacity/kv_size.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "gguf/test_file.h"

namespace gezel::capacity {
namespace {

// The model file that a case describes, read like any other.
gguf::Metadata read_case(const json::object& test_case) {
  const std::string architecture = string_or(test_case, "architecture");
  gguf::testing::TestFile file;
  file.text("general.architecture", architecture);
  for (const auto& [suffix, value] : *object_at(test_case, "keys")) {
    const std::string key = architecture + "." + std::string(suffix);
    if (const auto* array = value.if_array()) {
      std::vector<std::uint32_t> numbers;
      for (const auto& entry : *array) {
        numbers.push_back(entry.is_bool() ? entry.as_bool() : static_cast<std::uint32_t>(entry.as_int64()));
      }
      file.numbers(key, gguf::testing::kU32, numbers);
    } else {
      file.u32(key, static_cast<std::uint32_t>(value.as_int64()));
    }
  }
  const std::string bytes = file.bytes();
  gguf::MemorySource source(bytes);
  auto metadata = gguf::read_metadata(source, "case.gguf");
  EXPECT_TRUE(metadata);
  return metadata ? *metadata : gguf::Metadata{};
}

void check_costs(const json::object& expect, const KvGeometry& geometry) {
  if (const auto* slopes = object_at(expect, "slope")) {
    for (const auto& [type, bytes] : *slopes) {
      EXPECT_EQ(kv_cost(geometry, *parse_kv_type(type)).slope, static_cast<Bytes>(bytes.as_int64()));
    }
  }
  if (const auto* fixed = object_at(expect, "fixed")) {
    for (const auto& [type, bytes] : *fixed) {
      EXPECT_EQ(kv_cost(geometry, *parse_kv_type(type)).fixed, static_cast<Bytes>(bytes.as_int64()));
    }
  }
  if (const auto* fulls = array_at(expect, "full")) {
    for (const auto& full : *fulls) {
      const auto& row = full.as_object();
      EXPECT_EQ(full_kv_bytes(geometry, *parse_kv_type(string_or(row, "type")), int_or(row, "context", 0)),
                static_cast<Bytes>(int_or(row, "bytes", -1)));
    }
  }
}

void check_row(const json::object& test_case) {
  SCOPED_TRACE(string_or(test_case, "name"));
  const auto geometry = kv_geometry(read_case(test_case));
  const auto& expect = *object_at(test_case, "expect");
  if (bool_or(expect, "unavailable", false)) {
    EXPECT_FALSE(geometry);
    return;
  }
  ASSERT_TRUE(geometry);
  check_costs(expect, *geometry);
  EXPECT_EQ(geometry->window_layout_known, bool_or(expect, "layout_known", geometry->window_layout_known));
  EXPECT_EQ(geometry->attention_layers, int_or(expect, "attention_layers", geometry->attention_layers));
  EXPECT_EQ(geometry->windowed_layers, int_or(expect, "windowed_layers", geometry->windowed_layers));
  EXPECT_EQ(geometry->recurrent_layers, int_or(expect, "recurrent_layers", geometry->recurrent_layers));
  EXPECT_EQ(geometry->recurrent_bytes,
            static_cast<Bytes>(
                int_or(expect, "recurrent_bytes", static_cast<std::int64_t>(geometry->recurrent_bytes))));
}

// Checks the rows of the table that `wanted` accepts and returns their number.
template <class Wanted>
int check_table(Wanted wanted) {
  std::ifstream table(GEZEL_TESTDATA "/capacity/kv_size.jsonl");
  int rows = 0;
  for (std::string line; std::getline(table, line);) {
    const auto parsed = parse_json(line);
    EXPECT_TRUE(parsed) << line;
    if (!parsed || !wanted(parsed->as_object())) continue;
    check_row(parsed->as_object());
    ++rows;
  }
  return rows;
}

int check_case(std::int64_t number) {
  return check_table([&](const json::object& row) {
    const auto* cases = array_at(row, "cases");
    return cases && std::ranges::find(*cases, json::value(number)) != cases->end();
  });
}

TEST(KvSize, EveryCaseOfTheTableHolds) {
  EXPECT_GT(check_table([](const auto&) { return true; }), 40);
}

TEST(KvSize, Case31_DenseLayers) {
  EXPECT_EQ(check_case(31), 1);
}
TEST(KvSize, Case32_And33_SlidingWindowsByType) {
  EXPECT_EQ(check_case(32), 1);
  EXPECT_EQ(check_case(33), 1);
}
TEST(KvSize, Case34_LayersThatShareACacheOwnNone) {
  EXPECT_EQ(check_case(34), 1);
}
TEST(KvSize, Case36_LatentAttention) {
  EXPECT_EQ(check_case(36), 2);
}
TEST(KvSize, Case37_SparseIndexers) {
  EXPECT_EQ(check_case(37), 1);
}
TEST(KvSize, Case38_AHybridsSlotIsItsAttentionAndItsStates) {
  EXPECT_EQ(check_case(38), 1);
  // 12 attention layers of 2 heads of 256 + 256, 36 states.
  const KvGeometry hybrid{.global_elements = 12 * 2 * 512, .recurrent_bytes = 36 * 2'195'456};
  const KvCost cost = kv_cost(hybrid, KvType::q8_0);
  EXPECT_EQ(cost.slope, 13'056u);
  EXPECT_EQ(cost.fixed, 79'036'416u);
  EXPECT_EQ(cost.slope * 131'072 + cost.fixed, 1'790'312'448u);
}
TEST(KvSize, Case40_AnUnknownLayout) {
  EXPECT_EQ(check_case(40), 1);
}

// What libllama reports for eight slots of 8,192 tokens: 192 MiB of global and 120 MiB of windowed cells.
TEST(KvSize, AgreesWithTheEngineOnARealModel) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const std::filesystem::path base =
      cache && *cache ? cache : std::filesystem::path(std::getenv("HOME")) / ".cache";
  const auto metadata = gguf::read_metadata(base / "gezel-inference" / "models" / "gemma-3-270m-q4_k_m.gguf");
  ASSERT_TRUE(metadata) << metadata.error().message;
  const auto geometry = kv_geometry(*metadata);
  ASSERT_TRUE(geometry);
  EXPECT_EQ(kv_bytes(*geometry, {.slots = 8, .micro_batch = 512}, 8192), 312 * kMiB);
}

TEST(KvSize, Case32_ASlotsCostIsSlopeTimesContextPlusFixed) {
  const KvGeometry windowed{.global_elements = 8192, .windowed_elements = 36'864, .window = 512};
  const KvCost cost = kv_cost(windowed, KvType::f16);
  EXPECT_EQ(cost.slope * 65'536 + cost.fixed, 1'262'485'504u);
}

TEST(KvSize, Case35_WindowedCellsAreExactWhenTheMicroBatchIsKnown) {
  EXPECT_EQ(windowed_cells(65'536, 1024, 512, false, 1), 1536);
  EXPECT_EQ(windowed_cells(65'536, 1024, 512, true, 4), 4608);
  EXPECT_EQ(windowed_cells(1024, 4096, 512, false, 1), 1024);
  EXPECT_EQ(windowed_cells(32'768, 128, 2048, false, 1), 2304);
}

TEST(KvSize, AllocationsArePaddedPerSlot) {
  const KvGeometry dense{.global_elements = 1};
  EXPECT_EQ(kv_bytes(dense, {.slots = 3}, 300), 3u * 512 * 2);
}

TEST(KvSize, EverySlotHasItsOwnWindowAndState) {
  const KvGeometry hybrid{.windowed_elements = 1, .window = 100, .recurrent_bytes = 7};
  EXPECT_EQ(kv_bytes(hybrid, {.slots = 2, .micro_batch = 64}, 8192), 2u * 256 * 2 + 2 * 7);
  EXPECT_EQ(kv_bytes(hybrid, {.slots = 2, .full_window = true}, 8192), 2u * 8192 * 2 + 2 * 7);
}

TEST(KvSize, RecurrentStatesDoNotScaleWithTheCacheType) {
  const KvGeometry hybrid{.global_elements = 32, .recurrent_bytes = 1000};
  EXPECT_EQ(kv_bytes(hybrid, {.type = KvType::q4_0}, 256), 18u * 256 + 1000);
}

TEST(KvSize, Case39_TheHeuristicIsClampedAndScaled) {
  EXPECT_EQ(heuristic_kv_bytes(4'000'000'000, KvType::q8_0, 32'768), 738'197'504u);
  EXPECT_EQ(heuristic_kv_bytes(30'000'000'000, KvType::q8_0, 32'768), 2'703'360'000u);
  EXPECT_EQ(heuristic_kv_bytes(30'000'000'000, KvType::f16, 32'768), 4'915'200'000u);
  EXPECT_EQ(heuristic_kv_bytes(200'000'000'000, KvType::q8_0, 32'768), 7'381'975'040u);
}

TEST(KvSize, HugeProductsSaturate) {
  const KvGeometry huge{.global_elements = ~std::uint64_t{0}};
  EXPECT_EQ(kv_bytes(huge, {.slots = 64}, Tokens{1} << 27), ~Bytes{0});
}

TEST(KvSize, TypeNamesRoundTrip) {
  for (const char* name : {"f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"}) {
    EXPECT_EQ(kv_type_name(*parse_kv_type(name)), name);
  }
  EXPECT_FALSE(parse_kv_type("q3_k"));
}

}  // namespace
}  // namespace gezel::capacity
