// Words in, exit status and output out, against a daemon that answers from a script.
#include "cli/run_cli.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/json.h"
#include "cli/answer.h"
#include "cli/exit_codes.h"
#include "cli/fake_daemon.h"
#include "engine/quarantine.h"

namespace gezel::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::string_view kModelList =
    R"({"object":"list","data":[{"id":"llama-cpp:tiny","availability":"available","owned_by":"llama-cpp"},
        {"id":"llama-cpp:big","availability":"downloadable"}]})";

std::string delta(std::string_view text) {
  return to_json(json::object{
      {"choices", json::array{json::object{{"index", 0}, {"delta", json::object{{"content", text}}}}}}});
}

const std::string kFinish =
    R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"timings":{"prompt_ms":10,"predicted_ms":100}})";
const std::string kUsageFrame =
    R"({"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":10,"prompt_tokens_details":{"cached_tokens":5}}})";

// Health, the list of models, a model without a template of its own, and `chat` for completions.
FakeDaemon::Answer daemon_with(std::vector<std::string> chat) {
  return [chat = std::move(chat)](const SeenRequest& request) -> std::vector<std::string> {
    if (request.target == "/health") return {json_reply(200, R"({"ok":true})")};
    if (request.target == "/v1/models") return {json_reply(200, kModelList)};
    if (request.target == "/v1/models/llama-cpp:tiny")
      return {json_reply(200, R"({"chat_template":"default:gemma"})")};
    if (request.target == "/v1/models/default") return {json_reply(200, R"({"id":"llama-cpp:tiny"})")};
    if (request.target == "/v1/chat/completions") return chat;
    if (request.target == "/api/ps") {
      return {json_reply(
          200, R"({"models":[{"id":"llama-cpp:tiny","state":"ready","pid":7,"bytes":1048576,"slots":8,
                                  "slots_busy":1,"context":8192,"queued":2,"idle_ms":0,"unload_at":null,
                                  "decode_tps":52.5}]})")};
    }
    if (request.target == "/api/stop")
      return {json_reply(409, R"({"error":"model_busy","message":"1 request runs."})")};
    return {json_reply(404, R"({"error":{"code":"not_found","message":"no such path"}})")};
  };
}

TEST(RunCli, WithoutACommandPrintsHelpAndFails) {
  TestWorld world;
  EXPECT_EQ(world.run({}), kUsage);
  EXPECT_THAT(world.err.str(), HasSubstr("Commands"));
}

TEST(RunCli, PrintsVersionAndHelp) {
  TestWorld world;
  EXPECT_EQ(world.run({"--version"}), kOk);
  EXPECT_EQ(world.out.str(), "gezel 9.8.7\n");
  EXPECT_EQ(world.run({"--help"}), kOk);
  EXPECT_EQ(world.run({"help", "run"}), kOk);
  EXPECT_EQ(world.run({"models", "-h"}), kOk);
  EXPECT_THAT(world.out.str(),
              AllOf(HasSubstr("GEZEL_HOME"), HasSubstr("gezel run"), Not(HasSubstr("__complete"))));
}

TEST(RunCli, SuggestsTheCommandThatWasMeant) {
  TestWorld world;
  EXPECT_EQ(world.run({"modles"}), kUsage);
  EXPECT_THAT(world.err.str(), HasSubstr("There is no command 'modles'. Did you mean models?"));
  EXPECT_EQ(world.run({"--no-such-flag"}), kUsage);
}

TEST(RunCli, ServeRefusesAPortVariableThatIsNoPort) {
  TestWorld world;
  world.env.engine = "/bin/sh";
  world.env.port = "eighty";
  EXPECT_EQ(world.run({"serve"}), kUsage);
  EXPECT_THAT(world.err.str(), HasSubstr("GEZEL_PORT is 'eighty'"));
}

TEST(RunCli, ServeRefusesATargetPaceThatIsNone) {
  TestWorld world;
  world.env.engine = "/bin/sh";
  for (const char* wrong : {"9", "1001", "fast", "130ms", "-1", "13.5", "99999999999999999999"}) {
    world.env.target_itl_ms = wrong;
    world.err.str("");
    EXPECT_EQ(world.run({"serve"}), kUsage) << wrong;
    EXPECT_THAT(world.err.str(),
                HasSubstr(fmt::format("GEZEL_TARGET_ITL_MS is '{}'; it must be a whole number "
                                      "from 10 to 1000",
                                      wrong)));
  }
  world.env.target_itl_ms.clear();
  EXPECT_EQ(world.run({"serve", "--target-itl", "9"}), kUsage);
}

