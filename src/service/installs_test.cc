// Installs, deletion and discovery through the service; downloads come from memory.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>
#include <tuple>

#include "models/install_events.h"
#include "service/test_service.h"

namespace gezel::service {
namespace {

using models::testing::tiny_model;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class InstallService : public testing::ServiceTest {
 protected:
  // An item of the user's catalog for a file that the hub has.
  void offer(const std::string& id, const std::string& content, std::string_view more = "",
             std::string sha256 = {}) {
    if (sha256.empty()) sha256 = sha256_hex(content);
    client.files[id + ".gguf?download=true"] = content;  // by the end of the address
    const std::string folder = fmt::format("catalog/chat-models/{}/{}", id.substr(0, 2), id);
    home.write(
        folder + "/manifest.json",
        fmt::format(R"({{"id":"{0}","name":"Model {0}","description":"A model.","licenseClass":"open",)"
                    R"("maintainer":{{"name":"Org"}},"parameterSize":"1B","supportsTools":true{1}}})",
                    id, more));
    home.write(
        folder + "/versions/1.0.0/manifest.json",
        fmt::format(R"({{"version":"1.0.0","releasedAt":"2026-08-01T00:00:00Z","approxSizeBytes":{0},)"
                    R"("llamaCpp":{{"huggingfaceRepo":"org/model","filename":"{1}.gguf","sha256":"{2}",)"
                    R"("approxSizeBytes":{0}}}}})",
                    content.size(), id, sha256));
  }
  auto ensure(const std::string& model, bool allow_hub = false) {
    return wait(service->installs().ensure({.model = model, .allow_network_names = allow_hub}));
  }
  std::string ensure_code(const std::string& model) {
    const auto result = ensure(model);
    return result ? "" : fmt::format("{} {}", result.error().status, result.error().code);
  }
  std::vector<std::string> event_types(const std::string& job) {
    std::vector<std::string> out;
    const auto view = service->installs().job(job);
    EXPECT_TRUE(view);
    if (!view) return out;
    for (const auto& event : view->at("events").as_array()) out.emplace_back(event.at("type").as_string());
    return out;
  }
  json::value entry(std::string_view id) {
    for (const auto& each : wait(service->list_models()).at("data").as_array()) {
      if (each.at("id").as_string() == id) return each;
    }
    return nullptr;
  }
  models::DiscoveredModel found(const std::string& source, const fs::path& path, const std::string& id) {
    models::DiscoveredModel row;
    row.source = source;
    row.paths = {path};
    row.suggested_id = id;
    row.name = "Found";
    row.importable = true;
    return row;
  }
};

TEST_F(InstallService, AModelOfTheCatalogIsInstalledOnceAndThenReady) {
  offer("small-q4", tiny_model());
  start();
  EXPECT_EQ(entry("llama-cpp:small-q4").at("availability").as_string(), "downloadable");
  const auto started = ensure("llama-cpp:small-q4");
  ASSERT_TRUE(started) << started.error().message;
  EXPECT_EQ(started->model_id, "llama-cpp:small-q4");
  ASSERT_NE(started->job_id, "");
  settle();
  EXPECT_THAT(event_types(started->job_id),
              ElementsAre("progress", "verifying", "progress", "extracting-metadata", "done"));
  EXPECT_EQ(entry("llama-cpp:small-q4").at("availability").as_string(), "available");
  EXPECT_TRUE(entry("llama-cpp:small-q4").at("capabilities").at("tools").as_bool());
  EXPECT_EQ(ensure("llama-cpp:small-q4")->job_id, "");
  EXPECT_TRUE(chat("llama-cpp:small-q4"));
}

TEST_F(InstallService, EnsureChecksInTheOrderOfTheContract) {
  offer("small-q4", tiny_model());
  install("mine");
  start();
  for (const char* model : {"", "small-q4", "ollama:x", "llama-cpp:../x"})
    EXPECT_EQ(ensure_code(model), "400 ambiguous_model") << model;
  EXPECT_EQ(ensure_code("llama-cpp:mine"), "") << "imported models are ready without a catalog entry";
  EXPECT_EQ(ensure_code("llama-cpp:nothing"), "404 unknown_model");
  EXPECT_EQ(ensure_code("mlx:small-q4"), "400 no_source_for_backend");
  EXPECT_THAT(ensure("mlx:small-q4").error().message, HasSubstr("llama-cpp:small-q4"));
  EXPECT_EQ(ensure_code("hf:org/repo"), "403 missing_scope:ui");
  EXPECT_EQ(service->installs().job("none").error().code, "job_not_found");
}

TEST_F(InstallService, AMirrorThatTheCallerNamesAnswersWhereTheHubDoesNot) {
  offer("small-q4", tiny_model());
  client.down = {"huggingface.co"};
  start();
  const auto ensure_from = [&](std::vector<std::string> mirrors, bool allowed) {
    return wait(service->installs().ensure(
        {.model = "llama-cpp:small-q4", .allow_network_names = allowed, .mirrors = std::move(mirrors)}));
  };
  EXPECT_EQ(ensure_from({"https://mirror.example/hub"}, false).error().code, "missing_scope:ui");
  EXPECT_EQ(ensure_from({"http://mirror.example"}, true).error().code, "invalid_mirrors");
  const auto started = ensure_from({"https://mirror.example/hub"}, true);
  ASSERT_TRUE(started) << started.error().message;
  settle();
  EXPECT_EQ(event_types(started->job_id).back(), "done");
  EXPECT_EQ(client.hosts.back(), "mirror.example");
}

TEST_F(InstallService, AFailedInstallSaysWhyAndLeavesTheModelDownloadable) {
  offer("small-q4", tiny_model(), "", std::string(64, 'a'));
  start();
  const auto started = ensure("llama-cpp:small-q4");
  ASSERT_TRUE(started);
  settle();
  const auto view = service->installs().job(started->job_id);
  EXPECT_EQ(view->at("status").as_string(), "error");
  EXPECT_EQ(view->at("events").as_array().back().at("code").as_string(), "hash_mismatch");
  EXPECT_EQ(entry("llama-cpp:small-q4").at("availability").as_string(), "downloadable");
  EXPECT_NE(ensure("llama-cpp:small-q4")->job_id, started->job_id) << "a retry is a new job";
  settle();
}

TEST_F(InstallService, AWatcherGetsEveryEventAndTheEnd) {
  offer("small-q4", tiny_model());
  start();
  const auto started = ensure("llama-cpp:small-q4");
  settle();
  const auto watch = service->installs().watch(started->job_id);
  ASSERT_TRUE(watch);
  const auto events = wait((*watch)->next(Millis(0)));
  ASSERT_EQ(events.size(), 5U);
  EXPECT_THAT(events.back(), HasSubstr(R"("type":"done")"));
  EXPECT_THAT(events.back(), HasSubstr(R"("modelId":"llama-cpp:small-q4")"));
  EXPECT_TRUE((*watch)->ended());
  EXPECT_THAT(wait((*watch)->next(Millis(0))), IsEmpty());
}

TEST_F(InstallService, AnUninstalledModelOfTheCatalogSaysHowToGetIt) {
  offer("small-q4", tiny_model(), R"(,"aliases":["small"])");
  start();
  for (const char* name : {"llama-cpp:small-q4", "llama-cpp/small-q4", "small-q4", "llama-cpp:small"}) {
    const auto refused = chat(name);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, "model_not_found");
    EXPECT_THAT(refused.error().message, HasSubstr("gezel pull small-q4")) << name;
  }
  EXPECT_THAT(chat("llama-cpp:other").error().message, Not(HasSubstr("gezel pull other")));
  const auto single = wait(service->retrieve_model("llama-cpp:small-q4"));
  ASSERT_TRUE(single);
  EXPECT_EQ(single->at("availability").as_string(), "downloadable");
}

TEST_F(InstallService, AnAliasOfTheCatalogMeansTheInstalledModel) {
  offer("small-q4", tiny_model(), R"(,"aliases":["small"])");
  start();
  EXPECT_TRUE(entry("llama-cpp:small").is_null());
  ensure("llama-cpp:small-q4");
  settle();
  EXPECT_EQ(entry("llama-cpp:small").at("alias_of").as_string(), "llama-cpp:small-q4");
  EXPECT_TRUE(chat("llama-cpp:small"));
  EXPECT_TRUE(wait(service->stop_model("small", true)));
  EXPECT_THAT(engines, Contains(::testing::Key("llama-cpp:small-q4")));
  EXPECT_THAT(engines, Not(Contains(::testing::Key("llama-cpp:small"))));
}

TEST_F(InstallService, DeletingALoadedModelNeedsForce) {
  install("a");
  start();
  ASSERT_TRUE(chat("llama-cpp:a"));
  const auto refused = wait(service->installs().remove("a", false));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, 409);
  EXPECT_EQ(refused.error().code, "model_in_use");
  EXPECT_THAT(refused.error().message, HasSubstr("llama-cpp engine (ready)"));
  EXPECT_TRUE(wait(service->installs().remove("a", true)));
  EXPECT_EQ(engine_of("llama-cpp:a")->stopped, 1);
  EXPECT_THAT(listed(), IsEmpty());
  EXPECT_EQ(chat("llama-cpp:a").error().code, "model_not_found");
}

