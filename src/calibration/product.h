// calibration/product.h
//
// One matrix product on one backend with its weights in one buffer type, and how far it is from a plain
// reference. This is what a self-test child computes; nothing here protects against a kernel that dies.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace gezel::calibration {

// What can be tested: weights of `type` in `buffer_type` on `backend`.
struct Combination {
  std::string backend;      // device name: "CPU"
  std::string buffer_type;  // "CPU", "AMX", "CPU_REPACK"
  std::string type;         // "q4_1"
  bool operator==(const Combination&) const = default;
  std::string text() const;  // "CPU/AMX/q4_1"
  static std::optional<Combination> parse(std::string_view text);
};

// The child's argument that asks for the list of combinations instead of running some.
inline constexpr const char* kChildListCommand = "list";

// Row counts tested: one token, a small batch, a prompt chunk. Kernels differ between them.
inline constexpr int kRowCounts[] = {1, 8, 64};

// Every combination this build claims to support on this machine, in order of backend, buffer type, type.
std::vector<Combination> combinations();

// Instruction sets in use, for people: "SSE3 AVX2 AVX512 AMX_INT8".
std::string cpu_features();

struct ProductResult {
  int rows = 0;
  double max_error = 0;  // largest deviation of an element, divided by the root mean square of the reference
  double micros = 0;     // best of a few runs
};

// One result per row count, given to `report` as soon as it is there. Errors: the combination does not exist
// here, or memory.
Result<> run_products(const Combination& combination,
                      const std::function<void(const ProductResult&)>& report);

// What `max_error` may be for a weight type. The reference uses the weights as stored, so it only has to
// cover how kernels round the other factor: not at all, to 16 bits, or to 8 bits per block.
double error_bound(std::string_view type);

}  // namespace gezel::calibration