TEST(RunCli, ServeNamesAMissingEngineAndTheRemedy) {
  TestWorld world;
  EXPECT_EQ(world.run({"serve"}), kFailure);
  EXPECT_THAT(world.err.str(), AllOf(HasSubstr("gezel-engine does not exist"), HasSubstr("make build")));
}

TEST(RunCli, WithoutADaemonListingsExitWith3) {
  TestWorld world;
  EXPECT_EQ(world.run({"ps"}), kUnreachable);
  EXPECT_EQ(world.run({"stop", "tiny"}), kUnreachable);
  EXPECT_THAT(world.err.str(), HasSubstr("gezel serve"));
  EXPECT_EQ(world.run({"stop"}), kOk);
}

TEST(RunCli, AModelThatIsNotInstalledExitsWith4AndStartsNothing) {
  TestWorld world;
  EXPECT_EQ(world.run({"run", "tiny", "Hi"}), kNoSuchModel);
  EXPECT_THAT(world.err.str(), AllOf(HasSubstr("There is no model 'tiny'"), HasSubstr("gezel import")));
}

TEST(RunCli, AHomeThatCannotBeReadIsNamedByEveryCommandThatNeedsIt) {
  TestWorld world;
  const fs::path home = world.env.home, file = home / "file";
  std::ofstream(file) << "x";
  world.env.home = file;
  for (const char* command : {"models", "ps", "stop", "key", "quarantine"}) {
    world.err.str("");
    EXPECT_EQ(world.run({command}), kFailure) << command;
    EXPECT_THAT(world.err.str(), AllOf(HasSubstr("cannot read " + file.string() + ": not a directory; "),
                                       HasSubstr("GEZEL_HOME"), HasSubstr("(home_unreadable)")));
  }
  EXPECT_EQ(world.run({"ps", "--help"}), kOk);
  world.env.home = home;
}

TEST(RunCli, WithoutAnyHomeOnlyWhatNeedsNoneWorks) {
  TestWorld world;
  const fs::path home = std::exchange(world.env.home, fs::path());
  world.env.home_error = Error{ErrorKind::not_found, "no_home", "set GEZEL_HOME", ""};
  EXPECT_EQ(world.run({"models"}), kFailure);
  EXPECT_THAT(world.err.str(), HasSubstr("set GEZEL_HOME. (no_home)"));
  EXPECT_EQ(world.run({"models", "--home", home.string()}), kOk);
  EXPECT_EQ(world.run({"completion", "bash"}), kOk);
  EXPECT_EQ(world.run({"__complete", "mod"}), kOk);
  world.env.home = home;
}

TEST(RunCli, CodesAreSpelledAsTheApiSpellsThem) {
  TestWorld world;
  const fs::path file = world.env.home / "broken.gguf";
  std::ofstream(file) << "no model";
  EXPECT_EQ(world.run({"import", file.string()}), kFailure);
  EXPECT_THAT(world.err.str(), AllOf(HasSubstr("(model_invalid)"), Not(HasSubstr("model-invalid"))));
}

TEST(RunCli, ModelsWorksWithoutADaemon) {
  TestWorld world;
  EXPECT_EQ(world.run({"models", "--json"}), kOk);
  EXPECT_EQ(world.out.str(), "{\"models\":[],\"unrecognized\":[]}\n");
}

TEST(Run, StreamsTextToOutAndNotesToErr) {
  FakeDaemon daemon(daemon_with(
      event_reply({delta(""), ": keepalive", delta("Hel"), delta("lo"), kFinish, kUsageFrame, "[DONE]"})));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"run", "tiny", "Say", "hi", "--verbose", "--system", "Be brief", "--max-tokens", "5",
                       "--seed", "9"}),
            kOk);
  EXPECT_EQ(world.out.str(), "Hello\n");
  EXPECT_THAT(world.err.str(),
              AllOf(HasSubstr("chat template: default:gemma"), HasSubstr("20 prompt tokens (5 cached)"),
                    HasSubstr("10 tokens out in 100 ms, 100.0 tok/s"), HasSubstr("ended by stop")));
  for (const SeenRequest& request : daemon.seen()) {
    EXPECT_THAT(request.head, HasSubstr("Authorization: Bearer secret-token\r\n"));
    if (request.method != "POST") continue;
    const auto body = parse_json(request.body);
    ASSERT_TRUE(body);
    EXPECT_EQ(
        to_json(*body),
        R"({"model":"llama-cpp:tiny","max_tokens":5,"seed":9,"messages":[{"role":"system","content":"Be brief"},)"
        R"({"role":"user","content":"Say hi"}],"stream":true,"stream_options":{"include_usage":true}})");
  }
}

