// The registry lives on the event loop; a job's worker reaches it by posting. Workers may outlive the
// registry by the time that a cancelled transfer takes to notice, so both sides share the state, and the
// worker holds it weakly.

#include "models/install_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/post.hpp>
#include <map>
#include <utility>

#include "base/log.h"
#include "base/public_text.h"

namespace gezel::models {
namespace {

// What both sides read and write.
struct Counters {
  std::atomic<Bytes> written = 0, total = 0;
  // By the worker that does the work, or by who ends a job that no worker has begun yet.
  std::atomic<bool> claimed = false;
};

struct Job {
  std::string job_id, model_id, id, file;
  catalog::Backend backend = catalog::Backend::llama_cpp;
  JobStatus status = JobStatus::running;
  JobPhase phase = JobPhase::downloading;
  std::int64_t started_at_ms = 0;
  MonotonicTime finished_at{};
  EventBuffer events;
  std::map<std::uint64_t, std::function<void()>> watchers;
  std::shared_ptr<Counters> counters = std::make_shared<Counters>();
  std::shared_ptr<downloads::Cancellation> cancellation = std::make_shared<downloads::Cancellation>();
};

void call_quietly(const std::function<void()>& callback, std::string_view what) {
  if (!callback) return;
  try {
    callback();
  } catch (const std::exception& error) {
    log_warn("a callback of an install failed", {{"which", std::string(what)}, {"error", error.what()}});
  }
}

// The log gets the whole text of what went wrong; watchers are network clients, whom folders of this machine
// do not concern.
void make_public(JobEvent& event, const std::string& model_id) {
  if (event.type == JobEvent::Type::retrying) {
    log_info("a download is tried again", {{"model", model_id}, {"reason", event.reason}});
    event.reason = without_folders(event.reason);
  }
  if (event.type == JobEvent::Type::error) {
    if (event.error.kind != ErrorKind::cancelled)
      log_warn("an install ended with an error",
               {{"model", model_id}, {"code", event.error.code}, {"error", event.error.message}});
    event.error.message = without_folders(event.error.message);
  }
}

JobEvent ended(std::expected<Installed, InstallError> result) {
  JobEvent out;
  if (result) {
    out.type = JobEvent::Type::done;
    out.warning = std::move(result->warning);
  } else {
    out.type = JobEvent::Type::error;
    out.error = std::move(result.error().error);
    out.mismatch = std::move(result.error().mismatch);
  }
  return out;
}

}  // namespace

std::string_view to_string(JobStatus status) {
  switch (status) {
    case JobStatus::running:
      return "running";
    case JobStatus::done:
      return "done";
    case JobStatus::error:
      return "error";
  }
  return {};
}

std::string_view to_string(JobPhase phase) {
  switch (phase) {
    case JobPhase::downloading:
      return "downloading";
    case JobPhase::verifying:
      return "verifying";
    case JobPhase::extracting_metadata:
      return "extracting-metadata";
  }
  return {};
}

class InstallJobs::State : public std::enable_shared_from_this<State> {
 public:
  State(asio::any_io_executor loop_executor, asio::any_io_executor pool_executor, const Clock& job_clock,
        Entropy& job_entropy, JobHooks job_hooks)
      : loop(std::move(loop_executor)),
        pool(std::move(pool_executor)),
        clock(job_clock),
        entropy(job_entropy),
        hooks(std::move(job_hooks)) {}

  Job* find(const std::string& job_id) {
    purge();
    const auto found = jobs.find(job_id);
    return found == jobs.end() ? nullptr : &found->second;
  }

  Job* running(catalog::Backend backend, std::string_view id) {
    for (auto& [job_id, job] : jobs) {
      if (job.status == JobStatus::running && job.backend == backend && job.id == id) return &job;
    }
    return nullptr;
  }

  void purge() {
    std::erase_if(jobs, [&](const auto& entry) {
      return entry.second.status != JobStatus::running &&
             clock.now() - entry.second.finished_at > kKeepFinished;
    });
    while (jobs.size() > kMaxFinishedJobs + kMaxRunningJobs) {
      auto oldest = jobs.end();
      for (auto it = jobs.begin(); it != jobs.end(); ++it) {
        if (it->second.status != JobStatus::running &&
            (oldest == jobs.end() || it->second.finished_at < oldest->second.finished_at))
          oldest = it;
      }
      if (oldest == jobs.end()) return;
      jobs.erase(oldest);
    }
  }

