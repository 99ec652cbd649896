#include "engine_llama/worker_process.h"

#include <algorithm>

namespace gezel::engine_llama {
namespace {

constexpr int kWorkerFd = 3;

class Process final : public WorkerProcess {
 public:
  Process(boost::asio::any_io_executor loop, Child child, Fd socket)
      : loop_(std::move(loop)),
        pid_(child.pid),
        output_(std::move(child.output)),
        socket_(std::move(socket)),
        first_nice_(engine::nice_of(child.pid)) {
    watch_ = engine::watch_child(loop_, pid_, [this](ExitStatus status) {
      ended_ = status;
      if (auto call = std::exchange(callback_, nullptr)) call(status);
    });
  }
  ~Process() override {
    if (!ended_) engine::signal_process(pid_, engine::EndSignal::kill);
  }

  std::int64_t pid() const override { return pid_; }
  Fd take_socket() override { return std::move(socket_); }
  Fd take_output() override { return std::move(output_); }
  void signal(engine::EndSignal signal) override {
    if (!ended_) engine::signal_process(pid_, signal);
  }
  bool set_nice(int nice) override {
    return ended_ || engine::set_nice(pid_, nice == 0 ? first_nice_ : std::max(first_nice_, nice));
  }
  void on_exit(std::function<void(ExitStatus)> callback) override { callback_ = std::move(callback); }

 private:
  boost::asio::any_io_executor loop_;
  std::int64_t pid_;
  Fd output_, socket_;
  int first_nice_;
  std::unique_ptr<engine::ChildWatch> watch_;
  std::optional<ExitStatus> ended_;
  std::function<void(ExitStatus)> callback_;
};

class ProcessLauncher final : public Launcher {
 public:
  explicit ProcessLauncher(boost::asio::any_io_executor loop) : loop_(std::move(loop)) {}

  Result<std::unique_ptr<WorkerProcess>> launch(const std::filesystem::path& program) override {
    GEZEL_TRY(auto sockets, socket_pair());
    SpawnOptions options;
    options.program = program;
    options.args = {"--worker-fd", std::to_string(kWorkerFd)};
    options.env_drop = {"LLAMA_*", "AIP_*", "HF_TOKEN"};
    options.inherit = {{sockets.second.get(), kWorkerFd}};
    GEZEL_TRY(auto child, spawn(options));
    return std::make_unique<Process>(loop_, std::move(child), std::move(sockets.first));
  }

 private:
  boost::asio::any_io_executor loop_;
};

}  // namespace

std::shared_ptr<Launcher> make_process_launcher(boost::asio::any_io_executor loop) {
  return std::make_shared<ProcessLauncher>(std::move(loop));
}

}  // namespace gezel::engine_llama
