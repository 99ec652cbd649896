// pull, rm and the lists of `models`, against a daemon that answers from a script.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "cli/exit_codes.h"
#include "cli/fake_daemon.h"
#include "gguf/test_file.h"
#include "models/store.h"

namespace gezel::cli {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kStarted = R"({"status":"downloading","model_id":"llama-cpp:m","job_id":"j1"})";

// Health, ensure, and the events of its job.
FakeDaemon::Answer pulling(std::vector<std::string> events, std::string ensured = std::string(kStarted),
                           int status = 202) {
  return [=](const SeenRequest& request) -> std::vector<std::string> {
    if (request.target == "/health") return {json_reply(200, R"({"ok":true})")};
    if (request.target == "/v1/models/ensure") return {json_reply(status, ensured)};
    if (request.target == "/v1/models/ensure/j1/events") return event_reply(events);
    if (request.target == "/api/llama-cpp/models/m/install") return event_reply(events);
    return {json_reply(404, R"({"error":"not_found","message":"no such path"})")};
  };
}

const std::vector<std::string> kInstalled{
    R"({"type":"progress","jobId":"j1","modelId":"llama-cpp:m","bytesWrittenAll":1048576,"totalBytesAll":2097152})",
    R"({"type":"verifying","jobId":"j1","modelId":"llama-cpp:m","file":"m.gguf"})",
    R"({"type":"done","jobId":"j1","modelId":"llama-cpp:m","warning":"The disk is nearly full."})"};

TEST(Pull, ShowsTheInstallAndPrintsTheId) {
  FakeDaemon daemon(pulling(kInstalled));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"pull", "m"}), kOk);
  EXPECT_EQ(world.out.str(), "m\n");
  EXPECT_THAT(world.err.str(), AllOf(HasSubstr(" 50 %  1.0 MiB of 2.0 MiB"), HasSubstr("SHA-256 of m.gguf"),
                                     HasSubstr("nearly full"), HasSubstr("gezel run m")));
  EXPECT_EQ(daemon.seen().at(2).body, R"({"model":"llama-cpp:m"})");
}

TEST(Pull, ShowsTheLicenceBeforeTheInstallBegins) {
  FakeDaemon daemon([](const SeenRequest& request) -> std::vector<std::string> {
    if (request.target == "/v1/models/llama-cpp%3Am") {
      return {json_reply(
          200, R"({"id":"llama-cpp:m","availability":"downloadable","license":{"name":"Some License",
        "shortName":"Some","class":"commercial-restricted","url":"https://example.org/license"}})")};
    }
    return pulling(kInstalled)(request);
  });
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"pull", "m"}), kOk);
  EXPECT_THAT(world.err.str(),
              HasSubstr("license: Some License (commercial-restricted), https://example.org/license  "
                        "NOT FOR COMMERCIAL USE"));
  EXPECT_EQ(daemon.seen().at(1).target, "/v1/models/llama-cpp%3Am");
}

TEST(Pull, AFileOfARepositoryHasAnUnknownLicence) {
  FakeDaemon daemon(pulling(kInstalled));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"pull", "hf:org/repo:Q8_0"}), kOk);
  EXPECT_THAT(world.err.str(), HasSubstr("license: unknown"));
}

TEST(Pull, TakesQualifiedIdsAndRepositoriesAsTheyAre) {
  for (const auto& [argument, asked] :
       std::initializer_list<std::pair<std::string, std::string>>{{"llama-cpp:m", "llama-cpp:m"},
                                                                  {"llama-cpp/m", "llama-cpp:m"},
                                                                  {"hf:org/repo:Q8_0", "hf:org/repo:Q8_0"}}) {
    FakeDaemon daemon(pulling(kInstalled));
    TestWorld world;
    world.point_to(daemon);
    EXPECT_EQ(world.run({"pull", argument}), kOk);
    EXPECT_EQ(daemon.seen().at(asked.starts_with("hf:") ? 1 : 2).body,
              to_json(json::object{{"model", asked}}));
  }
}

TEST(Pull, JsonIsOneEventALine) {
  FakeDaemon daemon(pulling(kInstalled));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"pull", "m", "--json"}), kOk);
  EXPECT_EQ(world.out.str(), kInstalled[0] + "\n" + kInstalled[1] + "\n" + kInstalled[2] + "\n");
}