  void take(const std::string& job_id, JobEvent event) {
    const auto found = jobs.find(job_id);
    // Nothing comes after the end.
    if (found == jobs.end() || found->second.status != JobStatus::running) return;
    Job& job = found->second;
    make_public(event, job.model_id);
    if (event.type == JobEvent::Type::verifying) job.phase = JobPhase::verifying;
    if (event.type == JobEvent::Type::progress) job.phase = JobPhase::downloading;
    if (event.type == JobEvent::Type::extracting_metadata) job.phase = JobPhase::extracting_metadata;
    const bool done = event.type == JobEvent::Type::done;
    const catalog::Backend backend = job.backend;
    const std::string id = job.id;
    if (event.is_terminal()) {
      if (done && hooks.before_done) call_quietly([&] { hooks.before_done(backend, id); }, "before_done");
      job.status = done ? JobStatus::done : JobStatus::error;
      job.finished_at = clock.now();
    }
    job.events.push(std::move(event));
    // A watcher may forget itself, or ask for this job, while it is called.
    const auto watchers = job.watchers;
    for (const auto& [number, watcher] : watchers) call_quietly(watcher, "watcher");
    if (done && hooks.installed) call_quietly([&] { hooks.installed(backend, id); }, "installed");
  }

  void cancel(const std::string& job_id) {
    const auto found = jobs.find(job_id);
    if (found == jobs.end() || found->second.status != JobStatus::running) return;
    found->second.cancellation->cancel();
    // While it waits for a thread nobody else would notice.
    if (!found->second.counters->claimed.exchange(true))
      take(job_id, ended(std::unexpected(InstallError{cancelled_install(), {}})));
  }

  asio::any_io_executor loop, pool;
  const Clock& clock;
  Entropy& entropy;
  JobHooks hooks;
  std::map<std::string, Job> jobs;
  std::uint64_t next_watcher = 1;
};

namespace {

// Posts what the worker reports to the loop; progress at most every kProgressEvery, so that neither the queue
// of the loop nor anybody behind it fills up.
template <class State>
class Control final : public JobControl {
 public:
  Control(const std::shared_ptr<State>& state, const Job& job)
      : state_(state),
        loop_(state->loop),
        clock_(state->clock),
        own_(job.counters),
        cancellation_(job.cancellation),
        job_id_(job.job_id) {}

  const downloads::Cancellation& cancellation() const override { return *cancellation_; }

  void progress(const InstallProgressReport& report) override {
    own_->written = report.bytes_written;
    own_->total = report.total_bytes;
    const auto now = clock_.now();
    if (!report.file_done && sent_ && now - *sent_ < kProgressEvery) return;
    sent_ = now;
    JobEvent event;
    event.bytes_written = report.bytes_written;
    event.total_bytes = report.total_bytes;
    post(std::move(event));
  }
  void retrying(const std::string& file, const downloads::Retry& retry) override {
    JobEvent event;
    event.type = JobEvent::Type::retrying;
    event.file = file;
    event.attempt = retry.attempt;
    event.most_attempts = retry.most_attempts;
    event.delay = retry.delay;
    event.reason = fmt::format("The download of {} stopped: {}.", file, retry.reason.message);
    post(std::move(event));
  }
  void verifying(const std::string& file) override {
    JobEvent event;
    event.type = JobEvent::Type::verifying;
    event.file = file;
    post(std::move(event));
  }
  void extracting_metadata() override {
    JobEvent event;
    event.type = JobEvent::Type::extracting_metadata;
    post(std::move(event));
  }

  void run(const JobWork& work) {
    if (own_->claimed.exchange(true)) return;
    std::expected<Installed, InstallError> result = std::unexpected(
        InstallError{{ErrorKind::internal, "ensure_failed", "the install ended without saying why", {}}, {}});
    try {
      result = work(*this);
    } catch (const std::exception& error) {
      result = std::unexpected(InstallError{
          {ErrorKind::internal, "ensure_failed", fmt::format("the install failed: {}", error.what()), {}},
          {}});
    }
    post(ended(std::move(result)));
  }

 private:
  void post(JobEvent event) {
    asio::post(loop_, [weak = state_, id = job_id_, moved = std::move(event)]() mutable {
      if (const auto state = weak.lock()) state->take(id, std::move(moved));
    });
  }

