// Requests on a worker that runs: order, events, backpressure, cancelling, silence.
#include <cerrno>
#include <limits>

#include "engine_llama/test_worker.h"

namespace gezel::engine_llama {
namespace {

using Requests = EngineTest;
using engine::State;

TEST_F(Requests, EventsArriveInOrderAndEndOnce) {
  make_ready();
  auto client = ask();
  const auto id = worker().take_requests().at(0);
  worker().started(id);
  worker().prefill(id, 12, 12);
  worker().text(id, "Hel");
  settle();
  read(client);
  worker().text(id, "lo");
  worker().done(id);
  settle();
  read(client);
  ASSERT_EQ(client.events.size(), 5U);
  EXPECT_EQ(std::get<engine::Started>(client.events[0]).prompt_tokens, 12);
  EXPECT_EQ(std::get<engine::Progress>(client.events[1]).stage, engine::Progress::Stage::prefill);
  EXPECT_EQ(client.text(), "Hello");
  EXPECT_EQ(std::get<engine::Done>(client.events[4]).usage.completion_tokens, 3);
  read(client);
  EXPECT_EQ(client.failure(), "cancelled");
  EXPECT_FALSE(engine->busy());
}

TEST_F(Requests, TheGateLetsFourTimesTheSlotsIn) {
  make_ready(2);
  std::vector<Client> clients;
  for (int i = 0; i < 10; ++i) clients.push_back(ask());
  const auto ids = worker().take_requests();
  ASSERT_EQ(ids.size(), 8U);
  worker().done(ids[3]);
  settle();
  EXPECT_EQ(worker().take_requests().size(), 1U);
}

TEST_F(Requests, EveryRequestThatIsInNoSlotYetCountsAsQueued) {
  make_ready(1);
  std::vector<Client> clients;
  for (int i = 0; i < 5; ++i) clients.push_back(ask());
  const auto ids = worker().take_requests();
  ASSERT_EQ(ids.size(), 4U);
  EXPECT_EQ(engine->status().queued, 5) << "four in the worker's intake, one here";
  EXPECT_EQ(engine->status().slots_busy, 0);
  worker().started(ids[0]);
  worker().started(ids[1]);
  worker().prefill(ids[0], 0, 12);
  settle();
  EXPECT_EQ(engine->status().queued, 4) << "one of them waits in the worker for the slot";
  EXPECT_EQ(engine->status().slots_busy, 1);
  EXPECT_EQ(engine->status().idle_ms, 0);
}

TEST_F(Requests, WaitingRequestsLearnTheirPlaceAfter200Ms) {
  make_ready(1);
  std::vector<Client> clients;
  for (int i = 0; i < 6; ++i) clients.push_back(ask());
  const auto ids = worker().take_requests();
  read(clients[5]);
  EXPECT_TRUE(clients[5].events.empty());
  advance(Millis(200));
  read(clients[5]);
  ASSERT_TRUE(clients[5].last<engine::Progress>());
  EXPECT_EQ(clients[5].last<engine::Progress>()->ahead, 5);
  worker().done(ids[0]);
  settle();
  read(clients[5]);
  EXPECT_EQ(clients[5].last<engine::Progress>()->ahead, 4);
}

TEST_F(Requests, InteractiveWorkPassesBackgroundWork) {
  make_ready(1);
  std::vector<Client> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(ask());
  const auto running = worker().take_requests();
  auto background = ask(prompt::Lane::background);
  auto interactive = ask(prompt::Lane::interactive);
  worker().done(running[0]);
  settle();
  EXPECT_EQ(worker().take_requests(), std::vector<std::uint64_t>{6});
}

TEST_F(Requests, TheQueueIsBounded) {
  make_ready(1);
  std::vector<Client> clients;
  for (std::size_t i = 0; i < 4 + engine::RequestQueue::kMaxWaiting; ++i) clients.push_back(ask());
  EXPECT_FALSE(refused);
  ask();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->error.code, "engine-busy");
  EXPECT_EQ(refused->retry, engine::Retry::after);
}

TEST_F(Requests, ABiasForATokenThatDoesNotExistIsRefused) {
  make_ready(1);
  auto last = ask(prompt::Lane::interactive, 999);
  EXPECT_FALSE(refused);
  ask(prompt::Lane::interactive, 1'000);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->error.code, "invalid-request");
  EXPECT_EQ(refused->http_hint, 400);
  EXPECT_EQ(refused->error.param, "logit_bias.1000");
  EXPECT_NE(refused->error.message.find("no token 1000; its vocabulary has 1000 tokens"), std::string::npos);
}

TEST_F(Requests, ABiasThatCameBeforeTheModelIsCheckedWhenItIsLoaded) {
  make();
  auto wrong = ask(prompt::Lane::interactive, 1'000);
  auto right = ask(prompt::Lane::interactive, 999);
  become_ready(1);
  read(wrong);
  EXPECT_EQ(wrong.failure(), "invalid-request");
  EXPECT_EQ(ids, std::vector<std::uint64_t>{2}) << "only the other one reached the worker";
}

TEST_F(Requests, ASlowClientPausesItsOwnRunOnly) {
  make_ready(2);
  auto slow = ask();
  auto fast = ask();
  const auto ids = worker().take_requests();
  const std::string chunk(32 * kKiB, 'x');
  for (int i = 0; i < 9; ++i) {
    worker().text(ids[0], chunk);
    worker().text(ids[1], "y");
    settle();
    read(fast);
  }
  auto frames = worker().take();
  ASSERT_EQ(frames.size(), 1U);
  auto control = protocol::parse_control(frames[0].body);
  ASSERT_TRUE(control);
  EXPECT_EQ(control->action, "pause");
  EXPECT_EQ(control->id, ids[0]);
  read(slow);
  EXPECT_EQ(slow.text().size(), 9 * chunk.size());
  frames = worker().take();
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(protocol::parse_control(frames[0].body)->action, "resume");
  EXPECT_EQ(fast.text(), "yyyyyyyyy");
}

TEST_F(Requests, AWorkerThatIgnoresThePauseIsEnded) {
  make_ready(1);
  auto client = ask();
  const auto id = worker().take_requests().at(0);
  const std::string chunk(128 * kKiB, 'x');
  for (int i = 0; i < 200 && !worker().ended; ++i) {
    worker().text(id, chunk);
    settle();
  }
  EXPECT_TRUE(worker().ended);
  read(client);
  EXPECT_EQ(client.failure(), "engine-crashed");
}

TEST_F(Requests, CancellingFreesTheGateOnlyAtTheWorkersLastFrame) {
  make_ready(1);
  std::vector<Client> clients;
  for (int i = 0; i < 5; ++i) clients.push_back(ask());
  const auto ids = worker().take_requests();
  clients[0].generation->cancel();
  settle();
  read(clients[0]);
  EXPECT_EQ(clients[0].failure(), "cancelled");
  auto frames = worker().take();
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(protocol::parse_cancel(frames[0].body).value(), ids[0]);
  EXPECT_TRUE(worker().take_requests().empty());
  worker().failed(ids[0], "cancelled", "cancelled");
  settle();
  EXPECT_EQ(worker().take_requests().size(), 1U);
}

TEST_F(Requests, DestroyingTheGenerationCancels) {
  make_ready(1);
  auto client = ask();
  worker().take();
  client.generation.reset();
  settle();
  const auto frames = worker().take();
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(frames[0].type, protocol::FrameType::cancel);
}

TEST_F(Requests, AWaitingRequestIsCancelledWithoutTheWorker) {
  make_ready(1);
  std::vector<Client> clients;
  for (int i = 0; i < 5; ++i) clients.push_back(ask());
  worker().take();
  clients[4].generation->cancel();
  settle();
  read(clients[4]);
  EXPECT_EQ(clients[4].failure(), "aborted-while-queued");
  EXPECT_TRUE(worker().take().empty());
}

TEST_F(Requests, AnErrorOfTheWorkerKeepsItsNumbers) {
  make_ready(1);
  auto client = ask();
  protocol::Failed failed;
  failed.id = worker().take_requests().at(0);
  failed.code = "context-overflow";
  failed.message = "too long";
  failed.prompt_tokens = 3000;
  failed.context_tokens = 2048;
  worker().say(protocol::encode(failed));
  settle();
  read(client);
  const auto& error = client.last<engine::Failed>()->error;
  EXPECT_EQ(error.http_hint, 400);
  EXPECT_EQ(error.prompt_tokens, 3000);
  EXPECT_EQ(error.context_tokens, 2048);
}

TEST_F(Requests, SilenceBeforeTheFirstTextFailsTheTurnAndCancelsIt) {
  make_ready(1);
  auto client = ask();
  const auto id = worker().take_requests().at(0);
  worker().started(id);
  worker().prefill(id, 6, 12);
  settle();
  advance_alive(Millis(599'000), 1);
  read(client);
  EXPECT_FALSE(client.last<engine::Failed>());
  advance_alive(Millis(1'000), 1);
  read(client);
  EXPECT_EQ(client.failure(), "idle-before-first-byte");
  EXPECT_NE(client.last<engine::Failed>()->error.error.message.find("6 of 12"), std::string::npos);
  bool cancelled = false;
  for (const auto& frame : worker().take()) cancelled |= frame.type == protocol::FrameType::cancel;
  EXPECT_TRUE(cancelled);
}

TEST_F(Requests, AbsurdNumbersOfThePromptAreClamped) {
  make_ready();
  auto client = ask();
  const auto ids_now = worker().take_requests();
  ASSERT_EQ(ids_now.size(), 1U);
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  worker().started(ids_now[0]);
  worker().prefill(ids_now[0], kMost, 2);
  settle();
  advance_alive(Millis(600'000), 1);
  read(client);
  ASSERT_EQ(client.failure(), "idle-before-first-byte");
  EXPECT_NE(client.last<engine::Failed>()->error.error.message.find("(100 %)"), std::string::npos);
}

TEST_F(Requests, SilenceAfterTextEndsTheTurnWithWhatIsThere) {
  make_ready(1);
  auto client = ask();
  const auto id = worker().take_requests().at(0);
  worker().started(id);
  worker().text(id, "half");
  settle();
  advance_alive(Millis(300'000));
  read(client);
  ASSERT_TRUE(client.last<engine::Done>());
  EXPECT_EQ(client.text(), "half");
  EXPECT_EQ(client.last<engine::Done>()->warnings.size(), 1U);
}

TEST_F(Requests, SilenceInAnAnswerOfAGivenFormIsAnErrorBecauseHalfOfItIsNotOfThatForm) {
  make_ready(1);
  auto client = ask(prompt::Lane::interactive, {}, prompt::OutputFormat::Kind::json_schema);
  const auto id = worker().take_requests().at(0);
  worker().started(id);
  worker().text(id, "{\"half");
  settle();
  advance_alive(Millis(300'000));
  read(client);
  EXPECT_EQ(client.failure(), "idle-mid-stream");
  const auto& error = client.last<engine::Failed>()->error;
  EXPECT_NE(error.error.message.find("300 s after 6 characters"), std::string::npos);
}

TEST_F(Requests, AWorkerThatDecodesForOthersIsNotHung) {
  make_ready(1);
  auto client = ask();
  const auto id = worker().take_requests().at(0);
  worker().prefill(id, 6, 12);
  settle();
  advance_alive(Millis(599'000), 2);
  advance_alive(Millis(301'000), 2);
  read(client);
  EXPECT_FALSE(client.last<engine::Failed>());
}

TEST_F(Requests, ARequestThatWaitsInTheWorkerIsNotWatched) {
  make_ready(1);
  auto client = ask();
  const auto id = worker().take_requests().at(0);
  worker().started(id);
  settle();
  advance_alive(Millis(3'000'000));
  worker().say(protocol::encode(protocol::Progress{id, "queued", 3, 0, 0, 0}));
  settle();
  read(client);
  ASSERT_TRUE(client.last<engine::Progress>());
  EXPECT_EQ(client.last<engine::Progress>()->ahead, 3);
}

TEST_F(Requests, AnIntakeThatLetsNothingOutIsEndedAlthoughTheHeartbeatGoesOn) {
  make_ready(1);
  auto running = ask();
  auto stuck = ask();
  const auto ids = worker().take_requests();
  worker().started(ids[0]);
  worker().prefill(ids[0], 12, 12);
  worker().text(ids[0], "x");
  settle();
  for (std::uint64_t step = 1; step < 600; ++step) {
    advance_alive(Millis(1'000), step);  // decoding goes on as well
    worker().text(ids[0], "x");
    settle();
    read(running);
  }
  EXPECT_FALSE(worker().ended);
  advance_alive(Millis(1'000), 600);
  EXPECT_TRUE(worker().ended);
  EXPECT_EQ(string_or(incidents().at(0), "panicKind"), engine::kStuck);
}

TEST_F(Requests, AnIntakeThatWorksThroughAQueueIsNotStuck) {
  make_ready(1);
  std::vector<Client> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(ask());
  for (const auto id : worker().take_requests()) {
    advance_alive(Millis(500'000));
    worker().started(id);
    settle();
  }
  EXPECT_FALSE(worker().ended);
}

TEST_F(Requests, AWorkerThatKeepsACancelledRequestIsEnded) {
  make_ready(1);
  auto client = ask();
  worker().take();
  client.generation->cancel();
  settle();
  advance_alive(Millis(599'000));
  EXPECT_FALSE(worker().ended);
  advance(Millis(1'000));
  EXPECT_TRUE(worker().ended);
}

TEST_F(Requests, Case15_AnIdleModelIsUnloadedAndTheNextRequestLoadsItAgain) {
  make_ready(1);
  advance_alive(Millis(300'000));
  EXPECT_EQ(engine->status().state, State::ready);
  EXPECT_TRUE(engine->status().unload_at);
  advance(Millis(50));
  EXPECT_EQ(engine->status().state, State::stopping);
  worker().exit({0, 0});
  settle();
  EXPECT_EQ(engine->status().state, State::stopped);
  EXPECT_TRUE(incidents().empty());
  auto client = ask();
  become_ready();
  EXPECT_EQ(engine->status().generation, 2U);
}

TEST_F(Requests, ARunningRequestKeepsTheModel) {
  make_ready(1);
  auto client = ask();
  const auto id = worker().take_requests().at(0);
  worker().started(id);
  settle();
  advance_alive(Millis(900'000));
  EXPECT_EQ(engine->status().state, State::ready);
}

TEST_F(Requests, StatisticsAreTheWorkersOwn) {
  make_ready(1);
  std::optional<std::optional<std::string>> answer;
  asio::co_spawn(io, engine->worker_stats(), [&](const std::exception_ptr&, std::optional<std::string> text) {
    answer = std::move(text);
  });
  settle();
  ASSERT_EQ(worker().take().size(), 1U);
  protocol::Stats stats;
  stats.slots = 1;
  stats.sequences = 0;
  stats.decode_tps = 42;
  worker().say(protocol::encode(stats));
  settle();
  ASSERT_TRUE(answer && *answer);
  EXPECT_EQ(protocol::parse_stats(**answer)->decode_tps, 42);
  EXPECT_EQ(engine->status().decode_tps, 42);
}

TEST_F(Requests, StatisticsThatNeverComeAreGivenUp) {
  make_ready(1);
  std::optional<std::optional<std::string>> answer;
  asio::co_spawn(io, engine->worker_stats(), [&](const std::exception_ptr&, std::optional<std::string> text) {
    answer = std::move(text);
  });
  settle();
  advance_alive(kStatsTime);
  ASSERT_TRUE(answer);
  EXPECT_FALSE(*answer);
}

}  // namespace
}  // namespace gezel::engine_llama
