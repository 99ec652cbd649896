// Starting a worker, and every way in which that fails.
#include <cerrno>
#include <limits>

#include "engine_llama/test_worker.h"

namespace gezel::engine_llama {
namespace {

using Starting = EngineTest;
using engine::State;

TEST_F(Starting, Case1_TwoCallersShareOneSpawn) {
  make();
  EXPECT_EQ(launches(), 0U);
  auto first = ask_ready();
  auto second = ask_ready();
  EXPECT_EQ(engine->status().state, State::starting);
  become_ready(2);
  EXPECT_EQ(launches(), 1U);
  EXPECT_TRUE(first->value());
  EXPECT_TRUE(second->value());
  const auto status = engine->status();
  EXPECT_EQ(status.state, State::ready);
  EXPECT_EQ(status.generation, 1U);
  EXPECT_EQ(status.slots, 2);
  EXPECT_EQ(status.bytes, 123U);
}

TEST_F(Starting, HelloComesFirstThenTheLoadThatWasPlanned) {
  slots = 3;
  options.target_itl_ms = 55;
  options.speculation = false;
  make();
  ask_ready();
  auto frames = worker().take();
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(frames[0].type, protocol::FrameType::hello);
  worker().hello();
  settle();
  frames = worker().take();
  ASSERT_EQ(frames.size(), 1U);
  const auto load = protocol::parse_load(frames[0].body);
  ASSERT_TRUE(load);
  EXPECT_EQ(load->slots, 3);
  EXPECT_EQ(load->target_itl_ms, 55);
  EXPECT_FALSE(load->speculation);
  EXPECT_EQ(load->model_path, "/models/m.gguf");
  EXPECT_TRUE(load->cache_folder.starts_with(options.home.string()));
}

TEST_F(Starting, ADraftModelIsNamedToTheWorkerWithItsFiles) {
  draft = {.files = {"/models/small-1.gguf", "/models/small-2.gguf"}, .most = 5, .required = true};
  make();
  ask_ready();
  worker().hello();
  settle();
  const auto load = protocol::parse_load(worker().take().back().body);
  ASSERT_TRUE(load);
  EXPECT_EQ(load->draft.model_path, "/models/small-1.gguf");
  EXPECT_EQ(load->draft.max_tokens, 5);
  EXPECT_TRUE(load->draft.required);
  EXPECT_THAT(load->files,
              testing::IsSupersetOf({"/models/m.gguf", "/models/small-1.gguf", "/models/small-2.gguf"}));
  worker().drafts = true;
  worker().ready(1);
  settle();
  EXPECT_EQ(engine->status().draft_model, "small-1.gguf");
  EXPECT_EQ(engine->status().draft_unused, "");
}

TEST_F(Starting, WhyADraftModelIsNotUsedIsInTheStatus) {
  draft.files = {"/models/small.gguf"};
  make();
  ask_ready();
  worker().hello();
  settle();
  worker().draft_trouble = "another vocabulary";
  worker().ready(1);
  settle();
  EXPECT_EQ(engine->status().state, State::ready);
  EXPECT_EQ(engine->status().draft_model, "");
  EXPECT_EQ(engine->status().draft_unused, "another vocabulary");
}

TEST_F(Starting, WhatThePlanSaysOfADraftModelIsInTheStatus) {
  draft.note = capacity::Note{capacity::NoteLevel::info, "not installed"};
  make();
  ask_ready();
  become_ready();
  EXPECT_EQ(engine->status().draft_unused, "not installed");
}

TEST_F(Starting, WhatTheProfileSaysGoesToTheWorkerAndHowTheModelWritesToItsReaders) {
  profile.name = "ponderers";
  profile.style = {"hermes", "gemma", "<ponder>", "</ponder>"};
  profile.tuning.sampling.temperature = 0.25f;
  profile.tuning.max_tokens = 7;
  make();
  auto client = ask();
  worker().hello();
  settle();
  const auto load = protocol::parse_load(worker().take().back().body);
  ASSERT_TRUE(load);
  EXPECT_EQ(load->style.dialect, "hermes");
  EXPECT_EQ(load->style.reasoning_close, "</ponder>");
  EXPECT_EQ(load->tuning.sampling.temperature, 0.25f);
  EXPECT_EQ(load->tuning.max_tokens, 7);
  worker().ready(1);
  settle();
  EXPECT_EQ(engine->status().profile,
            R"({"name":"ponderers","user":false,"dialect":"hermes","family":"gemma",)"
            R"("reasoning":{"open":"<ponder>","close":"</ponder>"},"sampling":{"temperature":2.5E-1},)"
            R"("sampling_when_thinking":{},"max_tokens":7})");
  worker().started(worker().take_requests().at(0));
  settle();
  read(client);
  const auto* started = client.last<engine::Started>();
  ASSERT_TRUE(started);
  EXPECT_EQ(started->family, "gemma");
  EXPECT_EQ(started->reasoning_open_marker, "<ponder>");
  EXPECT_EQ(started->reasoning_close_marker, "</ponder>");
}

TEST_F(Starting, ARequestStartsTheEngineAndHearsOfTheLoad) {
  make();
  auto client = ask();
  worker().hello();
  settle();
  worker().say(protocol::encode(protocol::Phase{"loading_model", 0.5}));
  settle();
  read(client);
  const auto* progress = client.last<engine::Progress>();
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->stage, engine::Progress::Stage::load);
  EXPECT_EQ(progress->done, 500);
  worker().ready(1);
  settle();
  EXPECT_EQ(worker().take_requests().size(), 1U);
}

TEST_F(Starting, AnotherProtocolVersionIsAMismatch) {
  make();
  auto result = ask_ready();
  worker().hello(99);
  settle();
  ASSERT_TRUE(*result);
  EXPECT_EQ((*result)->error().error.code, "protocol-mismatch");
  EXPECT_NE((*result)->error().error.message.find("99"), std::string::npos);
  worker().exit({0, 0});
  settle();
  EXPECT_EQ(engine->status().state, State::stopped);
  EXPECT_TRUE(incidents().empty());
}

TEST_F(Starting, GarbageInsteadOfAHelloKillsTheWorker) {
  for (const std::string& garbage : {std::string("HTTP/1.1 200 OK\r\n"), std::string(64, '\xff'),
                                     protocol::encode_frame(protocol::FrameType::hello_reply, "{"),
                                     protocol::encode_frame(protocol::FrameType::ready, "{}")}) {
    make();
    auto result = ask_ready();
    worker().say(garbage);
    settle();
    // The first case announces more bytes than it has; nothing more comes.
    if (!*result) advance(kHelloTime);
    advance(kStopTime + kExitWait);
    ASSERT_TRUE(*result) << garbage;
    EXPECT_FALSE(**result);
    EXPECT_TRUE(worker().ended);
  }
}

TEST_F(Starting, AProgramThatCannotBeStartedIsNoCrashAndNamesNoPath) {
  make();
  launcher->refuse = true;
  for (int i = 0; i < 5; ++i) {
    auto result = ask_ready();
    ASSERT_TRUE(*result);
    EXPECT_EQ((*result)->error().error.code, "engine-launch");
    EXPECT_EQ((*result)->error().error.message.find("/"), std::string::npos);
  }
}

TEST_F(Starting, AModelThatIsNotThereIsNotFoundWithoutASpawn) {
  models->missing = true;
  make();
  auto result = ask_ready();
  ASSERT_TRUE(*result);
  EXPECT_EQ((*result)->error().http_hint, 404);
  EXPECT_EQ(launches(), 0U);
}

TEST_F(Starting, AFileThatCannotBeReadNowIsNoVerdictAboutTheModel) {
  make();
  for (const int problem : {EMFILE, EACCES, EIO}) {
    models->find_errno = problem;
    const auto result = ask_ready();
    ASSERT_TRUE(*result);
    EXPECT_EQ((*result)->error().error.code, "model-unreadable");
    EXPECT_EQ((*result)->error().http_hint, 503);
  }
  models->find_errno = 0;
  ask_ready();
  EXPECT_EQ(launches(), 1U);
}

TEST_F(Starting, Case27_ADeniedPlanSpawnsNothing) {
  denied = engine::make_error("capacity-denied", "needs 9 GiB, 1 GiB is free");
  make();
  auto client = ask();
  read(client);
  EXPECT_EQ(client.failure(), "capacity-denied");
  EXPECT_EQ(launches(), 0U);
}

TEST_F(Starting, ACrashWhileLoadingNamesTheIncident) {
  make();
  auto result = ask_ready();
  worker().hello();
  settle();
  worker().print("ggml.c:1: GGML_ASSERT(a) failed\n");
  worker().exit({0, SIGABRT});
  settle();
  ASSERT_TRUE(*result);
  const auto& error = (*result)->error();
  EXPECT_EQ(error.error.code, "engine-crashed");
  EXPECT_NE(error.error.message.find("assertion-failed"), std::string::npos);
  ASSERT_EQ(incidents().size(), 1U);
  EXPECT_EQ(string_or(incidents()[0], "incidentId"), error.incident_id);
}

TEST_F(Starting, MemoryThatRunsOutWhileLoadingSaysWhatToDo) {
  make();
  auto result = ask_ready();
  worker().hello();
  settle();
  worker().print("terminate called after throwing an instance of 'std::bad_alloc'\n");
  worker().exit({0, SIGABRT});
  settle();
  EXPECT_EQ((*result)->error().error.code, "engine-out-of-memory");
  EXPECT_NE((*result)->error().error.message.find("--slots"), std::string::npos);
}

TEST_F(Starting, ThreeCrashesWithinAMinuteExhaustTheBudgetForAMinute) {
  make();
  for (int i = 0; i < 3; ++i) {
    auto result = ask_ready();
    worker().exit({1, 0});
    settle();
    EXPECT_EQ((*result)->error().error.code, "engine-crashed");
    advance(Millis(10'000));
  }
  auto refused_start = ask_ready();
  ASSERT_TRUE(*refused_start);
  EXPECT_EQ((*refused_start)->error().error.code, "engine-restart-exhausted");
  EXPECT_EQ((*refused_start)->error().retry_after_ms, 60'000);
  EXPECT_EQ(engine->status().state, State::exhausted);
  advance(Millis(59'000));
  EXPECT_FALSE(**ask_ready());
  EXPECT_EQ(launches(), 3U);
  advance(Millis(1'000));
  auto again = ask_ready();
  EXPECT_EQ(launches(), 4U);
  become_ready();
  EXPECT_TRUE(again->value());
}

TEST_F(Starting, ALoadThatIsRefusedIsNoCrash) {
  make();
  for (int i = 0; i < 5; ++i) {
    auto result = ask_ready();
    worker().hello();
    settle();
    worker().failed(std::nullopt, "engine-out-of-memory", "not enough memory for the KV cache");
    settle();
    ASSERT_TRUE(*result);
    EXPECT_EQ((*result)->error().error.code, "engine-out-of-memory");
    worker().exit({1, 0});
    settle();
  }
  EXPECT_EQ(launches(), 5U);
  EXPECT_TRUE(incidents().empty());
}

TEST_F(Starting, AVerdictAboutTheFileIsRememberedUntilTheFileChanges) {
  make();
  auto result = ask_ready();
  worker().hello();
  settle();
  worker().failed(std::nullopt, "model-invalid", "truncated by 12 bytes");
  settle();
  worker().exit({1, 0});
  settle();
  auto again = ask_ready();
  ASSERT_TRUE(*again);
  EXPECT_EQ((*again)->error().error.message, "truncated by 12 bytes");
  EXPECT_EQ(launches(), 1U);
  models->facts.stamp.mtime_ns += 1'000'000;
  ask_ready();
  EXPECT_EQ(launches(), 2U);
}

TEST_F(Starting, AWorkerThatCannotReadTheFileIsNoVerdictAboutTheFile) {
  make();
  for (std::size_t attempt = 1; attempt <= 2; ++attempt) {
    auto result = ask_ready();
    worker().hello();
    settle();
    worker().failed(std::nullopt, "model-unreadable", "cannot be opened: Permission denied");
    settle();
    ASSERT_TRUE(*result);
    EXPECT_EQ((*result)->error().error.code, "model-unreadable");
    worker().exit({3, 0});
    settle();
    EXPECT_EQ(launches(), attempt) << "each request tries anew";
  }
}

TEST_F(Starting, ThreeCrashesQuarantineTheModel) {
  // The binary must be a file that can be identified.
  options.engine_program = options.home / "gezel-engine";
  ASSERT_TRUE(write_file_atomic(options.engine_program, "x"));
  make();
  for (int i = 0; i < 3; ++i) {
    ask_ready();
    worker().exit({0, SIGSEGV});
    settle();
    advance(Millis(61'000));
  }
  auto result = ask_ready();
  EXPECT_EQ((*result)->error().error.code, "engine-quarantined");
  EXPECT_EQ(launches(), 3U);
}

TEST_F(Starting, SilenceEndsAStartAtItsBudget) {
  make();
  auto result = ask_ready();
  worker().hello();
  settle();
  advance_alive(options.startup_timeout - Millis(1'000));
  EXPECT_FALSE(*result);
  advance_alive(Millis(1'000));
  ASSERT_TRUE(*result);
  EXPECT_EQ((*result)->error().error.code, "engine-startup-timeout");
}

TEST_F(Starting, ProgressExtendsTheBudget) {
  make();
  auto result = ask_ready();
  worker().hello();
  settle();
  advance_alive(Millis(175'000));
  worker().say(protocol::encode(protocol::Phase{"loading_model", 0.25}));
  settle();
  advance_alive(Millis(59'000));
  EXPECT_FALSE(*result);
  advance_alive(Millis(1'000));
  ASSERT_TRUE(*result);
  EXPECT_NE((*result)->error().error.message.find("25 %"), std::string::npos);
}

TEST_F(Starting, AbsurdNumbersOfProgressAreClamped) {
  make();
  auto client = ask();
  auto result = ask_ready();
  worker().hello();
  settle();
  protocol::Progress absurd;
  absurd.stage = "load";
  absurd.done = std::numeric_limits<std::int64_t>::max();
  absurd.total = 1;
  worker().say(protocol::encode(absurd));
  settle();
  read(client);
  const auto* progress = client.last<engine::Progress>();
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->done, 1000);
  advance_alive(options.startup_timeout);
  ASSERT_TRUE(*result);
  EXPECT_NE((*result)->error().error.message.find("'load' at 100 %"), std::string::npos)
      << (*result)->error().error.message;
}

TEST_F(Starting, EveryLineOfTheWorkersLogNamesItsModel) {
  make_ready();
  worker().print("hello\n");
  settle();
  std::string all;
  for (const auto& file : fs::directory_iterator(options.home / "logs")) all += *read_file(file.path());
  EXPECT_NE(all.find("[gezel-engine llama-cpp:m] hello"), std::string::npos) << all;
}

TEST_F(Starting, AWorkerThatNeverSaysHelloIsGivenUpSoon) {
  make();
  auto result = ask_ready();
  advance(kHelloTime);
  ASSERT_TRUE(*result);
  EXPECT_EQ((*result)->error().error.code, "engine-startup-timeout");
}

TEST_F(Starting, AStartThatNobodyWaitsForIsGivenUp) {
  make();
  auto client = ask();
  EXPECT_EQ(launches(), 1U);
  client.generation.reset();
  settle();
  EXPECT_EQ(engine->status().state, State::stopping);
  worker().exit({0, 0});
  settle();
  EXPECT_EQ(engine->status().state, State::stopped);
  EXPECT_TRUE(incidents().empty());
}

TEST_F(Starting, AStartGoesOnWhileSomebodyElseWaits) {
  make();
  auto one = ask();
  auto two = ask();
  one.generation.reset();
  settle();
  become_ready();
  EXPECT_EQ(engine->status().state, State::ready);
}

TEST_F(Starting, ARequestThatComesWhileAStartIsGivenUpGetsAFreshOne) {
  make();
  ask().generation.reset();
  settle();
  auto late = ask();
  worker().exit({0, 0});
  settle();
  EXPECT_EQ(launches(), 2U);
  become_ready();
  read(late);
  EXPECT_EQ(late.failure(), "");
}

TEST_F(Starting, StoppingAStartTellsEverybody) {
  make();
  auto result = ask_ready();
  auto client = ask();
  EXPECT_TRUE(stop().was_running);
  EXPECT_EQ((*result)->error().error.code, "engine-evicted");
  read(client);
  EXPECT_EQ(client.failure(), "engine-evicted");
}

TEST_F(Starting, AChangedFileIsCheckedWhileItLoadsAndRefusedWhenItDiffers) {
  models->facts.integrity = models::Integrity::changed;
  models->verdict = fail(ErrorKind::corrupt, "model-invalid", "expected aa, found bb");
  make();
  auto result = ask_ready();
  ASSERT_TRUE(*result);
  EXPECT_EQ((*result)->error().error.code, "model-invalid");
  EXPECT_NE((*result)->error().error.message.find("found bb"), std::string::npos);
  EXPECT_EQ(models->verifies, 1);
}

TEST_F(Starting, AFileThatCannotBeReadForTheCheckIsNotRefused) {
  models->facts.integrity = models::Integrity::changed;
  models->verdict = fail(ErrorKind::io, "model-invalid", "reading failed at byte 7; check the disk");
  make();
  auto result = ask_ready();
  become_ready();
  ASSERT_TRUE(*result);
  EXPECT_TRUE(**result);
}

TEST_F(Starting, AFileThatWasNeverHashedIsHashedOnceItIsLoaded) {
  models->facts.integrity = models::Integrity::unverified;
  make();
  ask_ready();
  EXPECT_EQ(models->verifies, 0);
  become_ready();
  EXPECT_EQ(models->verifies, 1);
  EXPECT_EQ(engine->status().state, State::ready);
}

TEST_F(Starting, AModelStartsAnewWhileHashingHasNoThread) {
  hashing_hangs = true;
  models->facts.integrity = models::Integrity::unverified;
  make();
  ask_ready();
  become_ready();
  EXPECT_EQ(engine->status().state, State::ready);
  EXPECT_EQ(models->verifies, 0);
}

TEST_F(Starting, AnUnchangedFileIsTrusted) {
  make_ready();
  EXPECT_EQ(models->verifies, 0);
}

TEST_F(Starting, ThePidFileLivesAsLongAsTheWorker) {
  make_ready();
  const auto runtime = options.home / "runtime";
  ASSERT_FALSE(fs::is_empty(runtime));
  EXPECT_TRUE(fs::directory_iterator(runtime)->path().filename().string().starts_with("embedded-"));
  stop();
  EXPECT_TRUE(fs::is_empty(runtime));
}

TEST_F(Starting, ADroppedEngineKillsItsWorkerAtOnce) {
  make_ready();
  auto client = ask();
  engine.reset();
  settle();
  EXPECT_TRUE(worker().dropped);
  read(client);
  EXPECT_EQ(client.failure(), "engine-evicted");
}

}  // namespace
}  // namespace gezel::engine_llama
