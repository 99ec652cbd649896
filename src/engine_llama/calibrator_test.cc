// Calibration as the daemon drives it, with a worker that answers by a made-up processor.
#include "engine_llama/test_worker.h"

namespace gezel::engine_llama {
namespace {

using engine::State;
using protocol::FrameType;

// Milliseconds of a call.
double plain(const protocol::Measure& measure) {
  const auto n = static_cast<double>(measure.tokens), d = static_cast<double>(measure.depth);
  return measure.kind == "decode" ? 4 + n + 0.004 * n * d : 5 + 0.9 * n + 0.001 * n * d;
}
// The same with flash attention at a third of the time.
double better_with_flash(const protocol::Measure& measure) {
  return plain(measure) / (measure.flash_attention ? 3 : 1);
}

class Calibrating : public EngineTest {
 protected:
  Calibrating() {
    calibration.key = {"file-1", "engine-1", "A processor", 2, "cpu"};
    speed = better_with_flash;
  }
  // Answers what the worker was asked to measure since the last call; returns how much that was.
  int answer() {
    int answered = 0;
    while (true) {
      settle();
      std::vector<protocol::Measure> questions;
      for (const auto& frame : worker().take()) {
        if (frame.type == FrameType::measure) questions.push_back(*protocol::parse_measure(frame.body));
        if (frame.type == FrameType::generate) requests.push_back(protocol::parse_generate(frame.body)->id);
      }
      if (questions.empty()) return answered;
      for (const auto& question : questions) {
        protocol::Measured out;
        out.id = question.id;
        if (question.release) {
          out.outcome = "released";
          ++released;
        } else {
          ++answered;
          seen.push_back(question);
          out.outcome = outcome;
          out.ms = speed(question);
          out.cpu_ms = out.ms * share;
          out.spent_ms = 2 * out.ms;
          out.memory_bytes = 1000;
        }
        worker().say(protocol::encode(out));
      }
    }
  }
  // Lets time pass with a worker that answers.
  void pass(Millis time) {
    for (Millis left = time; left > Millis(0); left -= Millis(500)) {
      advance(Millis(500));
      if (!worker().ended) worker().heartbeat();
      answer();
    }
  }
  // Until the engine is being stopped.
  void pass_until_stopping(Millis most) {
    for (Millis left = most; left > Millis(0) && engine->status().state != State::stopping;
         left -= Millis(500))
      pass(Millis(500));
    ASSERT_EQ(engine->status().state, State::stopping);
  }
  std::optional<CalibrationRecord> stored() const {
    return CalibrationStore(options.home).find(calibration.key);
  }
  json::object status() const { return parse_json(engine->calibration())->as_object(); }