TEST(Run, AFirstWordWithABlankIsAQuestionForTheDefaultModel) {
  FakeDaemon daemon(daemon_with(event_reply({delta("ok\n"), kFinish, "[DONE]"})));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"run", "Why is", "it so?"}), kOk);
  EXPECT_EQ(world.out.str(), "ok\n");
  std::string body;
  for (const SeenRequest& request : daemon.seen()) body += request.body;
  EXPECT_THAT(body,
              AllOf(HasSubstr(R"("model":"llama-cpp:tiny")"), HasSubstr(R"("content":"Why is it so?")")));
}

TEST(Run, WithoutAModelPipedInputGoesToTheDefaultOne) {
  FakeDaemon daemon(daemon_with(event_reply({delta("ok\n"), kFinish, "[DONE]"})));
  TestWorld world;
  world.point_to(daemon);
  world.pipe_in("Hi");
  EXPECT_EQ(world.run({"run"}), kOk);
  EXPECT_EQ(world.out.str(), "ok\n");
}

TEST(Default, IsShownAndSet) {
  FakeDaemon daemon([](const SeenRequest& request) -> std::vector<std::string> {
    if (request.target == "/health") return {json_reply(200, R"({"ok":true})")};
    if (request.target == "/v1/models") return {json_reply(200, kModelList)};
    return {json_reply(200, R"({"provider":"llama-cpp","pinned":"gone","model":"llama-cpp:tiny"})")};
  });
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"default"}), kOk);
  EXPECT_EQ(world.out.str(), "tiny\n");
  EXPECT_THAT(world.err.str(), HasSubstr("gone is pinned but not installed"));
  EXPECT_EQ(world.run({"default", "tiny"}), kOk);
  EXPECT_EQ(daemon.seen().back().body, R"({"model":"llama-cpp:tiny"})");
  EXPECT_EQ(world.run({"default", "nope"}), kNoSuchModel);
}

TEST(Default, WithoutAnyModelItSaysWhatHelps) {
  FakeDaemon daemon([](const SeenRequest& request) -> std::vector<std::string> {
    if (request.target == "/health") return {json_reply(200, R"({"ok":true})")};
    return {json_reply(200, R"({"provider":"llama-cpp","pinned":"m","model":null,"reason":"Install m."})")};
  });
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"default"}), kNoSuchModel);
  EXPECT_THAT(world.err.str(), HasSubstr("Install m."));
}

TEST(Run, AddsWhatIsPipedIn) {
  FakeDaemon daemon(daemon_with(event_reply({delta("ok\n"), kFinish, "[DONE]"})));
  TestWorld world;
  world.point_to(daemon);
  world.pipe_in("a\nb\n");
  EXPECT_EQ(world.run({"run", "llama-cpp:tiny", "Sum up:"}), kOk);
  EXPECT_EQ(world.out.str(), "ok\n");
  std::string body;
  for (const SeenRequest& request : daemon.seen()) body += request.body;
  EXPECT_THAT(body, HasSubstr(R"("content":"Sum up:\n\na\nb\n")"));
}

TEST(Run, WithoutAnyPromptIsAUsageError) {
  TestWorld world;
  EXPECT_EQ(world.run({"run", "tiny"}), kUsage);
  EXPECT_THAT(world.err.str(), HasSubstr("gezel chat MODEL"));
}

TEST(Run, RefusesInputThatIsNotText) {
  TestWorld world;
  world.pipe_in("ab\xff");
  EXPECT_EQ(world.run({"run", "tiny"}), kFailure);
  EXPECT_THAT(world.err.str(), HasSubstr("byte 2"));
}

TEST(Run, SuggestsTheModelThatWasMeant) {
  FakeDaemon daemon(daemon_with({}));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"run", "tinny", "Hi"}), kNoSuchModel);
  EXPECT_THAT(world.err.str(), HasSubstr("Did you mean tiny?"));
}

TEST(Run, AModelThatWouldHaveToBeDownloadedIsNotThere) {
  FakeDaemon daemon(daemon_with({}));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"run", "llama-cpp:big", "Hi"}), kNoSuchModel);
}