  std::weak_ptr<State> state_;
  asio::any_io_executor loop_;
  const Clock& clock_;
  std::shared_ptr<Counters> own_;
  std::shared_ptr<downloads::Cancellation> cancellation_;
  std::string job_id_;
  std::optional<MonotonicTime> sent_;
};

}  // namespace

JobWork install_work(ModelStore& store, const downloads::Transfers& transfers, const Clock& clock,
                     InstallPlan plan, InstallOptions options) {
  return [&store, &transfers, &clock, plan = std::move(plan),
          options = std::move(options)](JobControl& control) {
    return install(store, transfers, clock, plan, options, control, control.cancellation());
  };
}

InstallJobs::InstallJobs(asio::any_io_executor loop, asio::any_io_executor pool, const Clock& clock,
                         Entropy& entropy, JobHooks hooks)
    : state_(std::make_shared<State>(std::move(loop), std::move(pool), clock, entropy, std::move(hooks))) {}

InstallJobs::~InstallJobs() {
  cancel_all();
}

Result<StartedJob> InstallJobs::start(catalog::Backend backend, const std::string& id, JobWork work,
                                      const std::string& file) {
  state_->purge();
  GEZEL_TRY(std::string joined, join(backend, id, file));
  if (!joined.empty()) return StartedJob{std::move(joined), true};
  const auto running = std::ranges::count_if(
      state_->jobs, [](const auto& entry) { return entry.second.status == JobStatus::running; });
  if (static_cast<std::size_t>(running) >= kMaxRunningJobs) {
    return fail(
        ErrorKind::unavailable, "too_many_installs",
        fmt::format("{} installs are under way, which is the most; wait for one or cancel one", running),
        "model");
  }
  Job job;
  job.job_id = new_uuid(state_->entropy);
  job.model_id = catalog::qualified_id(backend, id);
  job.id = id;
  job.file = file;
  job.backend = backend;
  job.started_at_ms = unix_millis(state_->clock.wall_now());
  auto control = std::make_shared<Control<State>>(state_, job);
  StartedJob out{job.job_id, false};
  state_->jobs.emplace(job.job_id, std::move(job));
  asio::post(state_->pool, [control, moved = std::move(work)] { control->run(moved); });
  return out;
}

Result<std::string> InstallJobs::join(catalog::Backend backend, const std::string& id,
                                      const std::string& file) const {
  const Job* job = state_->running(backend, id);
  if (job == nullptr) return std::string();
  if (!file.empty() && job->file != file) {
    return fail(
        ErrorKind::conflict, "model_exists",
        fmt::format("another model is being installed as \"{}\"; wait for it, and {} gets an id of its "
                    "own",
                    id, file),
        "model");
  }
  if (job->cancellation->cancelled()) {
    return fail(ErrorKind::conflict, "install_in_progress",
                fmt::format("the install of \"{}\" was cancelled and is about to end; try again then", id),
                "model");
  }
  return job->job_id;
}

std::string InstallJobs::running(catalog::Backend backend, const std::string& id) const {
  const Job* job = state_->running(backend, id);
  return job == nullptr ? std::string() : job->job_id;
}

std::optional<JobView> InstallJobs::find(const std::string& job_id) {
  const Job* job = state_->find(job_id);
  if (job == nullptr) return std::nullopt;
  return JobView{job->job_id,
                 job->model_id,
                 job->status,
                 job->started_at_ms,
                 {job->events.events().begin(), job->events.events().end()}};
}

std::vector<JobEvent> InstallJobs::events_after(const std::string& job_id, std::uint64_t number) {
  const Job* job = state_->find(job_id);
  return job == nullptr ? std::vector<JobEvent>() : job->events.after(number);
}

std::uint64_t InstallJobs::watch(const std::string& job_id, std::function<void()> changed) {
  Job* job = state_->find(job_id);
  if (job == nullptr) return 0;
  job->watchers.emplace(state_->next_watcher, std::move(changed));
  return state_->next_watcher++;
}

void InstallJobs::forget(const std::string& job_id, std::uint64_t watcher) {
  if (const auto found = state_->jobs.find(job_id); found != state_->jobs.end())
    found->second.watchers.erase(watcher);
}

bool InstallJobs::cancel(catalog::Backend backend, const std::string& id) {
  const Job* job = state_->running(backend, id);
  if (job == nullptr) return false;
  state_->cancel(job->job_id);
  return true;
}

void InstallJobs::cancel_all() {
  // Watchers are told, and may ask for jobs: then the list changes.
  std::vector<std::string> running;
  for (const auto& [job_id, job] : state_->jobs) {
    if (job.status == JobStatus::running) running.push_back(job_id);
  }
  for (const auto& job_id : running) state_->cancel(job_id);
}

std::vector<ActiveInstall> InstallJobs::active() const {
  std::vector<ActiveInstall> out;
  for (const auto& [job_id, job] : state_->jobs) {
    if (job.status == JobStatus::running)
      out.push_back({job.backend, job.id, job.job_id, job.counters->written, job.counters->total, job.phase,
                     job.started_at_ms});
  }
  return out;
}

}  // namespace gezel::models
