// Weights are random but fixed, so a failure repeats. Only kDistinctRows rows are quantised, which is slow
// for many types, and laid out in turn; their number shares no factor with any kernel's block of rows, so
// that a mixed-up row shows. Types that are quantised by searching a code book would still take ten seconds:
// their blocks are filled with random bits and a sensible scale, as every code in them is valid.
#include "calibration/product.h"

#include <fmt/format.h>
#include <ggml-backend.h>
#include <ggml-cpp.h>
#include <ggml-cpu.h>
#include <ggml.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <thread>

namespace gezel::calibration {
namespace {

// The feed-forward shape of a small model: inner extent a multiple of the largest block (256), outer one of
// any kernel's tile.
constexpr std::int64_t kInner = 1536;
constexpr std::int64_t kOuter = 576;
constexpr std::int64_t kDistinctRows = 37;
constexpr int kTimedRuns = 3;
constexpr unsigned kMostThreads = 8;

// Measured deviations, largest over all kernels seen, are a third to a half of these.
constexpr double kBoundExact = 1e-5;       // 32-bit arithmetic
constexpr double kBoundHalf = 3e-3;        // the other factor in 11 bits
constexpr double kBoundBrain = 2e-2;       // in 8 bits
constexpr double kBoundBlock32 = 6e-2;     // in 8 bits relative to the largest of 32 values
constexpr double kBoundBlock256 = 1.2e-1;  // of 256 values

struct Bound {
  std::string_view type;
  double bound;
};
// All others have blocks of 256.
constexpr Bound kBounds[] = {{"f32", kBoundExact},    {"f16", kBoundHalf},       {"bf16", kBoundBrain},
                             {"q4_0", kBoundBlock32}, {"q4_1", kBoundBlock32},   {"q5_0", kBoundBlock32},
                             {"q5_1", kBoundBlock32}, {"q8_0", kBoundBlock32},   {"q1_0", kBoundBlock32},
                             {"q2_0", kBoundBlock32}, {"iq4_nl", kBoundBlock32}, {"mxfp4", kBoundBlock32},
                             {"nvfp4", kBoundBlock32}};

// Types that exist as the other factor of a product or as counters, never as weights, have no conversion to
// floats.
bool is_weight_type(ggml_type type) {
  if (type == GGML_TYPE_F32) return true;
  const auto* traits = ggml_get_type_traits(type);
  return traits->blck_size > 0 && traits->to_float != nullptr && kInner % traits->blck_size == 0;
}

ggml_context_ptr make_context(std::size_t tensors) {
  return ggml_context_ptr(ggml_init({.mem_size = tensors * ggml_tensor_overhead() + ggml_graph_overhead(),
                                     .mem_buffer = nullptr,
                                     .no_alloc = true}));
}

bool supported(ggml_backend_dev_t device, ggml_backend_buffer_type_t buffer_type, ggml_type type) {
  const auto context = make_context(3);
  ggml_tensor* weights = ggml_new_tensor_2d(context.get(), type, kInner, kOuter);
  ggml_tensor* input = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, kInner, 8);
  const ggml_tensor* product = ggml_mul_mat(context.get(), weights, input);
  // What is supported depends on where the weights lie, so they are put into a buffer without memory.
  const ggml_backend_buffer_ptr nowhere(ggml_backend_buft_alloc_buffer(buffer_type, 0));
  weights->buffer = nowhere.get();
  return ggml_backend_dev_supports_op(device, product);
}

std::vector<ggml_backend_buffer_type_t> buffer_types(ggml_backend_dev_t device) {
  std::vector<ggml_backend_buffer_type_t> types{ggml_backend_dev_buffer_type(device)};
  auto* get = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(ggml_backend_reg_get_proc_address(
      ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts"));
  for (auto** extra = get == nullptr ? nullptr : get(device); extra != nullptr && *extra != nullptr;
       ++extra) {
    types.push_back(*extra);
  }
  return types;
}

// Values as weights and activations have them: about normal, with a few far outliers.
std::vector<float> random_values(std::size_t count, float scale, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (auto& value : values) {
    // The sum of uniform numbers is the same on every standard library, unlike its normal distribution.
    float sum = 0;
    for (int i = 0; i < 6; ++i) sum += static_cast<float>(random()) / 4294967296.0F - 0.5F;
    value = sum * 1.41421356F * scale * (random() % 1000 == 0 ? 6.0F : 1.0F);
  }
  return values;
}

struct Weights {
  std::vector<char> stored;   // kOuter rows
  std::vector<float> floats;  // the kDistinctRows rows as stored
};

// How the scale of a code book type is stored: its 16-bit float in whole, or a hexadecimal digit at the top
// of each of four 16-bit words. Everything else in a block may be any bits.
enum class ScaleForm { half, nibbles };
struct CodeBookType {
  ggml_type type;
  ScaleForm form;
  std::size_t scale_offset;  // in the block
};
constexpr CodeBookType kCodeBookTypes[] = {{GGML_TYPE_IQ2_XXS, ScaleForm::half, 0},
                                           {GGML_TYPE_IQ2_XS, ScaleForm::half, 0},
                                           {GGML_TYPE_IQ2_S, ScaleForm::half, 0},
                                           {GGML_TYPE_IQ1_S, ScaleForm::half, 0},
                                           {GGML_TYPE_IQ1_M, ScaleForm::nibbles, 48}};

void fill_with_codes(const CodeBookType& kind, std::vector<char>& blocks) {
  std::mt19937 random(3);
  for (auto& byte : blocks) byte = static_cast<char>(random() & 0xff);
  for (std::size_t block = 0; block < blocks.size(); block += ggml_type_size(kind.type)) {
    const ggml_fp16_t scale = ggml_fp32_to_fp16(0.005F + 0.0001F * static_cast<float>(random() % 100));
    char* at = blocks.data() + block + kind.scale_offset;
    if (kind.form == ScaleForm::half) {
      std::memcpy(at, &scale, sizeof scale);
      continue;
    }
    for (std::size_t word = 0; word < 4; ++word) {
      char& high = at[2 * word + 1];
      high = static_cast<char>((high & 0x0f) | (((scale >> (4 * word)) & 0xf) << 4));
    }
  }
}

Weights make_weights(ggml_type type) {
  const auto values = random_values(kDistinctRows * kInner, 0.05F, 1);
  const std::vector<float> importance(kInner, 1.0F);
  const std::size_t row_size = ggml_row_size(type, kInner);
  std::vector<char> distinct(row_size * kDistinctRows);
  const auto* code_book = std::ranges::find(kCodeBookTypes, type, &CodeBookType::type);
  if (code_book != std::end(kCodeBookTypes)) {
    fill_with_codes(*code_book, distinct);
  } else {
    ggml_quantize_chunk(type, values.data(), distinct.data(), 0, kDistinctRows, kInner, importance.data());
  }
  Weights weights;
  weights.floats = values;
  if (type != GGML_TYPE_F32) {
    for (std::int64_t row = 0; row < kDistinctRows; ++row) {
      ggml_get_type_traits(type)->to_float(distinct.data() + static_cast<std::size_t>(row) * row_size,
                                           weights.floats.data() + row * kInner, kInner);
    }
  }
  weights.stored.reserve(row_size * kOuter);
  for (std::int64_t row = 0; row < kOuter; ++row) {
    const auto from = distinct.begin() + static_cast<std::ptrdiff_t>(row_size) * (row % kDistinctRows);
    weights.stored.insert(weights.stored.end(), from, from + static_cast<std::ptrdiff_t>(row_size));
  }
  return weights;
}

// kDistinctRows products for each row of `input`, in double precision.
std::vector<double> reference(const Weights& weights, const std::vector<float>& input, int rows) {
  std::vector<double> out;
  for (int row = 0; row < rows; ++row) {
    for (std::int64_t outer = 0; outer < kDistinctRows; ++outer) {
      double sum = 0;
      for (std::int64_t i = 0; i < kInner; ++i) {
        sum += static_cast<double>(weights.floats[static_cast<std::size_t>(outer * kInner + i)]) *
               static_cast<double>(input[static_cast<std::size_t>(row * kInner + i)]);
      }
      out.push_back(sum);
    }
  }
  return out;
}

// Largest deviation over the root mean square of the reference; infinite when a result is not a number.
double deviation(const std::vector<float>& computed, const std::vector<double>& expected, int rows) {
  double square = 0;
  for (const double value : expected) square += value * value;
  const double scale = std::sqrt(square / static_cast<double>(expected.size()));
  double worst = 0;
  for (int row = 0; row < rows; ++row) {
    for (std::int64_t outer = 0; outer < kOuter; ++outer) {
      const double value = computed[static_cast<std::size_t>(row * kOuter + outer)];
      if (!std::isfinite(value)) return INFINITY;
      worst = std::max(
          worst,
          std::abs(value - expected[static_cast<std::size_t>(row * kDistinctRows + outer % kDistinctRows)]));
    }
  }
  return worst / scale;
}

void use_threads(ggml_backend_t backend, ggml_backend_dev_t device) {
  auto* set = reinterpret_cast<ggml_backend_set_n_threads_t>(
      ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device), "ggml_backend_set_n_threads"));
  if (set != nullptr)
    set(backend, static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, kMostThreads)));
}

