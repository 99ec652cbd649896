// Prints one JSON object a line: what it is about to run, each result, the end; see self_test_parent.cc for
// who reads them.
#include <fmt/format.h>
#include <ggml-backend.h>
#include <ggml.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "base/json.h"
#include "calibration/product.h"
#include "calibration/self_test.h"

namespace gezel::calibration {
namespace {

void print_line(const json::object& line) {
  std::fputs((to_json(line) + "\n").c_str(), stdout);
  std::fflush(stdout);
}

// "AMX:q4_1" in the environment makes that combination die, so that tests and `make test` see what a broken
// kernel does.
void die_if_told(const Combination& combination) {
  const char* broken = std::getenv("GEZEL_SELF_TEST_BREAK");
  if (broken == nullptr || broken != combination.buffer_type + ":" + combination.type) return;
  std::signal(SIGSEGV, SIG_DFL);
  std::raise(SIGSEGV);
}

void report_crash_only(const char* message) {
  std::fprintf(stderr, "%s\n", message);
}

}  // namespace

int self_test_child(const std::vector<std::string>& arguments) {
  ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  ggml_set_abort_callback(report_crash_only);  // instead of starting a debugger
  ggml_backend_load_all();
  if (arguments.size() == 1 && arguments[0] == kChildListCommand) {
    print_line({{"features", cpu_features()}});
    for (const auto& combination : combinations()) print_line({{"combination", combination.text()}});
    return 0;
  }
  for (const auto& argument : arguments) {
    const auto combination = Combination::parse(argument);
    if (!combination) {
      std::fprintf(stderr, "\"%s\" is not of the form backend/buffer type/type\n", argument.c_str());
      return 2;
    }
    print_line({{"begin", argument}});
    die_if_told(*combination);
    const auto done = run_products(*combination, [](const ProductResult& result) {
      json::object line{{"rows", result.rows}, {"micros", result.micros}};
      if (std::isfinite(result.max_error)) line["max_error"] = result.max_error;
      print_line(line);
    });
    if (!done) print_line({{"error", done.error().message}});
    print_line({{"end", argument}});
  }
  return 0;
}

}  // namespace gezel::calibration