TEST_F(InstallService, Case42DeletingByForceStopsTheEngineAndRemovesTheFolder) {
  install("a");
  start();
  ASSERT_TRUE(chat("llama-cpp:a"));
  EXPECT_EQ(wait(service->installs().remove("a", false)).error().status, 409);
  ASSERT_TRUE(wait(service->installs().remove("a", true)));
  EXPECT_EQ(engine_of("llama-cpp:a")->stopped, 1);
  EXPECT_FALSE(fs::exists(store.root() / "a"));
}

TEST_F(InstallService, Case49AnImportIsListedWithoutCapabilities) {
  const fs::path file = files.write("My Model.Q4_K_M.gguf", tiny_model());
  ASSERT_TRUE(import(file));
  start();
  const auto listed = entry("llama-cpp:local-my-model.q4-k-m");
  ASSERT_TRUE(listed.is_object());
  EXPECT_FALSE(listed.as_object().contains("capabilities"));
  ASSERT_TRUE(wait(service->installs().remove("local-my-model.q4-k-m", false)));
  EXPECT_TRUE(fs::exists(file));
}

TEST_F(InstallService, DeletionNamesWhatIsNotThere) {
  start();
  EXPECT_EQ(wait(service->installs().remove("nothing", false)).error().code, "model_not_installed");
  EXPECT_EQ(wait(service->installs().remove("../x", false)).error().code, "invalid-model-id");
}

