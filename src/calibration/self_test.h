// calibration/self_test.h
//
// Does this build compute right on this machine? One matrix product of model-like shape per weight type, row count and
// buffer type, compared with a plain reference (spec 35 section 1). Each combination runs in a child process, because a
// broken kernel may die instead of answering wrong.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"

namespace gezel::calibration {

struct SelfTestRow {
  std::string backend, buffer_type, type;  // "CPU", "CPU_REPACK", "q4_1"
  int rows = 0;
  double max_error = 0;  // relative
  double micros = 0;
  bool ok = false;
  std::string failure;   // "signal 4 (Illegal instruction)", "error 0.3 above 0.02", ""
};

struct SelfTestReport {
  std::vector<SelfTestRow> rows;
  bool ok() const;
  std::vector<std::string> failing_buffer_types() const;  // must not be used
  std::string json() const;
};

// `program`: this executable, run again as `program --self-test-child ...` for every combination that needs isolation.
Result<SelfTestReport> run_self_test(const std::string& program);
// The child's part: runs what `arguments` say and prints one JSON line per row. Returns the exit status.
int self_test_child(const std::vector<std::string>& arguments);

}  // namespace gezel::calibration
