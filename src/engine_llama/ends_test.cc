// Every way in which a worker ends while it has work.
#include "engine_llama/test_worker.h"

namespace gezel::engine_llama {
namespace {

using Ends = EngineTest;
using engine::State;

// A client that has seen `text`.
void stream(FakeWorker& worker, std::uint64_t id, std::string text) {
  worker.started(id);
  worker.text(id, std::move(text));
}

TEST_F(Ends, ACrashAfterTextNamesTheIncidentAndTheCharacters) {
  make_ready(1);
  auto client = ask();
  stream(worker(), worker().take_requests().at(0), std::string(1239, 'x') + "é");
  settle();
  worker().hang_up();
  settle();
  // The exit status comes a moment after the broken connection.
  advance(Millis(120));
  read(client);
  EXPECT_FALSE(client.last<engine::Failed>());
  worker().tell({0, SIGSEGV});
  settle();
  ASSERT_EQ(incidents().size(), 1U);
  read(client);
  const auto* failed = client.last<engine::Failed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->error.error.code, "engine-crashed");
  EXPECT_EQ(failed->error.http_hint, 502);
  EXPECT_EQ(failed->error.characters_delivered, 1240);
  EXPECT_EQ(failed->error.incident_id, string_or(incidents()[0], "incidentId"));
  EXPECT_NE(failed->error.error.message.find("Segmentation fault"), std::string::npos);
  EXPECT_EQ(engine->status().state, State::stopped);
}

TEST_F(Ends, TheIncidentIsOnDiskBeforeAnybodyHearsOfTheCrash) {
  make_ready(1);
  auto client = ask();
  stream(worker(), worker().take_requests().at(0), "x");
  settle();
  read(client);
  std::size_t seen = 99;
  asio::co_spawn(io, client.generation->next(),
                 [&](const std::exception_ptr&, const engine::Event&) { seen = incidents().size(); });
  settle();
  worker().exit({0, SIGSEGV});
  settle();
  EXPECT_EQ(seen, 1U);
}

TEST_F(Ends, WhatTheWorkerSaidLastStillCounts) {
  make_ready(1);
  auto client = ask();
  const auto id = worker().take_requests().at(0);
  stream(worker(), id, "all of it");
  worker().done(id);
  worker().exit({0, SIGSEGV});
  settle();
  read(client);
  EXPECT_TRUE(client.last<engine::Done>());
  EXPECT_EQ(client.text(), "all of it");
}

TEST_F(Ends, ARequestWithoutTextIsTriedOnceMoreOnANewWorker) {
  make_ready(1);
  auto client = ask();
  worker().started(worker().take_requests().at(0));
  settle();
  worker().exit({0, SIGSEGV});
  settle();
  EXPECT_EQ(launches(), 2U);
  become_ready();
  const auto id = ids.at(0);
  worker().started(id);
  worker().text(id, "second try");
  worker().done(id);
  settle();
  read(client);
  EXPECT_EQ(client.text(), "second try");
  EXPECT_EQ(std::ranges::count_if(client.events,
                                  [](const auto& e) { return std::holds_alternative<engine::Started>(e); }),
            1);
}

TEST_F(Ends, ASecondCrashIsFinal) {
  make_ready(1);
  auto client = ask();
  settle();
  worker().exit({0, SIGSEGV});
  settle();
  become_ready();
  worker().exit({0, SIGSEGV});
  settle();
  read(client);
  EXPECT_EQ(client.failure(), "engine-crashed");
  EXPECT_EQ(launches(), 2U);
}

TEST_F(Ends, ARequestThatWasAloneInItsSlotIsNotTriedAgain) {
  make_ready(1);
  auto poison = ask();
  auto innocent = ask();
  const auto sent = worker().take_requests();
  for (const auto id : sent) worker().started(id);
  worker().prefill(sent[0], 0, 12);
  settle();
  worker().exit({0, SIGSEGV});
  settle();
  read(poison);
  EXPECT_EQ(poison.failure(), "engine-crashed");
  EXPECT_EQ(poison.last<engine::Failed>()->error.retry, engine::Retry::never);
  become_ready();
  EXPECT_EQ(ids, std::vector{sent[1]});
}

TEST_F(Ends, TwoThatWereInSlotsAreTriedOnceMoreAndNeverAThirdTime) {
  make_ready(2);
  auto one = ask();
  auto other = ask();
  const auto both = worker().take_requests();
  const auto crash = [&] {
    for (const auto id : both) {
      worker().started(id);
      worker().prefill(id, 0, 12);
    }
    settle();
    worker().exit({0, SIGABRT});
    settle();
  };
  crash();
  become_ready(2);
  EXPECT_EQ(ids, both);
  crash();
  for (auto* client : {&one, &other}) {
    read(*client);
    EXPECT_EQ(client->failure(), "engine-crashed");
    EXPECT_EQ(client->last<engine::Failed>()->error.retry, engine::Retry::never);
  }
  EXPECT_EQ(launches(), 2U);
}

TEST_F(Ends, APromptThatCrashesEveryWorkerLeavesTheBudgetToTheOthers) {
  make_ready(1);
  for (int i = 0; i < 2; ++i) {
    auto poison = ask();
    if (i > 0) become_ready();
    const auto id = i > 0 ? ids.at(0) : worker().take_requests().at(0);
    worker().started(id);
    worker().prefill(id, 0, 12);
    settle();
    worker().exit({0, SIGSEGV});
    settle();
    read(poison);
    EXPECT_EQ(poison.failure(), "engine-crashed");
  }
  auto client = ask();
  become_ready();
  EXPECT_EQ(ids.size(), 1U);
}

TEST_F(Ends, ARequestIsTriedAgainWhenTheWorkerDidNotDieOfIt) {
  make_ready(1);
  auto client = ask();
  const auto id = worker().take_requests().at(0);
  worker().started(id);
  worker().prefill(id, 0, 12);
  settle();
  advance(kHeartbeatLimit);
  advance(kHeartbeatSecond);
  become_ready();
  EXPECT_EQ(ids, std::vector{id});
}

TEST_F(Ends, ARunawayTemplateFailsItsOwnRequestAndTheOthersAreTriedAgain) {
  make_ready(1);
  auto hostile = ask();
  auto innocent = ask();
  const auto sent = worker().take_requests();
  worker().started(sent[1]);
  worker().prefill(sent[1], 0, 12);
  protocol::Failed last;
  last.id = sent[0];
  last.kind = protocol::kOverrunKind;
  last.code = "model-invalid";
  last.message = "The model's chat template did not end within 30 s";
  worker().say(protocol::encode(last));
  settle();
  EXPECT_EQ(launches(), 2U);
  read(hostile);
  EXPECT_EQ(hostile.failure(), "model-invalid");
  EXPECT_EQ(string_or(incidents().at(0), "panicKind"), engine::kTemplateOverrun);
  EXPECT_EQ(hostile.last<engine::Failed>()->error.incident_id, string_or(incidents().at(0), "incidentId"));
  become_ready();
  EXPECT_EQ(ids, std::vector{sent[1]});
  EXPECT_EQ(engine->status().state, State::ready) << "it is no verdict about the file";
}

TEST_F(Ends, ARunawayTemplateIsRecognisedByTheWorkersLastLineAlone) {
  make_ready(1);
  auto client = ask();
  worker().print("chat template or tokenizer ran away\n");
  worker().exit({7, 0});
  settle();
  EXPECT_EQ(string_or(incidents().at(0), "panicKind"), engine::kTemplateOverrun);
}

TEST_F(Ends, NothingIsTriedAgainWhereMemoryRanOut) {
  make_ready(1);
  auto client = ask();
  worker().print("CUDA error: out of memory\nGGML_ASSERT(x)\n");
  worker().exit({0, SIGABRT});
  settle();
  read(client);
  EXPECT_EQ(client.failure(), "engine-out-of-memory");
  EXPECT_EQ(launches(), 1U);
}

TEST_F(Ends, AKilledWorkerIsNotTriedAgainAndSaysWhy) {
  make_ready(1);
  auto client = ask();
  worker().exit({0, SIGKILL});
  settle();
  read(client);
  EXPECT_EQ(client.failure(), "engine-crashed");
  EXPECT_NE(client.last<engine::Failed>()->error.error.message.find("memory"), std::string::npos);
  EXPECT_EQ(launches(), 1U);
}

TEST_F(Ends, RequestsThatStillWaitedAreServedByTheNextWorker) {
  make_ready(1);
  std::vector<Client> clients;
  for (int i = 0; i < 6; ++i) clients.push_back(ask());
  for (const auto id : worker().take_requests()) stream(worker(), id, "x");
  settle();
  worker().exit({0, SIGSEGV});
  settle();
  for (int i = 0; i < 4; ++i) {
    read(clients[static_cast<std::size_t>(i)]);
    EXPECT_EQ(clients[static_cast<std::size_t>(i)].failure(), "engine-crashed");
  }
  become_ready();
  EXPECT_EQ(ids.size(), 2U);
}

TEST_F(Ends, APlannedStopIsNoCrash) {
  make_ready(1);
  auto streaming = ask();
  auto silent = ask();
  stream(worker(), worker().take_requests().at(0), "some text");
  settle();
  EXPECT_TRUE(stop().was_running);
  read(streaming);
  read(silent);
  EXPECT_EQ(streaming.failure(), "stream-dropped");
  EXPECT_EQ(streaming.last<engine::Failed>()->error.characters_delivered, 9);
  EXPECT_EQ(silent.failure(), "engine-evicted");
  EXPECT_TRUE(incidents().empty());
  EXPECT_EQ(engine->status().state, State::stopped);
}

TEST_F(Ends, AStopDrainsThenTerminatesThenKills) {
  make_ready(1);
  bool stopped = false;
  asio::co_spawn(io, engine->stop(), [&](const std::exception_ptr&, engine::StopOutcome) { stopped = true; });
  settle();
  ASSERT_EQ(worker().take().at(0).type, protocol::FrameType::drain);
  EXPECT_TRUE(worker().signals.empty());
  advance(kDrainTime);
  EXPECT_EQ(worker().signals, std::vector{engine::EndSignal::terminate});
  advance(kStopTime - kDrainTime - Millis(1));
  EXPECT_FALSE(stopped);
  advance(Millis(1));
  EXPECT_EQ(worker().signals.back(), engine::EndSignal::kill);
  EXPECT_TRUE(stopped);
  EXPECT_TRUE(incidents().empty());
}

TEST_F(Ends, StoppingAStoppedEngineIsNothing) {
  make();
  bool was_running = true;
  asio::co_spawn(io, engine->stop(),
                 [&](const std::exception_ptr&, engine::StopOutcome o) { was_running = o.was_running; });
  settle();
  EXPECT_FALSE(was_running);
}

TEST_F(Ends, ARequestDuringAStopIsServedAfterIt) {
  make_ready(1);
  asio::co_spawn(io, engine->stop(), asio::detached);
  settle();
  auto client = ask();
  EXPECT_EQ(launches(), 1U);
  worker().exit({0, 0});
  settle();
  EXPECT_EQ(launches(), 2U);
}

TEST_F(Ends, AWorkerWithoutAHeartbeatIsKilled) {
  make_ready(1);
  auto client = ask();
  stream(worker(), worker().take_requests().at(0), "x");
  settle();
  advance(kHeartbeatLimit);
  EXPECT_FALSE(worker().ended);
  advance(kHeartbeatSecond);
  EXPECT_TRUE(worker().ended);
  read(client);
  EXPECT_EQ(client.failure(), "engine-crashed");
  EXPECT_EQ(string_or(incidents().at(0), "panicKind"), engine::kHeartbeatLost);
}

TEST_F(Ends, AFrameInTheLastMomentSavesTheWorker) {
  make_ready(1);
  advance(kHeartbeatLimit);
  worker().heartbeat();
  settle();
  advance(kHeartbeatSecond);
  EXPECT_FALSE(worker().ended);
}

TEST_F(Ends, HostileFramesKillTheWorkerWithAClearError) {
  using protocol::FrameType;
  const std::string cases[] = {
      protocol::encode_frame(FrameType::step, "{\"runs\":7}"),
      protocol::encode_frame(FrameType::done, "not json"),
      protocol::encode_frame(FrameType::ready, "{}"),
      protocol::encode_frame(FrameType::hello_reply, "{}"),
      protocol::encode_frame(static_cast<FrameType>(200), "{}"),
      protocol::encode_frame(FrameType::generate, "{}"),
      protocol::encode_frame(FrameType::embedding, "{}"),
      std::string("\xff\xff\xff\xff\x45", 5),
  };
  for (const auto& bytes : cases) {
    make_ready(1);
    auto client = ask();
    stream(worker(), worker().take_requests().at(0), "x");
    worker().say(bytes);
    settle();
    EXPECT_TRUE(worker().ended);
    read(client);
    EXPECT_EQ(client.failure(), "engine-crashed");
    EXPECT_EQ(string_or(incidents().back(), "panicKind"), engine::kProtocolViolation);
    client.generation.reset();
    advance(Millis(120'000));
  }
}

TEST_F(Ends, FramesAboutForgottenRequestsAreIgnored) {
  make_ready(1);
  worker().text(77, "who?");
  worker().done(77);
  worker().failed(78, "cancelled", "gone");
  settle();
  EXPECT_FALSE(worker().ended);
  EXPECT_EQ(engine->status().state, State::ready);
}

TEST_F(Ends, WritingToADeadWorkerIsHarmless) {
  make_ready(1);
  auto client = ask();
  worker().take();
  worker().hang_up();
  client.generation->cancel();  // writes before the broken connection is noticed
  settle();
  worker().tell({0, SIGSEGV});
  settle();
  EXPECT_EQ(engine->status().state, State::stopped);
}

TEST_F(Ends, AConnectionThatBreaksWithoutAnExitIsDroppedAndTheWorkerKilled) {
  make_ready(1);
  auto client = ask();
  stream(worker(), worker().take_requests().at(0), "x");
  settle();
  worker().dies_on_kill = false;
  worker().hang_up();
  settle();
  advance(kExitWait);
  read(client);
  EXPECT_EQ(client.failure(), "stream-dropped");
  EXPECT_EQ(worker().signals, std::vector{engine::EndSignal::kill});
}

TEST_F(Ends, AnEngineThatGivesUpFailsItsRequestsWithItsReason) {
  make_ready(1);
  auto client = ask();
  worker().take();
  worker().failed(std::nullopt, "engine-out-of-memory", "the device is full");
  settle();
  read(client);
  EXPECT_EQ(client.failure(), "engine-out-of-memory");
  EXPECT_EQ(engine->status().state, State::stopping);
}

TEST_F(Ends, ARefusedFileUnloadsTheModel) {
  models->facts.integrity = models::Integrity::unverified;
  models->verdict = fail(ErrorKind::corrupt, "model-invalid", "expected aa, found bb");
  make();
  ask_ready();
  settle();
  worker().hello();
  settle();
  worker().ready(1);
  settle();
  EXPECT_EQ(engine->status().state, State::stopping);
  worker().exit({0, 0});
  settle();
  auto client = ask();
  read(client);
  EXPECT_EQ(client.failure(), "model-invalid");
  EXPECT_EQ(launches(), 1U);
}

}  // namespace
}  // namespace gezel::engine_llama