TEST_F(InstallService, InventoriesForManagement) {
  offer("small-q4", tiny_model());
  start();
  ensure("llama-cpp:small-q4");
  settle();
  const auto rows = wait(service->installs().installed()).at("models").as_array();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].at("source").as_string(), "catalog");
  EXPECT_EQ(rows[0].at("catalogVersion").as_string(), "1.0.0");
  EXPECT_FALSE(rows[0].at("updateAvailable").as_bool());
  EXPECT_THAT(wait(service->installs().incomplete()).at("incomplete").as_array(), IsEmpty());
  EXPECT_THAT(service->installs().active().at("installs").as_array(), IsEmpty());
  EXPECT_FALSE(service->installs().cancel("small-q4").at("aborted").as_bool());
}

TEST_F(InstallService, ADiscoveredModelIsRegisteredByReferenceOnFirstUse) {
  const fs::path path = files.write("other/blob", tiny_model());
  installs->discover = [this, path](std::stop_token) {
    return std::vector{found("ollama", path, "local-blob")};
  };
  start();
  settle();
  EXPECT_THAT(listed(), ElementsAre("discovered:ollama/local-blob"));
  EXPECT_TRUE(chat("discovered:ollama/local-blob"));
  EXPECT_THAT(listed(), ElementsAre("llama-cpp:local-blob"));
  EXPECT_TRUE(chat("discovered:ollama/local-blob")) << "the name stays good";
  EXPECT_EQ(engine_of("llama-cpp:local-blob")->generated, 2);
  EXPECT_EQ(store.find("local-blob")->source, "external");
  const auto rows = wait(service->installs().discovered("ollama")).at("models").as_array();
  EXPECT_EQ(rows.at(0).at("installedAs").as_string(), "local-blob");
  EXPECT_TRUE(wait(service->installs().remove("local-blob", true)));
  EXPECT_TRUE(fs::exists(path));
}

TEST_F(InstallService, AQuestionAboutADiscoveredModelRegistersNothing) {
  const fs::path path = files.write("other/blob", tiny_model());
  installs->discover = [this, path](std::stop_token) {
    return std::vector{found("ollama", path, "local-blob")};
  };
  start();
  settle();
  const std::string id = "discovered:ollama/local-blob";
  EXPECT_EQ(string_or(wait(service->retrieve_model(id))->get_object(), "id"), id);
  EXPECT_EQ(string_or(wait(service->calibration(id))->get_object(), "state"), "unknown");
  EXPECT_EQ(wait(service->worker_stats(id)).error().code, "model_not_loaded");
  EXPECT_EQ(wait(service->stop_model(id, false)).error().code, "model_not_loaded");
  api::CacheRequest list;
  list.model = id;
  EXPECT_EQ(wait(service->cache(list)).error().code, "model_not_loaded");
  api::CacheRequest hint;
  hint.model = id;
  hint.query.op = engine::CacheQuery::Op::warm;
  EXPECT_EQ(wait(service->cache(hint))->outcome, CacheAnswer::Outcome::not_loaded);
  wait(service->memory_plan({.model = id, .wish = {}, .cancelled = nullptr}));
  EXPECT_THAT(listed(), ElementsAre(id));
  EXPECT_FALSE(store.find("local-blob"));
}