TEST(Pull, AnInstalledModelIsNotAnError) {
  FakeDaemon daemon(pulling({}, R"({"status":"ready","model_id":"llama-cpp:m"})", 200));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"pull", "m"}), kOk);
  EXPECT_EQ(world.out.str(), "m\n");
  EXPECT_THAT(world.err.str(), HasSubstr("installed already"));
}

TEST(Pull, ErrorsOfTheRequestAndOfTheInstallAreTold) {
  FakeDaemon refusing(
      pulling({}, R"({"error":{"code":"unknown_model","message":"\"m\" is not in the catalog"}})", 404));
  TestWorld world;
  world.point_to(refusing);
  EXPECT_NE(world.run({"pull", "m"}), kOk);
  EXPECT_THAT(world.err.str(), AllOf(HasSubstr("not in the catalog"), HasSubstr("unknown_model")));

  FakeDaemon failing(pulling(
      {R"({"type":"error","modelId":"llama-cpp:m","error":"The file differs.","code":"hash_mismatch"})"}));
  TestWorld second;
  second.point_to(failing);
  EXPECT_EQ(second.run({"pull", "m"}), kFailure);
  EXPECT_THAT(second.err.str(), AllOf(HasSubstr("The file differs."), HasSubstr("(hash_mismatch)")));
}

TEST(Pull, AStreamThatEndsEarlySaysThatItCanGoOn) {
  FakeDaemon daemon(pulling({kInstalled[0]}));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_NE(world.run({"pull", "m"}), kOk);
  EXPECT_THAT(world.err.str(), HasSubstr("`gezel pull m` goes on from there"));
}

TEST(Pull, DetachStartsAndReturns) {
  FakeDaemon daemon(pulling(kInstalled));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"pull", "m", "--detach"}), kOk);
  EXPECT_EQ(daemon.seen().size(), 3U);
}

TEST(Pull, MirrorsAreHandedOverInTheirOrder) {
  FakeDaemon daemon(pulling(kInstalled));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"pull", "m", "--mirrors", "https://b.example, https://a.example"}), kOk);
  const auto seen = daemon.seen();
  EXPECT_TRUE(std::ranges::any_of(seen, [](const SeenRequest& request) {
    return request.body.contains(R"("mirrors":["https://b.example","https://a.example"])");
  }));
  EXPECT_EQ(world.run({"pull", "m", "--update", "--mirrors", "https://a.example"}), kUsage);
}

TEST(Pull, UpdateAndDetachStartsAndReturns) {
  FakeDaemon daemon(pulling(kInstalled));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"pull", "m", "--update", "--detach", "--json"}), kOk);
  EXPECT_EQ(daemon.seen().size(), 3U);
  EXPECT_EQ(daemon.seen().at(2).target, "/api/llama-cpp/models/m/install");
  EXPECT_EQ(world.out.str(), R"({"type":"started","modelId":"llama-cpp:m","jobId":"j1"})"
                             "\n");
  EXPECT_THAT(world.err.str(), HasSubstr("`gezel pull m` shows it"));

  FakeDaemon waiting(pulling({": it waits for others\nevent: ping\ndata: {}", kInstalled[0]}));
  TestWorld second;
  second.point_to(waiting);
  EXPECT_EQ(second.run({"pull", "m", "--update", "--detach", "--json"}), kOk);
  EXPECT_EQ(second.out.str(), world.out.str());

  FakeDaemon failing(pulling(
      {R"({"type":"error","modelId":"llama-cpp:m","error":"The file differs.","code":"hash_mismatch"})"}));
  TestWorld third;
  third.point_to(failing);
  EXPECT_EQ(third.run({"pull", "m", "--update", "--detach"}), kFailure);
}

TEST(Pull, UpdateAsksTheManagementRoute) {
  FakeDaemon daemon(pulling(kInstalled));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"pull", "m", "--update"}), kOk);
  EXPECT_EQ(daemon.seen().at(2).target, "/api/llama-cpp/models/m/install");
  EXPECT_EQ(world.run({"pull", "hf:org/repo", "--update"}), kUsage);
}

