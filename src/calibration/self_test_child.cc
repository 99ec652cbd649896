// Prints one JSON object a line: what it is about to run, each result, the end; see self_test_parent.cc for
// who reads them.
#include <fmt/format.h>
#include <ggml-backend.h>
#include <ggml.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "base/json.h"
#include "calibration/product.h"
#include "calibration/self_test.h"

extern "C" int omp_get_max_threads() __attribute__((weak));  // there when the library computes with OpenMP

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

// LLVM's OpenMP keeps an entry in shared memory, named after the process, and takes it out when the process ends
// in order. Children of the self-test are made to die, and nobody but a second OpenMP in this very process asks
// for the entry, so it goes as soon as it is there.
void leave_nothing_in_shared_memory() {
  if (omp_get_max_threads == nullptr) return;
  omp_get_max_threads();  // any call registers
  ::shm_unlink(fmt::format("/__KMP_REGISTERED_LIB_{}_{}", ::getpid(), ::getuid()).c_str());
}

void report_crash_only(const char* message) {
  std::fprintf(stderr, "%s\n", message);
}

}  // namespace

int self_test_child(const std::vector<std::string>& arguments) {
  ggml_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  ggml_set_abort_callback(report_crash_only);  // instead of starting a debugger
  ggml_backend_load_all();
  leave_nothing_in_shared_memory();
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