TEST_F(InstallService, ADiscoveredModelThatCannotBeRegisteredNamesNoFolder) {
  const fs::path path = files.path() / "other" / "gone.gguf";
  installs->discover = [this, path](std::stop_token) {
    return std::vector{found("ollama", path, "local-x")};
  };
  start();
  settle();
  const auto refused = chat("discovered:ollama/local-x");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("gone.gguf"), Not(HasSubstr(files.path().string()))));
}

TEST_F(InstallService, WhatIsNotDiscoveredOrUsableSaysSo) {
  auto row = found("ollama", files.write("x", "x"), "local-x");
  row.importable = false;
  row.reason = "it is too old";
  installs->discover = [row](std::stop_token) { return std::vector{row}; };
  start();
  settle();
  EXPECT_THAT(listed(), IsEmpty());
  EXPECT_THAT(chat("discovered:ollama/local-x").error().message, HasSubstr("it is too old"));
  EXPECT_EQ(chat("discovered:ollama/none").error().code, "model_not_found");
  EXPECT_EQ(chat("discovered:").error().code, "model_not_found");
}

TEST_F(InstallService, AnIdThatIsTakenGetsANumber) {
  install("local-x");
  const fs::path path = files.write("other/x.gguf", tiny_model("llama", 128));
  installs->discover = [this, path](std::stop_token) {
    return std::vector{found("lm-studio", path, "local-x")};
  };
  start();
  settle();
  EXPECT_TRUE(chat("discovered:lm-studio/local-x"));
  EXPECT_THAT(listed(), ElementsAre("llama-cpp:local-x-2", "llama-cpp:local-x"));
}

TEST_F(InstallService, TwoFilesOfTheHubAreTwoModels) {
  start();
  const auto pull = [&](const std::string& repository, const std::string& path, std::uint64_t fill) {
    const std::string content = tiny_model("llama", fill), commit(40, 'c');
    client.files["main"] = R"({"sha":")" + commit + R"("})";
    client.files[commit + "?recursive=true"] =
        fmt::format(R"([{{"type":"file","path":"{}","size":{},"lfs":{{"oid":"{}"}}}}])", path, content.size(),
                    sha256_hex(content));
    client.files["m.gguf?download=true"] = content;
    const auto started = ensure("hf:" + repository, true);
    EXPECT_TRUE(started) << started.error().message;
    settle();
    return *started;
  };
  const auto first = pull("org/a", "m.gguf", 64);
  EXPECT_EQ(first.model_id, "llama-cpp:local-m");
  EXPECT_NE(first.job_id, "");
  std::set<std::string> ids{first.model_id};
  for (const auto& [repository, path, fill] :
       {std::tuple{"org/b", "m.gguf", 128}, {"org/a", "sub/m.gguf", 256}}) {
    const auto other = pull(repository, path, fill);
    EXPECT_THAT(other.model_id, ::testing::StartsWith("llama-cpp:local-m-"));
    EXPECT_EQ(event_types(other.job_id).back(), "done");
    const auto again = pull(repository, path, fill);
    EXPECT_EQ(again.model_id, other.model_id);
    EXPECT_EQ(again.job_id, "") << "it is there";
    ids.insert(other.model_id);
  }
  EXPECT_EQ(ids.size(), 3U);
  EXPECT_EQ(pull("org/a", "m.gguf", 64).job_id, "");
  const auto changed = pull("org/a", "m.gguf", 512);
  EXPECT_EQ(changed.model_id, first.model_id);
  EXPECT_NE(changed.job_id, "") << "what is installed is not what the hub has";
  EXPECT_EQ(event_types(changed.job_id).back(), "done");
}