TEST(Run, PrintsAnErrorBeforeTheStreamWithCodeAndRemedy) {
  FakeDaemon daemon(daemon_with({json_reply(
      503,
      R"({"error":{"message":"It needs 4 GiB, 1 GiB is free.","type":"server_error","code":"capacity_denied"}})")}));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"run", "tiny", "Hi"}), kFailure);
  EXPECT_EQ(world.err.str(),
            "error: It needs 4 GiB, 1 GiB is free. Free memory with `gezel stop MODEL`, or run `gezel serve` "
            "with fewer --slots or a smaller --ctx. (capacity_denied)\n");
}

TEST(Run, PrintsAnErrorInTheMiddleOfTheStream) {
  FakeDaemon daemon(daemon_with(event_reply(
      {delta("Hel"), R"({"error":{"message":"The engine crashed (signal 9).","code":"engine_crashed"}})",
       "[DONE]"})));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"run", "tiny", "Hi"}), kFailure);
  EXPECT_EQ(world.out.str(), "Hel\n");
  EXPECT_THAT(world.err.str(), HasSubstr("The engine crashed (signal 9)."));
}

TEST(Run, NoticesAStreamThatIsCut) {
  auto pieces = event_reply({delta("Hel")});
  pieces.pop_back();  // no end of the chunked body
  FakeDaemon daemon(daemon_with(pieces));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"run", "tiny", "Hi"}), kFailure);
  EXPECT_THAT(world.err.str(), HasSubstr("(connection_lost)"));
}

TEST(Run, JsonPrintsTheWholeReply) {
  FakeDaemon daemon(daemon_with({json_reply(200, R"({"object":"chat.completion"})")}));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"run", "tiny", "Hi", "--json"}), kOk);
  EXPECT_EQ(world.out.str(), "{\"object\":\"chat.completion\"}\n");
}

TEST(Run, ControlCharactersOfAModelDoNotReachATerminal) {
  FakeDaemon daemon(daemon_with(event_reply({delta("a\x1b[2Jb"), kFinish, "[DONE]"})));
  TestWorld world;
  world.point_to(daemon);
  world.env.out_is_terminal = true;
  EXPECT_EQ(world.run({"run", "tiny", "Hi"}), kOk);
  EXPECT_EQ(world.out.str(), "a[2Jb\n");
}

TEST(Chat, KeepsTheConversationAndObeysCommands) {
  FakeDaemon daemon(daemon_with(event_reply({delta("fine"), kFinish, "[DONE]"})));
  TestWorld world;
  world.point_to(daemon);
  world.pipe_in("one\ntwo\n/reset\n/system Be kind\nthree\n/nonsense\n/exit\nfour\n");
  EXPECT_EQ(world.run({"chat", "tiny"}), kOk);
  EXPECT_EQ(world.out.str(), "fine\nfine\nfine\n");
  std::vector<std::string> bodies;
  for (const SeenRequest& request : daemon.seen()) {
    if (request.method == "POST") bodies.push_back(request.body);
  }
  ASSERT_EQ(bodies.size(), 3U);
  EXPECT_THAT(bodies[1],
              HasSubstr(R"([{"role":"user","content":"one"},{"role":"assistant","content":"fine"},)"
                        R"({"role":"user","content":"two"}])"));
  EXPECT_THAT(bodies[2],
              HasSubstr(R"([{"role":"system","content":"Be kind"},{"role":"user","content":"three"}])"));
  EXPECT_THAT(world.err.str(), HasSubstr("there is no /nonsense"));
}

TEST(Ps, PrintsATableAndJson) {
  FakeDaemon daemon(daemon_with({}));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"ps"}), kOk);
  EXPECT_EQ(world.out.str(),
            "MODEL  STATE  PID   MEMORY  BUSY  CONTEXT  TOK/S  QUEUED  IDLE\n"
            "tiny   ready    7  1.0 MiB   1/8    8,192   52.5       2     -\n");
  world.out.str("");
  EXPECT_EQ(world.run({"ps", "--json"}), kOk);
  EXPECT_TRUE(parse_json(world.out.str()));
}

