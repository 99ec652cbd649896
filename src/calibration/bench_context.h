// calibration/bench_context.h
//
// BenchEngine on a context of the loaded model, beside the one that serves.
#pragma once
#include <vector>

#include "calibration/bench.h"
#include "llama/synthetic_depth.h"

namespace gezel::calibration {

class BenchContext final : public BenchEngine {
 public:
  // Both outlive this; a call under way ends when `interrupted` is set.
  BenchContext(const llama::Model& model, const std::atomic<bool>& interrupted)
      : model_(model), interrupted_(interrupted) {}

  Result<> open(const protocol::Measure& measure) override;
  void close() override;
  Bytes memory() const override;
  Result<> set_depth(int streams, std::int64_t depth) override;
  llama::DecodeCode call(const protocol::Measure& measure) override;

 private:
  const llama::Model& model_;
  const std::atomic<bool>& interrupted_;
  std::unique_ptr<llama::Context> context_;
  std::optional<llama::SyntheticDepth> filler_;
  std::vector<std::int64_t> depth_;  // that each slot was filled to; -1: what it holds is unknown
  std::vector<llama::Row> rows_;
};

}  // namespace gezel::calibration
