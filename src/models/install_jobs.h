// models/install_jobs.h
//
// The one registry that every install goes through (spec 60 section 9.2): at most one job for a model, whom
// later callers join; it belongs to the service and not to a connection, tells what happens, ends with
// exactly one `done` or `error`, and can be read for ten minutes after that.
//
// Everything here is called on the event loop, and calls back there. The work itself runs on the pool, whose
// threads may wait; JobControl is its side of the matter.
#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "catalog/backend.h"
#include "models/install_events.h"

namespace gezel::models {

namespace asio = boost::asio;

inline constexpr Millis kProgressEvery{250};
inline constexpr Millis kKeepFinished{10 * 60 * 1000};
inline constexpr std::size_t kMaxRunningJobs = 32;
inline constexpr std::size_t kMaxFinishedJobs = 256;

enum class JobStatus { running, done, error };
enum class JobPhase { downloading, verifying, extracting_metadata };
std::string_view to_string(JobStatus status);
std::string_view to_string(JobPhase phase);

struct JobView {
  std::string job_id, model_id;  // model_id is qualified
  JobStatus status = JobStatus::running;
  std::int64_t started_at_ms = 0;  // since 1970
  std::vector<JobEvent> events;
};

struct ActiveInstall {
  catalog::Backend backend = catalog::Backend::llama_cpp;
  std::string id, job_id;
  Bytes bytes_written = 0, total_bytes = 0;
  JobPhase phase = JobPhase::downloading;
  std::int64_t started_at_ms = 0;
};

// The worker's side, on its thread: an observer for install(), and cancellation.
class JobControl : public InstallObserver {
 public:
  virtual const downloads::Cancellation& cancellation() const = 0;
};
using JobWork = std::function<std::expected<Installed, InstallError>(JobControl&)>;

// The work of an ordinary install. What is passed by reference must outlive the pool's work.
JobWork install_work(ModelStore& store, const downloads::Transfers& transfers, const Clock& clock,
                     InstallPlan plan, InstallOptions options);

struct StartedJob {
  std::string job_id;
  bool joined = false;  // it ran already; the work and options of this call are not used
};

struct JobHooks {
  // Before `done` can be seen, so that who reacts to it finds the model: listings forget what they knew.
  std::function<void(catalog::Backend, const std::string& id)> before_done = {};
  // After it; nothing that goes wrong here makes the install fail.
  std::function<void(catalog::Backend, const std::string& id)> installed = {};
};

class InstallJobs {
 public:
  InstallJobs(asio::any_io_executor loop, asio::any_io_executor pool, const Clock& clock, Entropy& entropy,
              JobHooks hooks = {});
  // Cancels what runs. The pool must be joined before anything that the work uses goes away.
  ~InstallJobs();
  InstallJobs(const InstallJobs&) = delete;
  InstallJobs& operator=(const InstallJobs&) = delete;

  // Joins the running job of that model, or starts one. Errors: those of join(), `too_many_installs`.
  // `file` as for join().
  Result<StartedJob> start(catalog::Backend backend, const std::string& id, JobWork work,
                           const std::string& file = {});
  // The job that a caller joins who wants that model, "" = none. `file` tells models apart that could get
  // the same id; "" = whatever has the id is meant. Errors: `install_in_progress`, it was cancelled but has
  // not ended; `model_exists`, it installs another file.
  Result<std::string> join(catalog::Backend backend, const std::string& id,
                           const std::string& file = {}) const;
  // The job that runs for a model, "" = none.
  std::string running(catalog::Backend backend, const std::string& id) const;

  std::optional<JobView> find(const std::string& job_id);
  // Events with a higher number, for watchers that remember where they are. A slow one misses progress, no
  // more.
  std::vector<JobEvent> events_after(const std::string& job_id, std::uint64_t number);
  // Calls `changed` after every new event until forgotten; 0 = there is no such job. It must not block; what
  // it throws is dropped.
  std::uint64_t watch(const std::string& job_id, std::function<void()> changed);
  void forget(const std::string& job_id, std::uint64_t watcher);

  // Whether one runs. It ends as soon as it notices, and at once when its work has not begun.
  bool cancel(catalog::Backend backend, const std::string& id);
  void cancel_all();  // in the same way
  std::vector<ActiveInstall> active() const;

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace gezel::models