TEST(Ps, SaysWhatWaitsAndForWhat) {
  FakeDaemon daemon([](const SeenRequest&) -> std::vector<std::string> {
    return {json_reply(200, R"({"models":[{"id":"llama-cpp:tiny","state":"starting","pid":null,"bytes":0,
        "slots":0,"slots_busy":0,"context":0,"queued":3,"idle_ms":0,"unload_at":null,
        "lanes":{"interactive":{"running":0,"queued":1},"background":{"running":0,"queued":2}},
        "waiting":"waiting for Gemma to finish, 2 ahead"}]})")};
  });
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"ps"}), kOk);
  EXPECT_EQ(world.out.str(),
            "MODEL  STATE     PID  MEMORY  BUSY  CONTEXT  TOK/S            QUEUED  IDLE\n"
            "tiny   starting    -       -     -        -      -  3 (2 background)   0 s\n"
            "tiny: waiting for Gemma to finish, 2 ahead\n");
}

TEST(Stop, ABusyModelNeedsForce) {
  FakeDaemon daemon(daemon_with({}));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"stop", "tiny"}), kFailure);
  EXPECT_THAT(world.err.str(), AllOf(HasSubstr("1 request runs."), HasSubstr("--force")));
  EXPECT_EQ(daemon.seen().back().body, R"({"model":"llama-cpp:tiny","force":false})");
}

// What doctor says about the daemon, in one line.
std::string daemon_state(TestWorld& world) {
  world.out.str("");
  world.run({"doctor", "--json"});
  const auto report = parse_json(world.out.str());
  if (!report) return report.error().message;
  for (const auto& finding : report->at("findings").as_array()) {
    if (finding.at("area") == "daemon" && finding.at("subject") == "state") {
      return string_or(finding.as_object(), "verdict") + ": " + string_or(finding.as_object(), "detail");
    }
  }
  return "nothing";
}

TEST(Doctor, TakesALeftOverPidForNoDaemonWhenNobodyHoldsTheLock) {
  TestWorld world;
  {
    FakeDaemon daemon(daemon_with({}));
    world.point_to(daemon);
  }
  EXPECT_THAT(daemon_state(world), AllOf(StartsWith("note: none runs"), HasSubstr("left over")));
}

TEST(Doctor, NamesADaemonThatHoldsTheLockButDoesNotAnswer) {
  TestWorld world;
  const auto lock = service::InstanceLock::acquire(world.env.home);
  ASSERT_TRUE(lock);
  EXPECT_THAT(daemon_state(world), StartsWith("note: one for "));
  {
    FakeDaemon daemon(daemon_with({}));
    world.point_to(daemon);
  }
  EXPECT_THAT(daemon_state(world), AllOf(StartsWith("failure: pid "), HasSubstr("does not answer")));
}

TEST(Doctor, FindsADaemonThatAnswers) {
  FakeDaemon daemon(daemon_with({}));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_THAT(daemon_state(world), StartsWith("ok: listens on"));
}

TEST(Doctor, WithoutAHomeSaysSoAndGoesOn) {
  TestWorld world;
  const fs::path home = std::exchange(world.env.home, fs::path());
  world.env.home_error = Error{ErrorKind::not_found, "no_home", "set GEZEL_HOME", ""};
  EXPECT_EQ(world.run({"doctor"}), kFailure);
  EXPECT_THAT(world.out.str(), AllOf(HasSubstr("processor"), HasSubstr("set GEZEL_HOME")));
  world.env.home = home;
}

TEST(Key, IsTheSameEveryTime) {
  TestWorld world;
  EXPECT_EQ(world.run({"key"}), kOk);
  const std::string first = world.out.str();
  world.out.str("");
  EXPECT_EQ(world.run({"key"}), kOk);
  EXPECT_EQ(world.out.str(), first);
  world.out.str("");
  EXPECT_EQ(world.run({"key", "--rotate"}), kOk);
  EXPECT_NE(world.out.str(), first);
}

