// Requests that wait: in which order, what they are told, and for how long.
#include <gmock/gmock.h>

#include "engine_llama/test_worker.h"

namespace gezel::engine_llama {
namespace {

using prompt::Lane;
using testing::HasSubstr;

class Waiting : public EngineTest {
 protected:
  // A ready worker of one slot whose intake is full: the next request waits in the daemon.
  void fill() {
    make_ready(1);
    for (int i = 0; i < 4; ++i) clients.push_back(ask());
    ids = worker().take_requests();
    ASSERT_EQ(ids.size(), 4U);
  }
  std::vector<std::uint64_t> after_one_ended() {
    worker().done(ids.front());
    ids.erase(ids.begin());
    settle();
    return worker().take_requests();
  }
  std::string message(const Client& client) const {
    const auto* failed = client.last<engine::Failed>();
    return failed ? failed->error.error.message : "";
  }

  std::vector<Client> clients;
};

TEST_F(Waiting, TheConversationThatRunsGoesBeforeOthersOfItsLane) {
  session = "app:chat";
  fill();
  session = "app:other";
  auto other = ask();
  session = "app:chat";
  auto same = ask();
  EXPECT_EQ(after_one_ended(), std::vector<std::uint64_t>{6});
}

TEST_F(Waiting, AmbientWorkLeavesAPlaceToOtherWork) {
  make_ready(1);
  for (int i = 0; i < 3; ++i) clients.push_back(ask());
  ids = worker().take_requests();
  terms.ambient = true;
  auto ambient = ask(Lane::background);
  EXPECT_TRUE(worker().take_requests().empty());
  EXPECT_EQ(after_one_ended(), std::vector<std::uint64_t>{4});
}

TEST_F(Waiting, Case32_APendingRequestThatIsCancelledNeverReachesTheEngine) {
  fill();
  auto client = ask();
  client.generation->cancel();
  settle();
  read(client);
  EXPECT_EQ(client.failure(), "aborted-while-queued");
  EXPECT_TRUE(worker().take().empty());
  EXPECT_TRUE(after_one_ended().empty());
}

TEST_F(Waiting, TheStatusHasBothLanes) {
  fill();
  worker().prefill(ids[0], 0, 12);
  settle();
  auto background = ask(Lane::background);
  const auto lanes = engine->status().lanes;
  EXPECT_EQ(lanes[0].running, 1);
  EXPECT_EQ(lanes[0].queued, 3);
  EXPECT_EQ(lanes[1].running, 0);
  EXPECT_EQ(lanes[1].queued, 1);
}

TEST_F(Waiting, ARequestThatWaitedAsLongAsItMayIsToldItsPlaceAndWhatToDo) {
  fill();
  auto first = ask();
  terms.wait_limit = Millis(30'000);
  auto client = ask();
  advance_alive(Millis(28'000));
  read(client);
  EXPECT_EQ(client.failure(), "");
  advance_alive(Millis(2'000));
  read(client);
  EXPECT_EQ(client.failure(), "engine-busy");
  EXPECT_THAT(message(client), HasSubstr("waited 30 s"));
  EXPECT_THAT(message(client), HasSubstr("5 ahead"));
  EXPECT_THAT(message(client), HasSubstr("X-Gezel-Queue-Timeout"));
  read(first);
  EXPECT_EQ(first.failure(), "") << "it waits for ten minutes";
  EXPECT_EQ(after_one_ended(), std::vector<std::uint64_t>{5});
}

TEST_F(Waiting, InteractiveRequestsWaitTenMinutesAndOthersLonger) {
  fill();
  auto interactive = ask();
  auto background = ask(Lane::background);
  for (int i = 0; i < 4; ++i) worker().prefill(ids[static_cast<std::size_t>(i)], 1, 100);
  settle();
  advance_alive(kInteractiveWait - Millis(2'000), 1);
  read(interactive);
  EXPECT_EQ(interactive.failure(), "");
  advance_alive(Millis(2'000), 2);
  read(interactive);
  read(background);
  EXPECT_EQ(interactive.failure(), "engine-busy");
  EXPECT_EQ(background.failure(), "");
}

TEST_F(Waiting, AMachinesSleepCounts) {
  fill();
  auto client = ask();
  clock.set_wall(clock.wall_now() + kInteractiveWait);
  advance_alive(kDeadlineTick);
  read(client);
  EXPECT_EQ(client.failure(), "engine-busy");
}

TEST_F(Waiting, AClockThatIsSetBackTakesNothingAway) {
  fill();
  terms.wait_limit = Millis(10'000);
  auto client = ask();
  clock.set_wall(clock.wall_now() - std::chrono::hours(1));
  advance_alive(Millis(10'000));
  read(client);
  EXPECT_EQ(client.failure(), "engine-busy");
}

TEST_F(Waiting, ALoadIsNotAbandonedBecauseOfIt) {
  make();
  terms.wait_limit = Millis(5'000);
  auto client = ask();
  worker().hello();
  settle();
  advance_alive(Millis(60'000));
  read(client);
  EXPECT_EQ(client.failure(), "");
  worker().ready(1);
  settle();
  EXPECT_EQ(worker().take_requests(), std::vector<std::uint64_t>{1});
}

using Asked = Run;  // whose own name is taken inside a fixture

// Without an engine: what waits before there is one.
class Desk : public testing::Test {
 protected:
  std::shared_ptr<Asked> ask() { return *desk.submit({}); }
  void pass(Millis time) { timers.advance(time); }
  static std::string reason(const Asked& run) {
    if (run.events.empty()) return "";
    const auto* progress = std::get_if<engine::Progress>(&run.events.back());
    return progress != nullptr ? progress->reason : "";
  }

  boost::asio::io_context io;
  ManualClock clock;
  engine::ManualTimers timers{clock};
  bool loading = false;
  RequestDesk desk{io.get_executor(),
                   clock,
                   timers,
                   {},
                   {.send = [](std::string) {},
                    .used = [] {},
                    .left = [] {},
                    .broken = [](std::string_view, std::string) {},
                    .loading = [this] { return loading; }}};
};

TEST_F(Desk, WhoComesLaterHearsTooWhatTheLoadWaitsFor) {
  const auto early = ask();
  desk.note_waiting(2, "waiting for a to finish, 2 ahead");
  EXPECT_EQ(reason(*early), "") << "not before it waits noticeably";
  pass(kNoticeAfter);
  EXPECT_EQ(reason(*early), "waiting for a to finish, 2 ahead");
  const auto late = ask();
  pass(kNoticeAfter);
  EXPECT_EQ(reason(*late), "waiting for a to finish, 2 ahead");
  desk.note_waiting(0, "waiting for b to finish");
  EXPECT_EQ(reason(*late), "waiting for b to finish");
}

TEST_F(Desk, ARequestWhoseLoadWaitedTooLongSaysForWhom) {
  const auto run = ask();
  desk.note_waiting(1, "waiting for a to finish, 1 ahead");
  pass(kInteractiveWait);
  const auto* failed = std::get_if<engine::Failed>(&run->events.back());
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->error.error.code, "engine-busy");
  EXPECT_THAT(failed->error.error.message, HasSubstr("waiting for a to finish, 1 ahead"));
  EXPECT_TRUE(desk.empty());
}

TEST_F(Desk, KnowsItsMostUrgentLane) {
  EXPECT_EQ(desk.lane(), std::nullopt);
  prompt::GenerateRequest request;
  request.lane = Lane::batch;
  const auto batch = desk.submit(request);
  EXPECT_EQ(desk.lane(), Lane::batch);
  desk.open(1);
  request.lane = Lane::background;
  const auto background = desk.submit(request);
  EXPECT_EQ(desk.lane(), Lane::background);
  desk.cancel(**background);
  EXPECT_EQ(desk.lane(), Lane::batch) << "what is cancelled is not wanted";
}

}  // namespace
}  // namespace gezel::engine_llama