TEST_F(InstallService, AnUpdateKeepsTheProjector) {
  const std::string projector = tiny_model("clip", 32);
  client.files["mmproj.gguf?download=true"] = projector;
  offer("small-q4", tiny_model());
  const std::string path = "catalog/chat-models/sm/small-q4/versions/1.0.0/manifest.json";
  std::string version = read_file(home.path() / path).value();
  version.insert(version.size() - 2,
                 fmt::format(R"(,"mmproj":{{"filename":"mmproj.gguf","sha256":"{}","sizeBytes":{}}})",
                             sha256_hex(projector), projector.size()));
  home.write(path, version);
  start();
  const auto install = [&](bool include_projector) {
    const auto started = wait(service->installs().install(
        {.id = "small-q4", .skip_sha = false, .include_projector = include_projector}));
    ASSERT_TRUE(started) << started.error().message;
    settle();
    ASSERT_TRUE(store.find("small-q4"));
  };
  install(false);
  EXPECT_TRUE(store.find("small-q4")->projector.empty()) << "nobody asked for it";
  install(true);
  EXPECT_FALSE(store.find("small-q4")->projector.empty());
  install(false);
  EXPECT_FALSE(store.find("small-q4")->projector.empty());
}

TEST_F(InstallService, ARepairKeepsTheProjector) {
  const std::string projector = tiny_model("clip", 32);
  client.files["mmproj.gguf?download=true"] = projector;
  offer("small-q4", tiny_model());
  const std::string path = "catalog/chat-models/sm/small-q4/versions/1.0.0/manifest.json";
  std::string version = read_file(home.path() / path).value();
  version.insert(version.size() - 2,
                 fmt::format(R"(,"mmproj":{{"filename":"mmproj.gguf","sha256":"{}","sizeBytes":{}}})",
                             sha256_hex(projector), projector.size()));
  home.write(path, version);
  start();
  ASSERT_TRUE(wait(service->installs().install({.id = "small-q4", .include_projector = true})));
  settle();
  const auto whole = store.find("small-q4");
  ASSERT_TRUE(whole);
  for (const fs::path& lost : {whole->projector, whole->weights}) {
    fs::remove(lost);
    ASSERT_FALSE(store.find("small-q4"));
    ASSERT_TRUE(ensure("llama-cpp:small-q4"));
    settle();
    const auto repaired = store.find("small-q4");
    ASSERT_TRUE(repaired) << repaired.error().message;
    EXPECT_FALSE(repaired->projector.empty()) << lost;
  }
}

TEST_F(InstallService, AShutdownEndsTheLookForModelsOfOthers) {
  std::stop_token told;
  installs->discover = [&](std::stop_token stop) {
    told = stop;
    return std::vector<models::DiscoveredModel>();
  };
  start();
  settle();
  ASSERT_TRUE(told.stop_possible());
  EXPECT_FALSE(told.stop_requested());
  wait(service->stop());
  EXPECT_TRUE(told.stop_requested());
}

TEST_F(InstallService, AnInstallOfABadIdIsRefused) {
  start();
  for (const char* id : {"../x", "", ".x", "a/b"}) {
    const auto refused = wait(service->installs().install({.id = id}));
    ASSERT_FALSE(refused) << id;
    EXPECT_EQ(refused.error().status, 400) << id;
    EXPECT_EQ(refused.error().code, "invalid-model-id") << id;
  }
}

TEST_F(InstallService, ADeletionWhoseFilesStaySaysSo) {
  install("a");
  start();
  ASSERT_TRUE(chat("llama-cpp:a"));
  auto removed = [&] {
    const models::testing::NoNewFiles none;
    return wait(service->installs().remove("a", true));
  }();
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().status, 409);
  EXPECT_EQ(removed.error().code, "model_locked");
  EXPECT_THAT(removed.error().message, AllOf(HasSubstr("is deleted"), Not(HasSubstr(home.path().string()))));
  EXPECT_THAT(listed(), IsEmpty());
  EXPECT_EQ(chat("llama-cpp:a").error().code, "model_not_found");
}

TEST_F(InstallService, NothingStartsWhileTheServiceStops) {
  offer("small-q4", tiny_model());
  start();
  wait(service->stop());
  EXPECT_EQ(ensure("llama-cpp:small-q4").error().code, "shutting_down");
  EXPECT_EQ(wait(service->installs().remove("x", false)).error().code, "shutting_down");
}

TEST(InstallSettings, AddressesAreChecked) {
  EXPECT_THAT(read_address_list(" https://a , ,https://b"), ElementsAre("https://a", "https://b"));
  EXPECT_THAT(read_address_list(""), IsEmpty());
  EXPECT_TRUE(check_addresses({.hub = "https://hub.example", .mirrors = {"file:///srv/models"}}));
  const auto bad = check_addresses({.hub = "http://hub.example"});
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message, HasSubstr("HF_ENDPOINT: the address \"http://hub.example\" must"));
  const auto secret = check_addresses({.hub = "https://me:secret@hub.example"});
  ASSERT_FALSE(secret);
  EXPECT_THAT(secret.error().message, Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace gezel::service
