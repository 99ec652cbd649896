// engine_llama/worker_process.h
//
// Where workers come from. The real launcher starts gezel-engine; a test brings one that speaks the protocol
// itself.
#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <filesystem>
#include <functional>
#include <memory>

#include "base/process.h"
#include "engine/os_process.h"

namespace gezel::engine_llama {

// One running worker: its end of the socket, its output, its life. Destroying it ends the process.
class WorkerProcess {
 public:
  virtual ~WorkerProcess() = default;
  virtual std::int64_t pid() const = 0;
  virtual Fd take_socket() = 0;  // once
  virtual Fd take_output() = 0;  // once; what the process prints
  virtual void signal(engine::EndSignal signal) = 0;
  // Every thread of it gets at least this nice value; 0: the one it was started with. False: the kernel
  // refused, and it stays as it is.
  virtual bool set_nice(int nice) = 0;
  // Calls once, on the loop, when it has ended. At most one callback; an empty one forgets the last.
  virtual void on_exit(std::function<void(ExitStatus)> callback) = 0;
};

class Launcher {
 public:
  virtual ~Launcher() = default;
  // Called on the loop's thread, because the child's life is tied to the thread that made it. Error
  // `engine-launch`.
  virtual Result<std::unique_ptr<WorkerProcess>> launch(const std::filesystem::path& program) = 0;
};

// Starts `program --worker-fd 3` with one end of a socket pair as descriptor 3 and an environment without
// variables that libllama or a hub client would obey.
std::shared_ptr<Launcher> make_process_launcher(boost::asio::any_io_executor loop);

}  // namespace gezel::engine_llama