TEST(Quarantine, IsListedAndLiftedByModelOrAsAWhole) {
  TestWorld world;
  const auto folder = engine::quarantine_folder(world.env.home);
  ASSERT_TRUE(make_private_folder(folder));
  ASSERT_TRUE(write_file_atomic(folder / "unusable.json",
                                R"({"schemaVersion":1,"entries":[
           {"backend":"cpu","fingerprint":"1:1","reason":"it cannot run here","at":"2025-01-01T00:00:00Z"},
           {"backend":"cpu","fingerprint":"1:1","model":"llama-cpp:tiny","modelFingerprint":"7:7",
            "reason":"it ended the engine 3 times","at":"2025-01-02T00:00:00Z"}]})"));
  EXPECT_EQ(world.run({"quarantine"}), kOk);
  EXPECT_THAT(world.out.str(), AllOf(HasSubstr("(every model)"), HasSubstr("tiny "), HasSubstr("3 times")));
  world.out.str("");
  EXPECT_EQ(world.run({"quarantine", "list", "--json"}), kOk);
  EXPECT_EQ(
      world.out.str(),
      R"({"quarantined":[{"model":null,"backend":"cpu","reason":"it cannot run here","at":"2025-01-01T00:00:00Z"},)"
      R"({"model":"llama-cpp:tiny","backend":"cpu","reason":"it ended the engine 3 times","at":"2025-01-02T00:00:00Z"}]})"
      "\n");
  EXPECT_EQ(world.run({"quarantine", "clear", "tinny"}), kFailure);
  EXPECT_THAT(world.err.str(), HasSubstr("'tinny' is not quarantined"));
  EXPECT_EQ(world.run({"quarantine", "list", "tiny"}), kUsage);
  EXPECT_EQ(world.run({"quarantine", "clear", "tiny"}), kOk);
  world.out.str("");
  EXPECT_EQ(world.run({"quarantine", "clear", "--json"}), kOk);
  EXPECT_EQ(world.out.str(), "{\"cleared\":1}\n");
  EXPECT_EQ(world.run({"quarantine"}), kOk);
  EXPECT_THAT(world.err.str(), HasSubstr("nothing is quarantined"));
}

TEST(Complete, AnswersTheShell) {
  FakeDaemon daemon(daemon_with({}));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"__complete", "stop", ""}), kOk);
  EXPECT_EQ(world.out.str(), "tiny\n");
  world.out.str("");
  EXPECT_EQ(world.run({"__complete", "ps", "--js"}), kOk);
  EXPECT_THAT(world.out.str(), HasSubstr("--json\t"));
}

TEST(ExitCode, FollowsTheErrorsCode) {
  const auto code = [](std::string_view word) {
    return exit_code_for({ErrorKind::internal, std::string(word), "", ""});
  };
  EXPECT_EQ(code("usage"), kUsage);
  EXPECT_EQ(code("daemon_unreachable"), kUnreachable);
  EXPECT_EQ(code("model_not_found"), kNoSuchModel);
  EXPECT_EQ(code("gezel_not_found"), kNoSuchModel);
  EXPECT_EQ(code("interrupted"), kInterrupted);
  EXPECT_EQ(code("anything_else"), kFailure);
}

std::string written(const TestWorld& world, std::string_view text) {
  const auto file = world.env.home / "tools.json";
  std::ofstream(file) << text;
  return file.string();
}

TEST(Parse, ShowsReasoningContentAndCallsWithWhereTheyCameFrom) {
  TestWorld world;
  world.pipe_in("<think>hm</think>Sure. <tool_call>{'name': 'add', 'arguments': {'a': 1}}</tool_call>");
  const auto tools = written(world, R"([{"type":"function","function":{"name":"add"}}])");
  EXPECT_EQ(world.run({"parse", "--tools", tools}), kOk);
  EXPECT_THAT(world.out.str(), AllOf(HasSubstr("reasoning\nhm\n"), HasSubstr("content\nSure.\n"),
                                     HasSubstr("call add (strong:S1, repaired to R6)\n{\"a\":1}\n"),
                                     HasSubstr("repairs\n- ")));
}

TEST(Parse, TellsEveryEventAsJson) {
  TestWorld world;
  world.pipe_in("<think>hm</think>Yes.");
  EXPECT_EQ(world.run({"parse", "--json"}), kOk);
  const auto parsed = parse_json(world.out.str());
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->at("reasoning"), "hm");
  EXPECT_EQ(parsed->at("content"), "Yes.");
  EXPECT_EQ(parsed->at("events").at(0).at("event"), "reasoning");
}

TEST(Parse, NamesAFamilyThatDoesNotExist) {
  TestWorld world;
  EXPECT_EQ(world.run({"parse", "--family", "nobody"}), kFailure);
  EXPECT_THAT(world.err.str(), HasSubstr("no family 'nobody'"));
}

TEST(Parse, SaysWhatAToolsFileMustHold) {
  TestWorld world;
  world.pipe_in("x");
  EXPECT_EQ(world.run({"parse", "--tools", written(world, "{}")}), kFailure);
  EXPECT_THAT(world.err.str(), HasSubstr("JSON array"));
}

}  // namespace
}  // namespace gezel::cli