ggml_type type_of_name(std::string_view name) {
  for (int i = 0; i < GGML_TYPE_COUNT; ++i) {
    const auto type = static_cast<ggml_type>(i);
    if (const char* known = ggml_type_name(type); known != nullptr && name == known) return type;
  }
  return GGML_TYPE_COUNT;
}

std::unexpected<Error> unavailable(const Combination& combination, std::string_view what) {
  return fail(ErrorKind::unavailable, "self_test_unavailable",
              fmt::format("{}: {}", combination.text(), what));
}

}  // namespace

std::string Combination::text() const {
  return fmt::format("{}/{}/{}", backend, buffer_type, type);
}

std::optional<Combination> Combination::parse(std::string_view text) {
  const auto first = text.find('/');
  const auto second = first == std::string_view::npos ? first : text.find('/', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  return Combination{std::string(text.substr(0, first)),
                     std::string(text.substr(first + 1, second - first - 1)),
                     std::string(text.substr(second + 1))};
}

std::vector<Combination> combinations() {
  std::vector<Combination> all;
  for (std::size_t i = 0; i < ggml_backend_dev_count(); ++i) {
    auto* device = ggml_backend_dev_get(i);
    for (auto* buffer_type : buffer_types(device)) {
      for (int number = 0; number < GGML_TYPE_COUNT; ++number) {
        const auto type = static_cast<ggml_type>(number);
        if (!is_weight_type(type) || !supported(device, buffer_type, type)) continue;
        all.push_back(
            {ggml_backend_dev_name(device), ggml_backend_buft_name(buffer_type), ggml_type_name(type)});
      }
    }
  }
  return all;
}

std::string cpu_features() {
  auto* device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  if (device == nullptr) return {};
  auto* registry = ggml_backend_dev_backend_reg(device);
  auto* get = reinterpret_cast<ggml_backend_get_features_t>(
      ggml_backend_reg_get_proc_address(registry, "ggml_backend_get_features"));
  std::string names;
  for (const auto* feature = get == nullptr ? nullptr : get(registry);
       feature != nullptr && feature->name != nullptr; ++feature) {
    if (std::string_view(feature->value) == "1")
      names += fmt::format("{}{}", names.empty() ? "" : " ", feature->name);
  }
  return names;
}

Result<> run_products(const Combination& combination,
                      const std::function<void(const ProductResult&)>& report) {
  auto* device = ggml_backend_dev_by_name(combination.backend.c_str());
  if (device == nullptr) return unavailable(combination, "this build has no such backend");
  ggml_backend_buffer_type_t buffer_type = nullptr;
  for (auto* candidate : buffer_types(device)) {
    if (combination.buffer_type == ggml_backend_buft_name(candidate)) buffer_type = candidate;
  }
  if (buffer_type == nullptr) return unavailable(combination, "the backend has no such buffer type");
  const auto type = type_of_name(combination.type);
  if (type == GGML_TYPE_COUNT || !is_weight_type(type) || !supported(device, buffer_type, type)) {
    return unavailable(combination, "no weight type that the buffer type supports");
  }
  const ggml_backend_ptr backend(ggml_backend_dev_init(device, nullptr));
  if (!backend) return unavailable(combination, "the backend could not be started");
  use_threads(backend.get(), device);

  const Weights weights = make_weights(type);
  const auto weights_context = make_context(1);
  ggml_tensor* stored = ggml_new_tensor_2d(weights_context.get(), type, kInner, kOuter);
  const ggml_backend_buffer_ptr weights_buffer(
      ggml_backend_alloc_ctx_tensors_from_buft(weights_context.get(), buffer_type));
  if (!weights_buffer) return unavailable(combination, "not enough memory for the weights");
  ggml_backend_buffer_set_usage(weights_buffer.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
  ggml_backend_tensor_set(stored, weights.stored.data(), 0, weights.stored.size());

  for (const int rows : kRowCounts) {
    const auto context = make_context(8);
    ggml_tensor* input = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, kInner, rows);
    ggml_tensor* product = ggml_mul_mat(context.get(), stored, input);
    const ggml_backend_buffer_ptr buffer(ggml_backend_alloc_ctx_tensors(context.get(), backend.get()));
    if (!buffer) return unavailable(combination, "not enough memory for the product");
    ggml_cgraph* graph = ggml_new_graph_custom(context.get(), 8, false);
    ggml_build_forward_expand(graph, product);
    const auto values = random_values(static_cast<std::size_t>(rows * kInner), 1.0F, 2);
    ggml_backend_tensor_set(input, values.data(), 0, values.size() * sizeof(float));

    ProductResult result{.rows = rows, .micros = INFINITY};
    for (int run = 0; run < kTimedRuns; ++run) {
      const auto begin = std::chrono::steady_clock::now();
      if (ggml_backend_graph_compute(backend.get(), graph) != GGML_STATUS_SUCCESS) {
        return unavailable(combination, "the backend refused to compute");
      }
      const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
      result.micros = std::min(result.micros, took.count());
    }
    std::vector<float> computed(static_cast<std::size_t>(rows * kOuter));
    ggml_backend_tensor_get(product, computed.data(), 0, computed.size() * sizeof(float));
    result.max_error = deviation(computed, reference(weights, values, rows), rows);
    report(result);
  }
  return {};
}

double error_bound(std::string_view type) {
  for (const auto& entry : kBounds) {
    if (entry.type == type) return entry.bound;
  }
  return kBoundBlock256;
}

}  // namespace gezel::calibration
