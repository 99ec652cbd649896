#include "models/install_jobs.h"

#include <gmock/gmock.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <future>
#include <latch>

#include "models/install_test_support.h"
#include "models/preflight.h"

namespace gezel::models {
namespace {

using catalog::Backend;
using downloads::testing::Reply;
using downloads::testing::serve;
using downloads::testing::serve_until;
using downloads::testing::ServedRequest;
using downloads::testing::TestServer;
using ::testing::ElementsAre;
using testing::Files;
using testing::plan_for;
using testing::tiny_model;
using Type = JobEvent::Type;

class Jobs : public ::testing::Test {
 protected:
  ~Jobs() override {
    jobs->cancel_all();
    pool.join();
  }

  // Lets the loop work until something is so.
  template <class Condition>
  void until(Condition condition) {
    while (!condition()) loop.run_one();
  }
  std::string start(JobWork work, const std::string& id = "m") {
    return jobs->start(Backend::llama_cpp, id, std::move(work)).value().job_id;
  }
  bool ended(const std::string& job) { return jobs->find(job)->status != JobStatus::running; }
  std::vector<Type> types(const std::string& job) {
    std::vector<Type> out;
    for (const auto& event : jobs->find(job)->events) out.push_back(event.type);
    return out;
  }

  asio::io_context loop;
  asio::executor_work_guard<asio::io_context::executor_type> guard{loop.get_executor()};
  asio::thread_pool pool{3};
  downloads::testing::SharedClock clock;
  SystemEntropy entropy;
  std::vector<std::string> order;
  std::unique_ptr<InstallJobs> jobs = std::make_unique<InstallJobs>(
      loop.get_executor(), pool.get_executor(), clock, entropy,
      JobHooks{.before_done = [this](Backend, const std::string& id) { order.push_back("before " + id); },
               .installed = [this](Backend, const std::string& id) { order.push_back("installed " + id); }});
};

TEST_F(Jobs, Case19TwoCallersShareOneJob) {
  std::promise<void> go;
  auto gate = go.get_future().share();
  std::atomic<int> runs = 0;
  const JobWork work = [&, gate](JobControl&) -> std::expected<Installed, InstallError> {
    ++runs;
    gate.wait();
    return Installed{};
  };
  const auto first = jobs->start(Backend::llama_cpp, "m", work).value();
  const auto second = jobs->start(Backend::llama_cpp, "m", work).value();
  EXPECT_FALSE(first.joined);
  EXPECT_TRUE(second.joined);
  EXPECT_EQ(first.job_id, second.job_id);
  const auto other = jobs->start(Backend::llama_cpp, "other", work).value();
  EXPECT_NE(other.job_id, first.job_id);
  EXPECT_EQ(jobs->active().size(), 2U);
  go.set_value();
  until([&] { return ended(first.job_id) && ended(other.job_id); });
  EXPECT_EQ(runs, 2);
}

TEST_F(Jobs, Case20ALateWatcherGetsWhatHappenedAndTheEnd) {
  const auto job = start([](JobControl& control) -> std::expected<Installed, InstallError> {
    control.progress({50, 100, false});
    control.verifying("m.gguf");
    control.extracting_metadata();
    return Installed{"a warning"};
  });
  until([&] { return ended(job); });
  EXPECT_THAT(types(job),
              ElementsAre(Type::progress, Type::verifying, Type::extracting_metadata, Type::done));
  const auto events = jobs->events_after(job, 2);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events.back().warning, "a warning");
  EXPECT_TRUE(events.back().is_terminal());
}

TEST_F(Jobs, Case21AJobGoesOnWithoutWatchers) {
  std::promise<void> go;
  auto gate = go.get_future().share();
  const auto job = start([gate](JobControl& control) -> std::expected<Installed, InstallError> {
    control.progress({50, 100, true});
    gate.wait();
    return Installed{};
  });
  const auto watcher = jobs->watch(job, [] {});
  until([&] { return !jobs->find(job)->events.empty(); });
  jobs->forget(job, watcher);
  EXPECT_EQ(jobs->find(job)->status, JobStatus::running);
  EXPECT_EQ(jobs->find(job)->events.back().bytes_written, 50U);
  go.set_value();
  until([&] { return ended(job); });
}

TEST_F(Jobs, Case22AFinishedJobIsForgottenAfterTenMinutes) {
  const auto job = start([](JobControl&) -> std::expected<Installed, InstallError> { return Installed{}; });
  until([&] { return ended(job); });
  clock.advance(Millis(9 * 60'000));
  EXPECT_TRUE(jobs->find(job));
  clock.advance(Millis(2 * 60'000));
  EXPECT_FALSE(jobs->find(job));
  EXPECT_EQ(jobs->watch(job, [] {}), 0U);
}

TEST_F(Jobs, ListingsForgetBeforeDoneIsSeen) {
  const auto job = start([](JobControl&) -> std::expected<Installed, InstallError> { return Installed{}; });
  jobs->watch(job,
              [&] { order.push_back(jobs->find(job)->status == JobStatus::done ? "seen done" : "seen"); });
  until([&] { return order.size() == 3; });
  EXPECT_THAT(order, ElementsAre("before m", "seen done", "installed m"));
}

TEST_F(Jobs, AWorkerThatThrowsEndsWithAnError) {
  const auto job =
      start([](JobControl&) -> std::expected<Installed, InstallError> { throw std::runtime_error("oops"); });
  until([&] { return ended(job); });
  const auto view = *jobs->find(job);
  EXPECT_EQ(view.events.back().error.code, "ensure_failed");
  EXPECT_TRUE(order.empty());
}

TEST_F(Jobs, AfterAFailureTheNextCallStartsANewJob) {
  const JobWork failing = [](JobControl&) -> std::expected<Installed, InstallError> {
    return std::unexpected(InstallError{{ErrorKind::io, "x", "y", {}}, {}});
  };
  const auto first = start(failing);
  until([&] { return ended(first); });
  EXPECT_NE(start(failing), first);
}

TEST_F(Jobs, AWatcherThatThrowsStopsNobody) {
  const auto job = start([](JobControl&) -> std::expected<Installed, InstallError> { return Installed{}; });
  jobs->watch(job, [] { throw std::runtime_error("oops"); });
  int seen = 0;
  jobs->watch(job, [&] { ++seen; });
  until([&] { return ended(job); });
  EXPECT_EQ(seen, 1);
}

TEST_F(Jobs, ProgressIsSentEveryQuarterOfASecondAndAtTheEndOfAFile) {
  const auto job = start([&](JobControl& control) -> std::expected<Installed, InstallError> {
    for (Bytes i = 1; i <= 100; ++i) {
      control.progress({i, 100, i == 50});
      clock.advance(Millis(10));
    }
    return Installed{};
  });
  until([&] { return ended(job); });
  std::vector<Bytes> sent;
  for (const auto& event : jobs->find(job)->events) {
    if (event.type == Type::progress) sent.push_back(event.bytes_written);
  }
  EXPECT_THAT(sent, ElementsAre(1, 26, 50, 75, 100));
}

TEST_F(Jobs, TooManyAtOnceAreRefused) {
  std::promise<void> go;
  auto gate = go.get_future().share();
  const JobWork work = [gate](JobControl&) -> std::expected<Installed, InstallError> {
    gate.wait();
    return Installed{};
  };
  for (std::size_t i = 0; i < kMaxRunningJobs; ++i) start(work, fmt::format("m{}", i));
  EXPECT_EQ(jobs->start(Backend::llama_cpp, "more", work).error().code, "too_many_installs");
  EXPECT_TRUE(jobs->start(Backend::llama_cpp, "m0", work)->joined);
  go.set_value();
}

TEST_F(Jobs, AQueuedJobCanBeCancelled) {
  std::promise<void> go;
  auto gate = go.get_future().share();
  std::atomic<int> runs = 0;
  const JobWork work = [&, gate](JobControl&) -> std::expected<Installed, InstallError> {
    ++runs;
    gate.wait();
    return Installed{};
  };
  for (const char* id : {"a", "b", "c"}) start(work, id);
  while (runs < 3) std::this_thread::yield();
  const auto queued = start(work, "queued");
  EXPECT_TRUE(jobs->cancel(Backend::llama_cpp, "queued"));
  EXPECT_TRUE(ended(queued)) << "though no thread is free";
  const auto events = jobs->find(queued)->events;
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].error.code, "cancelled");
  EXPECT_FALSE(jobs->cancel(Backend::llama_cpp, "queued"));
  const auto again = start(work, "queued");
  EXPECT_NE(again, queued);
  go.set_value();
  until([&] { return ended(again); });
  EXPECT_EQ(runs, 4) << "the work of a job that ended is not done";
  EXPECT_EQ(jobs->find(queued)->events.size(), 1U);
}

TEST_F(Jobs, QueuedJobsEndAtOnceWhenAllAreCancelled) {
  std::promise<void> go;
  auto gate = go.get_future().share();
  std::atomic<int> runs = 0;
  const JobWork work = [&, gate](JobControl&) -> std::expected<Installed, InstallError> {
    ++runs;
    gate.wait();
    return Installed{};
  };
  std::vector<std::string> running, queued;
  for (const char* id : {"a", "b", "c"}) running.push_back(start(work, id));
  while (runs < 3) std::this_thread::yield();
  for (const char* id : {"d", "e"}) queued.push_back(start(work, id));
  // A watcher may ask for the jobs while they end.
  std::size_t seen = 0;
  jobs->watch(queued[0], [&] { seen = jobs->active().size(); });
  jobs->cancel_all();
  for (const auto& job : queued) {
    EXPECT_TRUE(ended(job)) << "though no thread is free";
    EXPECT_EQ(jobs->find(job)->events.back().error.code, "cancelled");
  }
  EXPECT_GE(seen, 3U);
  for (const auto& job : running) EXPECT_FALSE(ended(job)) << "its worker says when";
  go.set_value();
  until([&] { return std::ranges::all_of(running, [&](const auto& job) { return ended(job); }); });
  EXPECT_EQ(runs, 3);
}

TEST_F(Jobs, AJobThatIsBeingCancelledIsNotJoined) {
  std::promise<void> go;
  auto gate = go.get_future().share();
  std::atomic<bool> runs = false;
  const JobWork work = [&, gate](JobControl&) -> std::expected<Installed, InstallError> {
    runs = true;
    gate.wait();
    return Installed{};
  };
  const auto job = start(work);
  while (!runs) std::this_thread::yield();
  EXPECT_EQ(jobs->join(Backend::llama_cpp, "m").value(), job);
  EXPECT_EQ(jobs->join(Backend::llama_cpp, "other").value(), "");
  ASSERT_TRUE(jobs->cancel(Backend::llama_cpp, "m"));
  EXPECT_EQ(jobs->start(Backend::llama_cpp, "m", work).error().code, "install_in_progress");
  EXPECT_EQ(jobs->join(Backend::llama_cpp, "m").error().code, "install_in_progress");
  EXPECT_EQ(jobs->join(Backend::llama_cpp, "m").error().kind, ErrorKind::conflict);
  EXPECT_EQ(jobs->running(Backend::llama_cpp, "m"), job);
  go.set_value();
  until([&] { return ended(job); });
  EXPECT_NE(start(work), job);
}

TEST_F(Jobs, OnlyAJobForTheSameFileIsJoined) {
  std::promise<void> go;
  auto gate = go.get_future().share();
  const JobWork work = [gate](JobControl&) -> std::expected<Installed, InstallError> {
    gate.wait();
    return Installed{};
  };
  const auto job = jobs->start(Backend::llama_cpp, "m", work, "org/a/m.gguf").value();
  EXPECT_EQ(jobs->start(Backend::llama_cpp, "m", work, "org/a/m.gguf")->job_id, job.job_id);
  EXPECT_EQ(jobs->start(Backend::llama_cpp, "m", work, "org/b/m.gguf").error().code, "model_exists");
  EXPECT_EQ(jobs->join(Backend::llama_cpp, "m", "org/b/m.gguf").error().kind, ErrorKind::conflict);
  EXPECT_EQ(jobs->join(Backend::llama_cpp, "m").value(), job.job_id) << "whatever it is by that id";
  go.set_value();
}

TEST_F(Jobs, WhatIsToldNamesNoFolders) {
  const auto job = start([](JobControl& control) -> std::expected<Installed, InstallError> {
    downloads::Retry retry;
    retry.reason = {ErrorKind::unavailable, "dropped", "read /home/u/My Models/m.gguf.partial: no", {}};
    control.retrying("m.gguf", retry);
    return std::unexpected(
        InstallError{{ErrorKind::io, "io_error", "rename /home/A User/.gezel/a b/m.gguf: full", {}}, {}});
  });
  until([&] { return ended(job); });
  const auto events = jobs->find(job)->events;
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].reason, "The download of m.gguf stopped: read m.gguf.partial: no.");
  EXPECT_EQ(events[1].error.message, "rename m.gguf: full");
}

TEST_F(Jobs, AnInstallCanBeCancelledAndGoneOnWith) {
  TestFolder home;
  testing::CountingEntropy counting;
  ModelStore store(home.path(), clock, counting);
  downloads::testing::FakeWaiter waiter(clock);
  downloads::CurlClient client({.user_agent = "test"}, clock);
  const downloads::Transfers transfers(client, waiter, entropy);
  const Files files{{"m.gguf", tiny_model("llama", 100'000)}};
  std::atomic<bool> good = false;
  TestServer server([&](const ServedRequest& request) {
    if (good) return serve(files.at("m.gguf"), request);
    Reply out = serve_until(files.at("m.gguf"), request, 100'000);
    out.after_body = [] {};
    return out;
  });
  const auto plan = plan_for(files, server.url(""), "m");
  const JobWork work = install_work(store, transfers, clock, plan, {});
  const auto job = start(work);
  // Progress between two reports reaches only the counters.
  while (jobs->active().at(0).bytes_written == 0) std::this_thread::yield();
  EXPECT_TRUE(jobs->cancel(Backend::llama_cpp, "m"));
  until([&] { return ended(job); });
  EXPECT_EQ(jobs->find(job)->events.back().error.code, "cancelled");
  EXPECT_FALSE(jobs->cancel(Backend::llama_cpp, "m"));
  good = true;
  const auto again = start(work);
  until([&] { return ended(again); });
  EXPECT_EQ(jobs->find(again)->status, JobStatus::done);
  EXPECT_GT(server.requests().back().from.value_or(0), 0U);
  EXPECT_TRUE(store.find("m"));
}

TEST_F(Jobs, OfTwoInstallsThatStartTogetherOnlyOneGetsTheRoomThatIsThereOnce) {
  TestFolder home;
  testing::CountingEntropy counting;
  ModelStore store(home.path(), clock, counting);
  downloads::testing::FakeWaiter waiter(clock);
  testing::MemoryClient client;
  const downloads::Transfers transfers(client, waiter, entropy);
  // Whoever measures the disk waits for the other one to have come as far.
  std::latch both(2);
  store.set_free_space_probe([&](const fs::path&) {
    both.arrive_and_wait();
    return std::optional<Bytes>(kGiB + required_bytes(0));
  });
  const auto plan = [&](const std::string& id) {
    auto out = plan_for({{id + ".gguf", "x"}}, "http://127.0.0.1:1", id);
    out.files[0].size_bytes = kGiB;
    return out;
  };
  std::vector<std::string> started;
  for (const char* id : {"a", "b"})
    started.push_back(start(install_work(store, transfers, clock, plan(id), {}), id));
  until([&] { return ended(started[0]) && ended(started[1]); });
  std::vector<std::string> codes;
  for (const auto& job : started) codes.push_back(jobs->find(job)->events.back().error.code);
  std::ranges::sort(codes);
  EXPECT_THAT(codes, ElementsAre("file_not_on_host", "insufficient_disk"));
}

TEST(EventBuffer, OldProgressGoesFirst) {
  EventBuffer buffer;
  const auto push = [&](Type type) {
    JobEvent event;
    event.type = type;
    buffer.push(std::move(event));
  };
  push(Type::verifying);
  for (int i = 0; i < 200; ++i) push(Type::progress);
  EXPECT_EQ(buffer.events().size(), kMaxEvents);
  EXPECT_EQ(buffer.events().front().type, Type::verifying);
  EXPECT_EQ(buffer.events().back().number, 201U);
  for (int i = 0; i < 200; ++i) push(Type::retrying);
  push(Type::done);
  EXPECT_EQ(buffer.events().size(), kMaxEvents);
  EXPECT_EQ(buffer.events().back().type, Type::done);
  EXPECT_EQ(buffer.after(401).size(), 1U);
}

TEST(EventJson, SaysWhatTheSpecificationNames) {
  JobEvent event;
  event.bytes_written = 5;
  event.total_bytes = 10;
  EXPECT_EQ(to_json(event_json(event, "j", "llama-cpp:m")),
            R"({"type":"progress","jobId":"j","modelId":"llama-cpp:m","bytesWritten":5,"bytesWrittenAll":5,)"
            R"("totalBytes":10,"totalBytesAll":10})");
  event.type = Type::error;
  event.error = {ErrorKind::corrupt, "hash_mismatch", "It differs.", {}};
  event.mismatch = Mismatch{"f", "a", "b"};
  EXPECT_EQ(to_json(event_json(event, "j", "x:m")),
            R"({"type":"error","jobId":"j","modelId":"x:m","error":"It differs.","code":"hash_mismatch",)"
            R"("mismatch":{"file":"f","expected":"a","actual":"b"}})");
}

}  // namespace
}  // namespace gezel::models
