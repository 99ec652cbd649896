// calibration/self_test.h
//
// Does this build compute right on this machine? One matrix product of model-like shape per weight type, row
// count and buffer type, compared with a plain reference (spec 35 section 1). Each combination runs in a
// child process, because a broken kernel may die instead of answering wrong.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"

namespace gezel::calibration {

struct SelfTestRow {
  std::string backend, buffer_type, type;  // "CPU", "CPU_REPACK", "q4_1"
  int rows = 0;                            // 1, 8 or 64; 0: the combination gave no result at all
  double max_error = 0;  // of an element, relative to the root mean square of the right result
  double micros = 0;     // best of a few runs
  bool ok = false;
  std::string failure;  // "signal 4 (Illegal instruction)", "error 0.3 above 0.02", ""
};

struct SelfTestReport {
  std::vector<SelfTestRow> rows;
  bool ok() const;
  // What must not be used, as llama::ModelOptions::excluded_buffer_types takes it: "AMX" for a weight layout
  // of which any type fails, "CPU:q4_1" for a type that fails in the plain layout, "CPU:*" when the backends
  // do not even start.
  std::vector<std::string> failing_buffer_types() const;
  std::string json() const;
};

// `program`: this executable (absolute path), run again as `program --self-test-child ...` for every
// combination that needs isolation. A kernel that is wrong, dies or hangs (20 s) is a failed row, not an
// error. Some seconds on two cores; run it from a thread that lives until it returns, which the children are
// tied to.
Result<SelfTestReport> run_self_test(const std::string& program);
// The child's part: runs what `arguments` (those after --self-test-child) say and prints one JSON object a
// line. Returns the exit status. GEZEL_SELF_TEST_BREAK="<buffer type>:<type>" makes that combination die by
// SIGSEGV, to try what a broken kernel does.
int self_test_child(const std::vector<std::string>& arguments);

}  // namespace gezel::calibration