  std::function<double(const protocol::Measure&)> speed;
  double share = 1;
  std::string outcome = "measured";
  std::vector<protocol::Measure> seen;
  std::vector<std::uint64_t> requests;
  int released = 0;
};

TEST_F(Calibrating, AnIdleEngineIsMeasuredAndTheResultIsKept) {
  make_ready();
  EXPECT_EQ(answer(), 0);
  pass(Millis(3'000));
  EXPECT_GT(seen.size(), 10U);
  EXPECT_EQ(released, 1);
  const auto record = stored();
  ASSERT_TRUE(record);
  EXPECT_TRUE(record->complete);
  EXPECT_TRUE(record->clean);
  EXPECT_EQ(record->model_id, "llama-cpp:m");
  EXPECT_TRUE(costmodel::choose(record->candidates, "f16", record->mix)->setting.flash_attention);
  EXPECT_EQ(status().at("state").as_string(), "applying");
  EXPECT_EQ(status().at("source").as_string(), "measured");
  EXPECT_EQ(engine->status().state, State::ready);
}

TEST_F(Calibrating, ABetterSettingIsLoadedWhenTheEngineWasIdleForLong) {
  make_ready();
  pass(Millis(3'000));
  EXPECT_EQ(launches(), 1U);
  calibration.record = stored();  // what the next plan reads
  pass(kApplyTime - Millis(5'000));
  EXPECT_EQ(engine->status().state, State::ready);
  pass_until_stopping(Millis(8'000));
  worker().exit({0, 0});
  settle();
  EXPECT_EQ(launches(), 2U);
  settle();
  worker().hello();
  settle();
  std::optional<protocol::Load> load;
  for (const auto& frame : worker().take())
    if (frame.type == FrameType::load) load = *protocol::parse_load(frame.body);
  ASSERT_TRUE(load);
  EXPECT_EQ(load->flash_attention, true);
  EXPECT_EQ(load->threads, 2);
  EXPECT_FALSE(load->known_steps.empty());
  for (const auto& step : load->known_steps) EXPECT_TRUE(step.kind == "decode" || step.tokens >= 64);
}

// Spec 35, case 4.
TEST_F(Calibrating, WhatWasMeasuredBeforeIsUsedAndNotMeasuredAgain) {
  make_ready();
  pass(Millis(3'000));
  calibration.record = stored();
  engine.reset();
  settle();
  make();
  ask_ready();
  worker().hello();
  settle();
  std::optional<protocol::Load> load;
  for (const auto& frame : worker().take())
    if (frame.type == FrameType::load) load = *protocol::parse_load(frame.body);
  ASSERT_TRUE(load);
  EXPECT_EQ(load->flash_attention, true);
  seen.clear();
  worker().ready(1);
  settle();
  pass(Millis(60'000));
  EXPECT_TRUE(seen.empty());
}

// Spec 35, case 3.
TEST_F(Calibrating, ARequestInterruptsAndTheMeasurementIsMadeAgainLater) {
  make_ready();
  advance(kQuietTime + kLookEvery);
  std::optional<protocol::Measure> first;
  for (const auto& frame : worker().take())
    if (frame.type == FrameType::measure) first = *protocol::parse_measure(frame.body);
  ASSERT_TRUE(first);
  auto client = ask();
  const auto ids_now = worker().take_requests();
  ASSERT_EQ(ids_now.size(), 1U);  // it is sent at once, whatever is being measured
  protocol::Measured interrupted;
  interrupted.id = first->id;
  interrupted.outcome = "interrupted";
  worker().say(protocol::encode(interrupted));
  pass(Millis(3'000));
  EXPECT_TRUE(seen.empty());
  worker().started(ids_now[0]);
  worker().done(ids_now[0]);
  settle();
  read(client);
  pass(Millis(4'000));
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen[0].kind, first->kind);
  EXPECT_EQ(seen[0].tokens, first->tokens);
  EXPECT_TRUE(stored()->complete);
}

TEST_F(Calibrating, MemoryForMeasuringIsGivenBackWhileRequestsGoOn) {
  make_ready();
  advance(kQuietTime + kLookEvery);
  auto client = ask();
  outcome = "interrupted";
  answer();
  EXPECT_EQ(released, 0);
  pass(kKeepContext + Millis(2'000));
  EXPECT_EQ(released, 1);
}

TEST_F(Calibrating, MemoryForMeasuringComesBackForALoadOnceTheWorkerHasFreedIt) {
  admission = std::make_shared<engine::Admission>(engine::Admission::Parts{
      .loop = io.get_executor(), .clock = clock, .timers = timers, .machine = [] {
        engine::Admission::Machine machine;
        machine.pools.budget_bytes = machine.pools.ram_share_bytes = machine.pools.fast_bytes = kGiB;
        machine.total_ram = machine.free_ram = 4 * kGiB;
        return machine;
      }});
  make_ready();
  advance(kQuietTime + kLookEvery);
  ASSERT_EQ(admission->reservations().size(), 1U);
  engine::Holder holder{.key = "llama-cpp:other:0",
                        .name = "other",
                        .busy = [] { return false; },
                        .lane = [] { return prompt::Lane::interactive; },
                        .hits_last_minute = [] { return 0; },
                        .idle_ms = [] { return std::int64_t{0}; },
                        .give_way = [](bool) {},
                        .unload = [] {}};
  const auto plan = [](const capacity::MachineState& state) {
    capacity::MemoryPlan out;
    out.bytes.weights = kGiB;
    if (capacity::shortfall(state.broker, state.committed_other, kGiB) == 0)
      out.decision = capacity::Decision::fits;
    else
      out.denial = capacity::deny_generically();
    return out;
  };
  std::optional<engine::EngineResult<engine::Admission::Admitted>> admitted;
  const auto enter = [&]() -> asio::awaitable<void> {
    admitted = co_await admission->enter({.holder = holder,
                                          .plan = plan,
                                          .wanted = [] { return true; },
                                          .notice = [](const engine::Waiting&) {}});
  };
  asio::co_spawn(io, enter(), asio::detached);
  settle();
  EXPECT_FALSE(admitted) << "the worker holds the memory still";
  outcome = "interrupted";
  answer();
  EXPECT_EQ(released, 1);
  settle();
  ASSERT_TRUE(admitted && *admitted);
  pass(Millis(5'000));
  EXPECT_EQ(admission->reservations().size(), 1U) << "nothing is measured while the other loads";
}

// Spec 35, case 7.
TEST_F(Calibrating, WhatTheUserSetStays) {
  options.flash_attention = calibration.flash_attention = false;
  make_ready();
  pass(Millis(60'000));
  for (const auto& question : seen) EXPECT_FALSE(question.flash_attention);
  EXPECT_FALSE(worker().ended);
  EXPECT_EQ(launches(), 1U);
  EXPECT_EQ(status().at("settings").at("source").as_string(), "user");
}

TEST_F(Calibrating, SwitchedOffNothingIsMeasured) {
  calibration = {};
  make_ready();
  pass(Millis(60'000));
  EXPECT_TRUE(seen.empty());
  EXPECT_EQ(engine->calibration(), "");
  EXPECT_FALSE(engine->calibrate());
}

TEST_F(Calibrating, WhileOtherProgramsWantTheProcessorsNothingIsMeasured) {
  make_ready();
  engine->set_manners({.yielding = true});
  pass(Millis(10'000));
  EXPECT_TRUE(seen.empty());
  engine->set_manners({});
  pass(Millis(3'000));
  EXPECT_FALSE(seen.empty());
}

TEST_F(Calibrating, DisturbedMeasurementsAreMadeAgainAfterAPauseAndAFewTimesOnly) {
  make_ready();
  int salt = 0;
  share = 0.4;
  speed = [&](const protocol::Measure& measure) {
    return better_with_flash(measure) * (1 + 0.3 * (++salt % 3));
  };
  pass(Millis(4'000));
  const auto first_round = seen.size();
  pass(kRoundPause - Millis(6'000));
  EXPECT_EQ(seen.size(), first_round);
  EXPECT_FALSE(stored()->complete);
  pass(4 * kRoundPause);
  EXPECT_GT(seen.size(), first_round);
  EXPECT_LE(seen.size(), first_round * costmodel::kMostVisits);
  EXPECT_TRUE(stored()->complete);
}

TEST_F(Calibrating, OnAnOverloadedMachineNothingCountsAndThePausesGrow) {
  make_ready();
  share = 0.02;
  pass(Millis(2'000));
  EXPECT_EQ(seen.size(), 1U);
  EXPECT_TRUE(status().at("machine_busy").as_bool());
  EXPECT_TRUE(status().at("candidates").as_array().empty());
  pass(kDrownedPause + Millis(2'000));
  EXPECT_EQ(seen.size(), 2U);
  pass(kDrownedPause);
  EXPECT_EQ(seen.size(), 2U);
  share = 1;
  for (int i = 0; i < 1000 && !(stored() && stored()->complete); ++i) pass(Millis(500));
  EXPECT_TRUE(stored()->complete);
  EXPECT_FALSE(status().at("machine_busy").as_bool());
}

TEST_F(Calibrating, WhatWasMeasuredStaysWhenTheEngineEnds) {
  make_ready();
  advance(kQuietTime + kLookEvery);
  int left = 5;
  while (left-- > 0) {
    settle();
    for (const auto& frame : worker().take()) {
      if (frame.type != FrameType::measure) continue;
      const auto question = *protocol::parse_measure(frame.body);
      protocol::Measured out;
      out.id = question.id;
      out.outcome = "measured";
      out.ms = out.cpu_ms = 5;
      worker().say(protocol::encode(out));
    }
  }
  stop();
  const auto record = stored();
  ASSERT_TRUE(record);
  EXPECT_FALSE(record->complete);
  EXPECT_GE(record->candidates.at(0).samples.size(), 4U);
}

TEST_F(Calibrating, TuneMeasuresAnewAtOnceAndAppliesAtOnce) {
  make_ready();
  EXPECT_TRUE(engine->calibrate());
  EXPECT_GT(answer(), 10);
  EXPECT_TRUE(stored()->complete);
  seen.clear();
  // The better setting is loaded as soon as nobody is served.
  pass_until_stopping(Millis(2'000));
  worker().exit({0, 0});
  settle();
  EXPECT_EQ(launches(), 2U);
}

TEST_F(Calibrating, AMeasurementThatNobodyAskedForEndsTheWorker) {
  make_ready();
  protocol::Measured out;
  out.id = 7;
  out.outcome = "measured";
  worker().say(protocol::encode(out));
  settle();
  EXPECT_TRUE(worker().ended);
}

TEST_F(Calibrating, ARefusalIsNoEndOfTheEngine) {
  make_ready();
  outcome = "refused";
  pass(Millis(5'000));
  EXPECT_EQ(engine->status().state, State::ready);
  EXPECT_FALSE(stored());
}

// --- the record

CalibrationRecord sample_record() {
  CalibrationRecord record;
  record.model_id = "llama-cpp:m";
  record.measured_at = "2026-01-02T03:04:05.678Z";
  record.key = {"file-1", "engine-1", "A processor", 2, "cpu"};
  record.complete = true;
  costmodel::Candidate candidate{.setting = {true, "f16", 2}, .memory = 5, .spent_ms = 6.5};
  candidate.samples = {{{costmodel::Point::Kind::decode, 1, 2048}, 12.5, 0.95, 2},
                       {{costmodel::Point::Kind::prefill, 64, 0}, 50, 1, 1}};
  record.candidates = {candidate};
  record.mix = {100, 50, 25};
  return record;
}

TEST(CalibrationRecords, ComeBackAsTheyWereKept) {
  const TestFolder home;
  const CalibrationStore store(home.path());
  const auto record = sample_record();
  ASSERT_TRUE(store.keep(record));
  const auto found = store.find(record.key);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->model_id, record.model_id);
  EXPECT_TRUE(found->complete);
  EXPECT_EQ(found->mix.depth, 100);
  ASSERT_EQ(found->candidates.size(), 1U);
  EXPECT_EQ(found->candidates[0].setting, record.candidates[0].setting);
  EXPECT_EQ(found->candidates[0].samples[0].point, record.candidates[0].samples[0].point);
  EXPECT_EQ(found->candidates[0].samples[0].ms, 12.5);
  EXPECT_EQ(store.all().size(), 1U);
}

// Spec 35, case 5.
TEST(CalibrationRecords, WhateverChangesIsAnotherKey) {
  const TestFolder home;
  const CalibrationStore store(home.path());
  ASSERT_TRUE(store.keep(sample_record()));
  for (const auto change :
       {+[](CalibrationKey& key) { key.model = "file-2"; },
        +[](CalibrationKey& key) { key.engine = "engine-2"; },
        +[](CalibrationKey& key) { key.cpu = "Another"; }, +[](CalibrationKey& key) { key.cores = 1; },
        +[](CalibrationKey& key) { key.backend = "cuda"; }, +[](CalibrationKey& key) { key.workers = 2; }}) {
    auto key = sample_record().key;
    change(key);
    EXPECT_FALSE(store.find(key));
  }
}

TEST(CalibrationRecords, OfOneOfSeveralWorkersComeBack) {
  const TestFolder home;
  auto record = sample_record();
  record.key.workers = 2;
  ASSERT_TRUE(CalibrationStore(home.path()).keep(record));
  const auto found = CalibrationStore(home.path()).find(record.key);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->key.workers, 2);
}

// Spec 35, case 6.
TEST(CalibrationRecords, OneThatIsDamagedIsNotUsed) {
  const TestFolder home;
  const CalibrationStore store(home.path());
  const auto record = sample_record();
  ASSERT_TRUE(store.keep(record));
  const auto file = home.path() / "calibration" / (record.key.id() + ".json");
  const std::string good = *read_file(file, kMiB);
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  for (const std::string& bad : {good.substr(0, good.size() / 2), std::string(), std::string("[]"),
                                 with("\"version\":1", "\"version\":2"), with("\"ms\":1.25E1", "\"ms\":null"),
                                 with("\"ms\":1.25E1", "\"ms\":NaN"), with("\"ms\":1.25E1", "\"ms\":-1"),
                                 with("\"threads\":2", "\"threads\":0"), with("\"file-1\"", "\"file-2\"")}) {
    ASSERT_TRUE(write_file_atomic(file, bad));
    EXPECT_FALSE(store.find(record.key)) << bad;
  }
  ASSERT_TRUE(write_file_atomic(file, good));
  EXPECT_TRUE(store.find(record.key));
}

TEST(CalibrationRecords, TheOldestGoesWhenThereAreMany) {
  const TestFolder home;
  const CalibrationStore store(home.path());
  for (std::size_t i = 0; i < kMostRecords + 3; ++i) {
    auto record = sample_record();
    record.key.model = std::to_string(i);
    ASSERT_TRUE(store.keep(record));
  }
  EXPECT_LE(store.all().size(), kMostRecords);
}

TEST(CalibrationChoice, TheUsersThreadsAndAttentionAreTheOnlyOnesThatCount) {
  CalibrationFacts facts;
  facts.record = sample_record();
  EXPECT_FALSE(chosen_setting(facts, "f16"));  // switched off
  facts.key = facts.record->key;
  EXPECT_EQ(chosen_setting(facts, "f16"), (costmodel::Setting{true, "f16", 2}));
  EXPECT_FALSE(chosen_setting(facts, "q8_0"));
  facts.threads = 1;
  EXPECT_FALSE(chosen_setting(facts, "f16"));
  facts.threads = 2;
  facts.flash_attention = false;
  EXPECT_FALSE(chosen_setting(facts, "f16"));
  facts.flash_attention.reset();
  facts.record->complete = false;
  EXPECT_FALSE(chosen_setting(facts, "f16"));
}

}  // namespace
}  // namespace gezel::engine_llama
