#include <fmt/format.h>
#include <gmock/gmock.h>

#include <stdexcept>

#include "engine/quarantine.h"
#include "service/model_entry.h"
#include "service/test_service.h"

namespace gezel::service {
namespace {

using models::testing::tiny_model;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Service : public testing::ServiceTest {};

TEST_F(Service, ListsInstalledModelsWithoutAnEngine) {
  install("b");
  install("a");
  start();
  const json::value list = wait(service->list_models());
  EXPECT_EQ(list.at("object").as_string(), "list");
  EXPECT_THAT(listed(), ElementsAre("llama-cpp:a", "llama-cpp:b"));
  const auto& entry = list.at("data").at(0).as_object();
  EXPECT_EQ(entry.at("object").as_string(), "model");
  EXPECT_EQ(entry.at("owned_by").as_string(), "llama-cpp");
  EXPECT_EQ(entry.at("availability").as_string(), "available");
  EXPECT_EQ(entry.at("locality").as_string(), "on-device");
  EXPECT_EQ(entry.at("context_window").to_number<int>(), 4096);
  EXPECT_FALSE(entry.contains("capabilities"));
  EXPECT_THAT(engines, IsEmpty());
}

TEST_F(Service, CreatedIsTheInstallTimeAndStays) {
  install("a");
  const auto installed_at = unix_seconds(clock.wall_now());
  clock.advance(Millis(90'000));
  start();
  EXPECT_EQ(wait(service->list_models()).at("data").at(0).at("created").to_number<std::int64_t>(),
            installed_at);
}

TEST_F(Service, RetrievesOneModelUnderEveryWayToNameIt) {
  install("llama3.1:8b");
  start();
  for (const char* name : {"llama-cpp:llama3.1:8b", "llama-cpp/llama3.1:8b", "llama3.1:8b"}) {
    const auto entry = wait(service->retrieve_model(name));
    ASSERT_TRUE(entry) << name;
    EXPECT_EQ(entry->at("id").as_string(), "llama-cpp:llama3.1:8b");
  }
}

TEST_F(Service, RetrievingAnUnknownModelTellsToList) {
  start();
  for (const char* name : {"llama-cpp:nope", "nope", "mlx:nope"}) {
    const auto entry = wait(service->retrieve_model(name));
    ASSERT_FALSE(entry);
    EXPECT_EQ(entry.error().status, 404);
    EXPECT_EQ(entry.error().code, "model_not_found");
    EXPECT_THAT(entry.error().message, HasSubstr("GET /v1/models"));
  }
}

TEST_F(Service, ShowsWhatTheEngineGrantedAndMeasured) {
  install("a");
  start();
  ASSERT_TRUE(chat("a"));
  auto& status = engines["llama-cpp:a"]->status;
  status.context = 2048;
  status.slots = 4;
  status.chat_template = "default:gemma";
  status.decode_tps = 100.5;
  status.prefill_tps = 900;
  status.kv_type = "f16";
  const auto entry = wait(service->retrieve_model("a")).value();
  EXPECT_EQ(entry.at("context_window").to_number<int>(), 2048);
  EXPECT_EQ(entry.at("chat_template").as_string(), "default:gemma");
  EXPECT_EQ(entry.at("performance").at("source").as_string(), "measured");
  EXPECT_EQ(entry.at("performance").at("decode_tps").as_double(), 100.5);
  EXPECT_EQ(entry.at("performance").at("prefill_tps").as_double(), 900);
  EXPECT_EQ(entry.at("performance").at("measured_at").as_string(), iso_time(clock.wall_now()));
  EXPECT_EQ(entry.at("performance").at("settings").at("kv_type").as_string(), "f16");
}

TEST_F(Service, WhatCalibrationMeasuredCountsMoreThanLiveFigures) {
  install("a");
  start();
  ASSERT_TRUE(chat("a"));
  auto& state = *engines["llama-cpp:a"];
  state.status.decode_tps = 100.5;
  state.status.slots = 4;
  state.calibration =
      R"({"state":"idle","source":"measured","complete":true,"decode_tps":50.5,"prefill_tps":400,)"
      R"("at_depth":4096,"measured_at":"2026-01-01T00:00:00.000Z",)"
      R"("settings":{"flash_attention":false,"kv_type":"f16","threads":2,"source":"measured"}})";
  const auto entry = wait(service->retrieve_model("a")).value();
  const auto& performance = entry.at("performance").as_object();
  EXPECT_EQ(performance.at("decode_tps").as_double(), 50.5);
  EXPECT_EQ(performance.at("at_depth").to_number<int>(), 4096);
  EXPECT_EQ(performance.at("measured_at").as_string(), "2026-01-01T00:00:00.000Z");
  EXPECT_EQ(performance.at("settings").at("source").as_string(), "measured");
  EXPECT_EQ(performance.at("settings").at("slots").to_number<int>(), 4);
  const auto tuned = wait(service->calibration("a")).value();
  EXPECT_EQ(tuned.at("model").as_string(), "llama-cpp:a");
  EXPECT_EQ(tuned.at("state").as_string(), "idle");
}

TEST_F(Service, AModelIsMeasuredAnewOnlyWhereMeasuringIsOn) {
  install("a");
  start();
  EXPECT_EQ(wait(service->calibrate("b")).error().code, "model_not_found");
  EXPECT_EQ(wait(service->calibrate("a")).error().code, "calibration_off");
  engines["llama-cpp:a"]->calibrates = true;
  const auto begun = wait(service->calibrate("a"));
  ASSERT_TRUE(begun);
  EXPECT_EQ(begun->at("state").as_string(), "unknown");
  EXPECT_EQ(engines["llama-cpp:a"]->calibrated, 1);
  EXPECT_TRUE(wait(service->calibration("")).value().at("models").as_array().empty());
}

TEST_F(Service, RemembersMeasurementsOfAnUnloadedModel) {
  install("a");
  start();
  ASSERT_TRUE(chat("a"));
  engines["llama-cpp:a"]->status.decode_tps = 50;
  engines["llama-cpp:a"]->status.chat_template = "default:chatml";
  ASSERT_TRUE(wait(service->stop_model("a", false)));
  const auto entry = wait(service->retrieve_model("a")).value();
  EXPECT_EQ(entry.at("performance").at("decode_tps").as_double(), 50);
  EXPECT_EQ(entry.at("chat_template").as_string(), "default:chatml");
}

TEST_F(Service, AModelWithItsOwnTemplateAndWithoutFiguresShowsNeither) {
  install("a");
  start();
  const auto entry = wait(service->retrieve_model("a")).value().as_object();
  EXPECT_FALSE(entry.contains("chat_template"));
  EXPECT_FALSE(entry.contains("performance"));
}

TEST_F(Service, ShowsTheProfileThatAModelWouldBeLoadedWith) {
  ASSERT_TRUE(import(files.write("g.gguf", models::testing::tiny_model("gemma3")), "copy", "g"));
  start();
  const auto profile = wait(service->retrieve_model("g"))->at("profile");
  EXPECT_EQ(profile, parse_json(R"({"name":"gemma-3","user":false,
                                    "sampling":{"temperature":1.0,"top_p":0.95,"top_k":64}})")
                         .value());
}

TEST_F(Service, AProfileOfTheUserCountsFromTheNextLoadOn) {
  install("a");
  start();
  EXPECT_EQ(wait(service->retrieve_model("a"))->at("profile"),
            parse_json(R"({"name":null,"user":false})").value());
  fs::create_directory(home.path() / "profiles");
  ASSERT_TRUE(write_file_atomic(home.path() / "profiles/mine.json",
                                R"({"name":"mine","match":{"model":["a"]},"max_tokens":5})"));
  EXPECT_EQ(wait(service->retrieve_model("a"))->at("profile"),
            parse_json(R"({"name":null,"overrides":["mine"],"user":true,"max_tokens":5})").value());
  // A running engine has what it was loaded with.
  ASSERT_TRUE(chat("a"));
  engines["llama-cpp:a"]->status.profile = R"({"name":"then","user":false})";
  EXPECT_EQ(wait(service->retrieve_model("a"))->at("profile"),
            parse_json(R"({"name":"then","user":false})").value());
}

TEST_F(Service, AWrongProfileOfTheUserStopsNothing) {
  install("a");
  fs::create_directory(home.path() / "profiles");
  ASSERT_TRUE(write_file_atomic(home.path() / "profiles/wrong.json", R"({"name":"wrong","match":7})"));
  start();
  EXPECT_TRUE(chat("a"));
  EXPECT_EQ(wait(service->retrieve_model("a"))->at("profile"),
            parse_json(R"({"name":null,"user":false})").value());
}

TEST_F(Service, ChatReachesTheEngineOfTheNamedModel) {
  install("a");
  install("b");
  start();
  for (const char* name : {"llama-cpp:b", "llama-cpp/b", " b "}) ASSERT_TRUE(chat(name)) << name;
  EXPECT_EQ(engines["llama-cpp:b"]->generated, 3);
  EXPECT_EQ(engines["llama-cpp:b"]->last.messages.size(), 1U);
  EXPECT_FALSE(engines.contains("llama-cpp:a"));
}

TEST_F(Service, ChatWithAModelThatIsNotThereStartsNoEngine) {
  install("smollm2-135m-instruct");
  start();
  for (const char* name : {"llama-cpp:not-here", "gpt-x", "mlx:foo", "mlx", "ollama:llama3.1:8b"}) {
    const auto generation = chat(name);
    ASSERT_FALSE(generation) << name;
    EXPECT_EQ(generation.error().status, 404) << name;
    EXPECT_EQ(generation.error().code, "model_not_found") << name;
    EXPECT_EQ(generation.error().param, "model") << name;
    EXPECT_THAT(generation.error().message, HasSubstr("GET /v1/models")) << name;
  }
  EXPECT_EQ(chat("gezel:nobody").error().code, "gezel_not_found");
  EXPECT_EQ(chat("  ").error().code, "invalid_body");
  EXPECT_THAT(chat("llama-cpp:smollm2-135m").error().message, HasSubstr("llama-cpp:smollm2-135m-instruct"));
  EXPECT_THAT(engines, IsEmpty());
}

TEST_F(Service, ChatFindsAModelThatAppearedSinceTheLastLook) {
  start();
  settle();
  install("late");
  EXPECT_TRUE(chat("late"));
}

TEST_F(Service, ListsAModelThatAppearedOnceTheLookIsOld) {
  start();
  settle();
  install("late");
  EXPECT_THAT(listed(), IsEmpty());
  clock.advance(Millis(1'000));
  listed();  // asks for a new look
  settle();
  EXPECT_THAT(listed(), ElementsAre("llama-cpp:late"));
}

TEST_F(Service, AModelThatCannotBeUsedSaysWhyWithoutPaths) {
  install("a");
  fs::resize_file(store.root() / "a" / "a.gguf", 0);
  start();
  EXPECT_THAT(listed(), IsEmpty());
  const auto generation = chat("a.gguf").error();
  EXPECT_EQ(generation.code, "model_not_found");
  const auto invalid = chat("llama-cpp:a");
  ASSERT_FALSE(invalid);
  EXPECT_EQ(invalid.error().status, 503);
  EXPECT_EQ(invalid.error().code, "model_invalid");
  EXPECT_THAT(invalid.error().message, HasSubstr("a.gguf is empty"));
  EXPECT_THAT(invalid.error().message, Not(HasSubstr(home.path().string())));
  EXPECT_THAT(engines, IsEmpty());
}

TEST_F(Service, AReferenceWhoseFileIsGoneIsInvalidEveryTimeAndWorksAtOnceWhenItIsBack) {
  install("a", "reference");
  start();
  settle();
  const fs::path file = files.path() / "a.gguf", elsewhere = files.path() / "elsewhere";
  fs::rename(file, elsewhere);
  clock.advance(Millis(1'000));
  listed();
  settle();
  for (const char* name : {"a", "a", "llama-cpp:a", "llama-cpp/a"}) {
    for (const api::ApiError& error : {chat(name).error(), wait(service->retrieve_model(name)).error()}) {
      EXPECT_EQ(error.status, 503) << name;
      EXPECT_EQ(error.code, "model_invalid") << name;
      EXPECT_THAT(error.message, HasSubstr("a.gguf is missing")) << name;
      EXPECT_THAT(error.message, Not(HasSubstr(files.path().string()))) << name;
    }
  }
  EXPECT_THAT(listed(), IsEmpty());
  fs::rename(elsewhere, file);
  EXPECT_THAT(listed(), ElementsAre("llama-cpp:a"));
  fs::rename(file, elsewhere);
  clock.advance(Millis(1'000));
  listed();
  settle();
  fs::rename(elsewhere, file);
  EXPECT_TRUE(chat("a"));
}

TEST_F(Service, EngineErrorsKeepTheirCodeAndStatus) {
  install("a");
  start();
  engine_of("llama-cpp:a")->refuses =
      engine::make_error("capacity-denied", "needs 8 GiB, 2 GiB are available");
  const auto generation = chat("a");
  ASSERT_FALSE(generation);
  EXPECT_EQ(generation.error().status, 503);
  EXPECT_EQ(generation.error().code, "capacity_denied");
}

TEST_F(Service, RequestsWaitUntilOrphansAreEnded) {
  install("a");
  bool reaped = false;
  start([&] {
    EXPECT_THAT(engines, IsEmpty());
    reaped = true;
  });
  EXPECT_TRUE(chat("a"));
  EXPECT_TRUE(reaped);
}

TEST_F(Service, RequestsAreServedAlthoughEndingOrphansFailed) {
  install("a");
  start([] { throw std::runtime_error("no"); });
  EXPECT_TRUE(chat("a"));
}

TEST_F(Service, HealthNeedsNoEngineAndSaysWhenItStops) {
  start();
  const auto health = service->health();
  EXPECT_TRUE(health.at("ok").as_bool());
  EXPECT_EQ(health.at("version").as_string(), "1.2.3");
  EXPECT_EQ(health.at("startedAt").as_string(), iso_time(clock.wall_now()));
  EXPECT_EQ(health.at("embeddings").at("status").as_string(), "disabled");
  EXPECT_FALSE(health.at("ds4ServerBundled").as_bool());
  EXPECT_FALSE(health.at("platform").as_string().empty());
  EXPECT_FALSE(health.at("serviceRole").as_string().empty());
  wait(service->stop());
  EXPECT_EQ(to_json(service->health()), R"({"ok":false,"stopping":true})");
}

TEST_F(Service, PsShowsExactlyTheAgreedMembers) {
  install("a");
  start();
  EXPECT_EQ(to_json(service->ps()), R"({"models":[],"neighbour":{"mode":"off"}})");
  ASSERT_TRUE(chat("a"));
  engines["llama-cpp:a"]->status = {.state = engine::State::ready,
                                    .pid = 42,
                                    .bytes = 1000,
                                    .slots = 8,
                                    .slots_busy = 1,
                                    .context = 8192,
                                    .queued = 2,
                                    .lanes = {{{.running = 1, .queued = 0}, {.running = 0, .queued = 2}}},
                                    .idle_ms = 7,
                                    .unload_at = clock.wall_now(),
                                    .chat_template = {},
                                    .kv_type = {}};
  EXPECT_EQ(
      to_json(service->ps()),
      fmt::format(
          R"({{"models":[{{"id":"llama-cpp:a","state":"ready","pid":42,"bytes":1000,"slots":8,"slots_busy":1,)"
          R"("context":8192,"queued":2,"lanes":{{"interactive":{{"running":1,"queued":0}},"background":{{"running":0,)"
          R"("queued":2}}}},"threads":0,"nice":0,"idle_ms":7,"unload_at":"{}"}}],"neighbour":{{"mode":"off"}}}})",
          iso_time(clock.wall_now())));
}

TEST_F(Service, StopsALoadedModelAndRefusesTheOthers) {
  install("a");
  install("b");
  start();
  EXPECT_EQ(wait(service->stop_model("nope", false)).error().code, "model_not_found");
  const auto idle = wait(service->stop_model("b", false));
  EXPECT_EQ(idle.error().status, 404);
  EXPECT_EQ(idle.error().code, "model_not_loaded");
  ASSERT_TRUE(chat("a"));
  EXPECT_TRUE(wait(service->stop_model("llama-cpp:a", false)));
  EXPECT_EQ(engines["llama-cpp:a"]->stopped, 1);
}

TEST_F(Service, ABusyModelStopsOnlyByForce) {
  install("a");
  start();
  ASSERT_TRUE(chat("a"));
  engines["llama-cpp:a"]->busy = true;
  const auto refused = wait(service->stop_model("a", false));
  EXPECT_EQ(refused.error().status, 409);
  EXPECT_EQ(refused.error().code, "model_busy");
  EXPECT_TRUE(wait(service->stop_model("a", true)));
}

TEST_F(Service, ALoadedModelCanBeStoppedAfterItsFilesAreGone) {
  install("a");
  start();
  ASSERT_TRUE(chat("a"));
  fs::remove_all(store.root() / "a");
  clock.advance(Millis(2'000));
  listed();
  settle();
  EXPECT_TRUE(wait(service->stop_model("llama-cpp:a", false)));
}

TEST_F(Service, ImportsAFileAndOffersItAtOnce) {
  start();
  const fs::path file = files.write("My Model.gguf", tiny_model());
  const auto reply = wait(service->import_model({{"path", file.string()}}));
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->at("model").at("id").as_string(), "llama-cpp:local-my-model");
  EXPECT_EQ(reply->at("model").at("quantization").as_string(), "Q4_K_M");
  EXPECT_THAT(listed(), ElementsAre("llama-cpp:local-my-model"));
}

TEST_F(Service, AReferenceIsHashedInTheBackground) {
  start();
  const fs::path file = files.write("a.gguf", tiny_model());
  ASSERT_TRUE(wait(service->import_model({{"path", file.string()}})));
  settle();
  EXPECT_EQ(string_or(manifest_of("local-a"), "sha256"), sha256_hex(tiny_model()));
}

TEST_F(Service, FilesThatChangedAreHashedAtStartAndRefusedWhenTheyDiffer) {
  install("a");
  std::string damaged = tiny_model();
  damaged.back() = 'x';
  home.write("engines/llama-cpp/models/a/a.gguf", damaged);
  start();
  settle();
  const auto generation = chat("llama-cpp:a");
  ASSERT_FALSE(generation);
  EXPECT_EQ(generation.error().code, "model_invalid");
  EXPECT_THAT(generation.error().message, HasSubstr(sha256_hex(tiny_model())));
  EXPECT_THAT(generation.error().message, HasSubstr(sha256_hex(damaged)));
}

TEST_F(Service, AnImportOverALoadedModelUnloadsIt) {
  install("a");
  start();
  ASSERT_TRUE(chat("a"));
  fs::remove(store.root() / "a" / "a.gguf");
  const fs::path file = files.write("other.gguf", tiny_model());
  ASSERT_TRUE(wait(service->import_model({{"path", file.string()}, {"id", "a"}, {"mode", "copy"}})));
  EXPECT_EQ(engines["llama-cpp:a"]->stopped, 1);
}

TEST_F(Service, AnImportLiftsTheModelsQuarantine) {
  const fs::path folder = engine::quarantine_folder(home.path());
  ASSERT_TRUE(make_private_folder(folder));
  ASSERT_TRUE(write_file_atomic(folder / "unusable.json",
                                R"({"schemaVersion":1,"entries":[
           {"backend":"cpu","fingerprint":"1:1","model":"llama-cpp:a","modelFingerprint":"7:7","reason":"x"},
           {"backend":"cpu","fingerprint":"1:1","model":"llama-cpp:b","modelFingerprint":"7:7","reason":"x"}]})"));
  start();
  const fs::path file = files.write("other.gguf", tiny_model());
  ASSERT_TRUE(wait(service->import_model({{"path", file.string()}, {"id", "a"}})));
  const auto left = engine::Quarantine(folder, clock).entries();
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].model_id, "llama-cpp:b");
}

TEST_F(Service, AQuarantineIsListedAndLiftedByEitherName) {
  const fs::path folder = engine::quarantine_folder(home.path());
  ASSERT_TRUE(make_private_folder(folder));
  ASSERT_TRUE(write_file_atomic(folder / "unusable.json",
                                R"({"schemaVersion":1,"entries":[
           {"backend":"cpu","fingerprint":"1:1","model":"llama-cpp:a","modelFingerprint":"7:7","reason":"x","at":"t"},
           {"backend":"cpu","fingerprint":"1:1","reason":"y","at":"t"}]})"));
  start();
  EXPECT_EQ(to_json(service->quarantine()),
            R"({"quarantined":[{"model":"llama-cpp:a","backend":"cpu","reason":"x","at":"t"},)"
            R"({"model":null,"backend":"cpu","reason":"y","at":"t"}]})");
  EXPECT_EQ(service->clear_quarantine("b").error().code, "not_quarantined");
  EXPECT_EQ(to_json(*service->clear_quarantine("a")), R"({"cleared":1})");
  EXPECT_EQ(to_json(*service->clear_quarantine("")), R"({"cleared":1})");
  EXPECT_EQ(to_json(*service->clear_quarantine("")), R"({"cleared":0})");
}

TEST_F(Service, ImportErrorsNameTheMember) {
  start();
  const std::string file = files.write("a.gguf", tiny_model()).string();
  struct Case {
    json::object body;
    int status;
    std::string code, param;
  };
  const std::vector<Case> table = {
      {{}, 400, "invalid_body", "path"},
      {{{"path", 7}}, 400, "invalid_body", "path"},
      {{{"path", file}, {"mode", 1}}, 400, "invalid_body", "mode"},
      {{{"path", file}, {"speed", "fast"}}, 400, "invalid_body", "speed"},
      {{{"path", file}, {"backend", "mlx"}}, 400, "unsupported_backend", "backend"},
      {{{"path", file}, {"mode", "teleport"}}, 400, "invalid_mode", "mode"},
      {{{"path", file}, {"id", "../other"}}, 400, "invalid-model-id", "id"},
      {{{"path", "relative.gguf"}}, 400, "invalid_path", "path"},
      {{{"path", file + ".absent"}}, 400, "file_not_found", "path"},
  };
  for (const Case& row : table) {
    const auto reply = wait(service->import_model(row.body));
    ASSERT_FALSE(reply) << to_json(row.body);
    EXPECT_EQ(reply.error().status, row.status) << to_json(row.body);
    EXPECT_EQ(reply.error().code, row.code) << to_json(row.body);
    EXPECT_EQ(reply.error().param, row.param) << to_json(row.body);
  }
  ASSERT_TRUE(wait(service->import_model({{"path", file}})));
  EXPECT_EQ(wait(service->import_model({{"path", file}})).error().status, 409);
}

TEST_F(Service, WorkerStatisticsAreThoseOfTheLoadedModel) {
  install("a");
  start();
  EXPECT_EQ(wait(service->worker_stats("nope")).error().code, "model_not_found");
  EXPECT_EQ(wait(service->worker_stats("a")).error().code, "model_not_loaded");
  ASSERT_TRUE(chat("a"));
  engines["llama-cpp:a"]->stats = R"({"steps":3})";
  EXPECT_EQ(to_json(wait(service->worker_stats("a")).value()),
            R"({"steps":3,"replay":{"answers":0,"bytes":0,"hits":0,"misses":0}})");
}

TEST_F(Service, StopEndsEnginesOnceAndRefusesNewWork) {
  install("a");
  start();
  ASSERT_TRUE(chat("a"));
  wait(service->stop());
  wait(service->stop());
  EXPECT_TRUE(service->stopping());
  EXPECT_EQ(engines["llama-cpp:a"]->stopped, 1);
  EXPECT_EQ(chat("a").error().code, "shutting_down");
  EXPECT_EQ(wait(service->import_model({{"path", "/x"}})).error().code, "shutting_down");
}

TEST_F(Service, PinnedDefaultsAnswerForTheirProvider) {
  install("a");
  options.pins.default_model = {{"llama-cpp", "a"}};
  start();
  EXPECT_TRUE(chat("llama-cpp"));
  EXPECT_TRUE(chat("llama-cpp:"));
}

TEST_F(Service, TheWishedContextShowsUntilOneIsGranted) {
  install("a");
  options.context = 1024;
  start();
  EXPECT_EQ(wait(service->retrieve_model("a"))->at("context_window").to_number<int>(), 1024);
}

// --- what a load would get

class Planned : public Service {
 protected:
  Planned() {
    admission = std::make_shared<engine::Admission>(
        engine::Admission::Parts{.loop = loop.get_executor(),
                                 .clock = clock,
                                 .timers = std::make_shared<engine::LoopTimers>(loop.get_executor()),
                                 .machine = [this] {
                                   engine::Admission::Machine machine;
                                   machine.pools.budget_bytes = 4 * kGiB;
                                   machine.total_ram = 8 * kGiB;
                                   machine.free_ram = free;
                                   return machine;
                                 }});
  }
  json::object context() { return wait(service->retrieve_model("a")).value().at("context").as_object(); }
  testing::FakeState& state() { return *engine_of("llama-cpp:a"); }
  Bytes free = 4 * kGiB;
};

capacity::MemoryPlan plan_of(capacity::Tokens context) {
  capacity::MemoryPlan plan;
  plan.decision = capacity::Decision::fits;
  plan.context = context;
  plan.slots = 3;
  return plan;
}

TEST_F(Planned, AModelIsPlannedAnewOnlyWhenMemoryOrItsFilesChanged) {
  install("a");
  start();
  state().plan = plan_of(8192);
  EXPECT_EQ(context().at("planned"), 8192);
  free -= 16 * kMiB;
  EXPECT_EQ(context().at("slots"), 3);
  EXPECT_EQ(state().planned, 1);
  free = kGiB;
  state().plan = plan_of(4096);
  EXPECT_EQ(context().at("planned"), 4096);
  EXPECT_EQ(state().planned, 2);
}

TEST_F(Planned, ALoadedModelShowsWhatItHasAndIsNotPlanned) {
  install("a");
  start();
  auto& status = state().status;
  status.state = engine::State::ready;
  status.context = 2048;
  status.slots = 2;
  status.below_floor = true;
  const auto shown = context();
  EXPECT_EQ(shown.at("granted"), 2048);
  EXPECT_EQ(shown.at("planned"), 2048);
  EXPECT_EQ(shown.at("below_floor"), true);
  EXPECT_EQ(shown.at("slots"), 2);
  EXPECT_EQ(state().planned, 0);
}

TEST_F(Planned, AStaleModelShowsWhatItHasAndWhatALoadWouldGet) {
  install("a");
  start();
  auto& status = state().status;
  status.state = engine::State::ready;
  status.context = 2048;
  status.slots = 2;
  status.stale = "window";
  state().plan = plan_of(8192);
  const auto shown = context();
  EXPECT_EQ(shown.at("granted"), 2048);
  EXPECT_EQ(shown.at("planned"), 8192);
  EXPECT_EQ(shown.at("slots"), 2) << "what is loaded";
}

TEST_F(Planned, AModelThatHasNoRoomHasNoPlannedWindow) {
  install("a");
  start();
  state().plan = plan_of(8192);
  context();
  free = 0;
  state().plan = capacity::MemoryPlan{};
  EXPECT_TRUE(context().at("planned").is_null());
}

TEST_F(Service, ABusyModelWithNewFilesIsToldToLoadThemWhenItIsIdle) {
  install("a");
  start();
  ASSERT_TRUE(chat("a"));
  engines["llama-cpp:a"]->busy = true;
  const auto again = files.write("a.gguf", models::testing::tiny_model());
  ASSERT_TRUE(wait(service->import_model({{"path", again.string()}, {"id", "a"}})));
  EXPECT_EQ(engines["llama-cpp:a"]->stopped, 0);
  EXPECT_EQ(engines["llama-cpp:a"]->refreshed, 1);
}

TEST(ModelEntry, ShowsTheExpectedDefaultTemplateUntilAnEngineSaysOtherwise) {
  models::InstalledModel model;
  model.id = "m";
  model.default_template = "default:gemma";
  EXPECT_EQ(full_entry(model, {}).at("chat_template").as_string(), "default:gemma");
  ModelFacts facts;
  facts.default_template = "default:plain";
  EXPECT_EQ(full_entry(model, facts).at("chat_template").as_string(), "default:plain");
}

TEST(InstallTime, IsReadFromIsoText) {
  EXPECT_EQ(unix_seconds_of("1970-01-01T00:00:00.000Z"), 0);
  EXPECT_EQ(unix_seconds_of("2023-11-14T22:13:20.500Z"), 1'700'000'000);
  for (const char* text : {"", "x", "2023-13-14T22:13:20Z", "2023-02-30T00:00:00Z", "2023-11-14 22:13:20Z"}) {
    EXPECT_EQ(unix_seconds_of(text), 0) << text;
  }
}

}  // namespace
}  // namespace gezel::service