// Whatever a worker came to hold, what stands under "reserved by models" adds up to it.
TEST(Memory, TheRowsAddUpToWhatIsReserved) {
  FakeDaemon daemon([](const SeenRequest& request) -> std::vector<std::string> {
    if (request.target == "/health") return {json_reply(200, R"({"ok":true})")};
    return {json_reply(200, R"({"pools":[{"kind":"ram","total":16777216,"budget":12582912,"margin":4194304,
      "reserved":8388608,"measured":0,"free":1048576}],"reservations":[
      {"key":"llama-cpp:more:0","weights":3145728,"total":3145728,"charged":5242880,"measured":null},
      {"key":"llama-cpp:less:0","weights":4194304,"total":4194304,"charged":3145728,"measured":null},
      {"key":"llama-cpp:same:0","weights":0,"total":0,"charged":0,"measured":null}]})")};
  });
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"memory"}), kOk);
  EXPECT_THAT(
      world.out.str(),
      AllOf(ContainsRegex("llama-cpp:more:0 +5.0 MiB"), ContainsRegex("more than planned +2.0 MiB"),
            ContainsRegex("llama-cpp:less:0 +3.0 MiB"), ContainsRegex("less than planned +-1.0 MiB")));
}

// A daemon whose every plan is this one.
FakeDaemon::Answer planning(std::string plan) {
  return [plan = std::move(plan)](const SeenRequest& request) -> std::vector<std::string> {
    if (request.target == "/health") return {json_reply(200, R"({"ok":true})")};
    return {json_reply(200, plan)};
  };
}

TEST(Fit, SaysWhatWasReadOfAModelThatIsNotHere) {
  FakeDaemon daemon(planning(R"({"decision":"fits","summary":"It fits.","source":"header",
      "bytes":{"weights":4194304,"kv":1048576,"total":5242880},
      "header_bytes_read":524288,"download_bytes":4194304})"));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"fit", "hf:org/repo:Q4_K_M", "--ctx", "4096"}), kOk);
  EXPECT_EQ(daemon.seen().back().target, "/v1/memory/plan?model=hf%3Aorg%2Frepo%3AQ4_K_M&context=4096");
  EXPECT_THAT(world.out.str(), AllOf(HasSubstr("It fits."), HasSubstr("weights"), HasSubstr("█")));
  EXPECT_THAT(
      world.err.str(),
      AllOf(HasSubstr("nothing was downloaded: only the file's header was read (512.0 KiB of 4.0 MiB)"),
            HasSubstr("`gezel pull hf:org/repo:Q4_K_M`")));
}

TEST(Fit, SaysWhenTheFiguresAreTheCatalogs) {
  FakeDaemon daemon(planning(R"({"decision":"no","summary":"It does not fit.","source":"catalog",
      "note":"the host hub.example cannot be found"})"));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"fit", "m"}), kFailure);
  EXPECT_THAT(world.err.str(),
              HasSubstr("the figures are the catalog's, because the host hub.example cannot be found"));
}

TEST(Fit, SaysNothingOfTheKindForAnInstalledModel) {
  FakeDaemon daemon(planning(R"({"decision":"fits","summary":"It fits.","source":"installed"})"));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"fit", "m"}), kOk);
  EXPECT_EQ(world.err.str(), "");
}

TEST(Models, AvailableIsATableWithTheRecommendedMarked) {
  FakeDaemon daemon([](const SeenRequest& request) -> std::vector<std::string> {
    if (request.target == "/health") return {json_reply(200, R"({"ok":true})")};
    return {json_reply(200, R"({"data":[{"id":"llama-cpp:here","availability":"available"},
      {"id":"llama-cpp:m","name":"M","availability":"downloadable","download_bytes":1048576,"context_window":4096,
       "capabilities":{"tools":true},"fit":{"tier":"fits","label":"in memory"},
       "recommendation":{"score":80,"recommended":true},
       "license":{"name":"Some License","shortName":"Some","class":"commercial-restricted","url":"https://a.b"}}]})")};
  });
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"models", "--available"}), kOk);
  EXPECT_THAT(
      world.out.str(),
      AllOf(HasSubstr(
                "m       1.0 MiB    4,096  yes    in memory        recommended  Some (NON-COMMERCIAL)  M"),
            Not(HasSubstr("here"))));
}

