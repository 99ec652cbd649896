// gezel-engine: one loaded model. Started by the daemon; a person calls it only for the self-test and the
// version.
#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "calibration/self_test.h"
#include "llama/devices.h"
#include "system/gpu_libraries.h"
#include "worker/worker.h"

namespace {

constexpr std::string_view kHelp =
    R"(gezel-engine runs one model for the gezel daemon, which starts it; you rarely call it yourself.

  gezel-engine --self-test        check that this build computes right on this machine; prints a JSON table
  gezel-engine --version [--json] version, libllama build, processor features in use
  gezel-engine --list-devices     what this build can compute on beside the processor
  gezel-engine --gpu-health       what the drivers' libraries say of the GPUs, as JSON
  gezel-engine --worker-fd N      serve the daemon on an inherited socket
)";

int self_test() {
  const auto report = gezel::calibration::run_self_test(std::filesystem::read_symlink("/proc/self/exe"));
  if (!report) {
    fmt::print(stderr, "self-test could not run: {}\n", report.error().message);
    return 1;
  }
  fmt::print("{}\n", report->json());
  return report->ok() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.empty() || args[0] == "--help" || args[0] == "-h") {
    fmt::print("{}", kHelp);
    return args.empty() ? 2 : 0;
  }
  if (args[0] == "--version") {
    const bool json = args.size() > 1 && args[1] == "--json";
    fmt::print("{}\n", json ? gezel::worker::version_json() : gezel::worker::version_text());
    return 0;
  }
  if (args[0] == "--list-devices") {
    fmt::print("{}", gezel::llama::device_list());
    return 0;
  }
  if (args[0] == "--gpu-health") {
    fmt::print("{}", gezel::system::gpu_sample_text(gezel::system::read_gpu_libraries()));
    return 0;
  }
  if (args[0] == "--self-test") return self_test();
  if (args[0] == "--self-test-child")
    return gezel::calibration::self_test_child({args.begin() + 1, args.end()});
  if (args[0] == "--worker-fd" && args.size() == 2) {
    int fd = -1;
    const auto [end, error] = std::from_chars(args[1].data(), args[1].data() + args[1].size(), fd);
    if (error == std::errc() && end == args[1].data() + args[1].size() && fd >= 0) {
      gezel::setup_logging({.format = gezel::LogFormat::json});
      return gezel::worker::run_worker(fd);
    }
  }
  fmt::print(stderr, "gezel-engine: unknown arguments; see gezel-engine --help\n");
  return 2;
}