TEST(Models, DiscoveredSaysWhatIsUsable) {
  FakeDaemon daemon([](const SeenRequest& request) -> std::vector<std::string> {
    if (request.target == "/health") return {json_reply(200, R"({"ok":true})")};
    return {json_reply(200, R"({"models":[
      {"id":"discovered:ollama/a","importable":true,"sizeBytes":1048576},
      {"id":"discovered:ollama/b","importable":true,"installedAs":"local-b"},
      {"id":"discovered:ollama/c","importable":false,"reason":"its file is missing"}]})")};
  });
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"models", "--discovered"}), kOk);
  EXPECT_THAT(world.out.str(),
              AllOf(HasSubstr("yes"), HasSubstr("is local-b"), HasSubstr("no: its file is missing")));
}

class Rm : public ::testing::Test {
 protected:
  void import(const std::string& mode) {
    gguf::testing::TestFile file;
    file.text("general.architecture", "llama")
        .u32("llama.context_length", 64)
        .tensor("token_embd.weight", 64);
    path = files.write("m.gguf", file.bytes());
    models::ModelStore store(world.env.home, *world.env.clock, *world.env.entropy);
    const auto done = store.import({.path = path.string(), .mode = mode, .id = "m"});
    ASSERT_TRUE(done) << done.error().message;
  }
  bool installed() {
    return models::ModelStore(world.env.home, *world.env.clock, *world.env.entropy).find("m").has_value();
  }
  TestWorld world;
  TestFolder files;
  fs::path path;
};

TEST_F(Rm, WithoutADaemonDeletesWhatTheStoreOwns) {
  import("copy");
  EXPECT_EQ(world.run({"rm", "llama-cpp:m"}), kOk);
  EXPECT_THAT(world.err.str(), HasSubstr("deleted the model m"));
  EXPECT_FALSE(installed());
}

TEST_F(Rm, AReferenceLosesOnlyItsRegistration) {
  import("reference");
  EXPECT_EQ(world.run({"rm", "m"}), kOk);
  EXPECT_THAT(world.err.str(), HasSubstr(path.string() + " was not touched"));
  EXPECT_FALSE(installed());
  EXPECT_TRUE(fs::exists(path));
}

TEST_F(Rm, ANearMissIsSuggestedAndNothingDeleted) {
  import("copy");
  EXPECT_EQ(world.run({"rm", "mm"}), kNoSuchModel);
  EXPECT_THAT(world.err.str(), HasSubstr("Did you mean m?"));
  EXPECT_TRUE(installed());
}

TEST_F(Rm, ADaemonDoesItAndMayRefuse) {
  import("copy");
  FakeDaemon daemon([](const SeenRequest& request) -> std::vector<std::string> {
    if (request.target == "/api/llama-cpp/models/m?force=1") return {json_reply(200, R"({"ok":true})")};
    return {json_reply(409, R"({"error":"model_in_use","message":"it is in use"})")};
  });
  world.point_to(daemon);
  EXPECT_EQ(world.run({"rm", "m"}), kFailure);
  EXPECT_THAT(world.err.str(), HasSubstr("in use"));
  EXPECT_EQ(daemon.seen()[0].method, "DELETE");
  EXPECT_EQ(world.run({"rm", "m", "--force"}), kOk);
}

class Export : public Rm {};

TEST_F(Export, TouchesNoOtherFileAndReplacesNone) {
  import("copy");
  const fs::path target = files.path() / "m.gezmodel";
  const fs::path mine = files.write("m.gezmodel.partial", "mine");
  EXPECT_EQ(world.run({"export", "m", "-o", target.string()}), kOk) << world.err.str();
  EXPECT_EQ(read_file(mine).value(), "mine");
  EXPECT_EQ(std::distance(fs::directory_iterator(files.path()), fs::directory_iterator()), 3)
      << "the model's own file, the archive and what was there";
  EXPECT_NE(world.run({"export", "m", "-o", target.string()}), kOk);
  EXPECT_EQ(read_file(mine).value(), "mine");
}

}  // namespace
}  // namespace gezel::cli
