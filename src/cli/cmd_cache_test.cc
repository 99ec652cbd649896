// `gezel cache`, against a daemon that answers from a script.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "cli/exit_codes.h"
#include "cli/fake_daemon.h"

namespace gezel::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kNode =
    R"("id":7,"parent":null,"start":0,"end":812,"class":"system","hits":31,"pins":1,)"
    R"("bytes":{"host":1048576,"disk":0},"slot":2,"last_use":"2026-01-02T03:04:05.000Z")";

// A daemon with these models loaded, that answers everything under /api/cache with `body`.
FakeDaemon::Answer caching(std::string body, std::string loaded = R"({"id":"llama-cpp:m","state":"ready"})",
                           int status = 200) {
  return [=](const SeenRequest& request) -> std::vector<std::string> {
    if (request.target.starts_with("/api/cache")) return {json_reply(status, body)};
    if (request.target == "/api/ps") return {json_reply(200, R"({"models":[)" + loaded + "]}")};
    if (request.target == "/v1/models")
      return {json_reply(200, R"({"data":[{"id":"llama-cpp:m"},{"id":"llama-cpp:n"}]})")};
    return {json_reply(200, R"({"ok":true})")};
  };
}

SeenRequest last_of(FakeDaemon& daemon) {
  return daemon.seen().back();
}

TEST(CacheCommand, ListsTheNodesOfTheOnlyLoadedModel) {
  FakeDaemon daemon(caching(R"({"model":"llama-cpp:m","count":3,"nodes":[{)" + std::string(kNode) + "}]}"));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"cache", "list"}), kOk);
  EXPECT_EQ(last_of(daemon).target, "/api/cache?model=llama-cpp%3Am");
  EXPECT_THAT(world.out.str(),
              AllOf(HasSubstr("   7       -  0..812  system    31     1     2  1.0 MiB     -  2026-01-02T")));
  EXPECT_THAT(world.err.str(), HasSubstr("the 1 last used of 3 nodes"));
}

TEST(CacheCommand, AsksForAModelWhereSeveralAreLoaded) {
  FakeDaemon daemon(
      caching("{}", R"({"id":"llama-cpp:m","state":"ready"},{"id":"llama-cpp:n","state":"ready"})"));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"cache", "list"}), kUsage);
  EXPECT_THAT(world.err.str(), HasSubstr("Several models are loaded (m, n)"));
  FakeDaemon idle(caching("{}", ""));
  TestWorld second;
  second.point_to(idle);
  EXPECT_NE(second.run({"cache", "flush"}), kOk);
  EXPECT_THAT(second.err.str(), HasSubstr("No model is loaded"));
}

TEST(CacheCommand, ShowsANodeWithItsTextButNothingThatMovesTheCursor) {
  FakeDaemon daemon(
      caching("{" + std::string(kNode) + R"(,"model":"llama-cpp:m","text":"You \u001b[2J are terse."})"));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"cache", "show", "m", "7"}), kOk);
  EXPECT_EQ(last_of(daemon).target, "/api/cache/7?model=llama-cpp%3Am");
  EXPECT_THAT(world.out.str(), AllOf(HasSubstr("are terse."), Not(HasSubstr("\x1b"))));
}

TEST(CacheCommand, ExplainsWhereAPromptLeavesWhatIsKept) {
  FakeDaemon daemon(caching(
      R"({"ok":true,"model":"llama-cpp:m","prompt_tokens":2450,"reusable_tokens":1812,"prefix_break":{"matched":1812,"previous":2400,)"
      R"("at_message":0,"snippets":{"before":"Today is ","now":"Tuesday\n","then":"Monday\n"}}})"));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"cache", "explain", "m", "Hello", "--system", "Today is Tuesday"}), kOk);
  EXPECT_EQ(
      last_of(daemon).body,
      R"({"messages":[{"role":"system","content":"Today is Tuesday"},{"role":"user","content":"Hello"}],)"
      R"("model":"llama-cpp:m"})");
  EXPECT_EQ(world.out.str(),
            "1,812 of this prompt's 2,450 tokens are kept\n"
            "an earlier one of 2,400 tokens begins the same for 1,812, then they part in message 0\n"
            "  both     \"Today is \"\n"
            "  now      \"Tuesday\\n\"\n"
            "  earlier  \"Monday\\n\"\n");
}

TEST(CacheCommand, TakesAWholeRequestFromStandardInput) {
  FakeDaemon daemon(caching(R"({"ok":true,"model":"llama-cpp:m","prompt_tokens":20,"cached_tokens":4})"));
  TestWorld world;
  world.point_to(daemon);
  world.pipe_in(R"({"model":"ignored","messages":[{"role":"user","content":"a"}],"tools":[]})");
  EXPECT_EQ(world.run({"cache", "warm", "m", "--messages", "-", "--session", "s"}), kOk);
  EXPECT_EQ(last_of(daemon).body,
            R"({"model":"llama-cpp:m","messages":[{"role":"user","content":"a"}],"tools":[],"session":"s",)"
            R"("wait":true,"start":false})");
  EXPECT_THAT(world.err.str(), HasSubstr("20 tokens are kept, 4 of them were there already"));
}

TEST(CacheCommand, WarmSaysThatNothingWasComputed) {
  FakeDaemon daemon(caching(R"({"ok":true,"model":"llama-cpp:n","loaded":false})", "", 202));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"cache", "warm", "n", "Hello"}), kOk);
  EXPECT_THAT(world.err.str(), HasSubstr("--start loads it"));
}

TEST(CacheCommand, PinsUnpinsAndDropsANodeOrASession) {
  FakeDaemon daemon(caching(R"({"ok":true,"model":"llama-cpp:m","nodes":2})"));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"cache", "pin", "m", "7"}), kOk);
  EXPECT_EQ(last_of(daemon).target, "/api/cache/pin");
  EXPECT_EQ(last_of(daemon).body, R"({"id":7,"model":"llama-cpp:m"})");
  EXPECT_EQ(world.run({"cache", "unpin", "m", "7"}), kOk);
  EXPECT_EQ(world.run({"cache", "drop", "--session", "s", "--app", "editor"}), kOk);
  EXPECT_EQ(last_of(daemon).body, R"({"session":"s","model":"llama-cpp:m","app":"editor"})");
  EXPECT_THAT(world.err.str(), AllOf(HasSubstr("2 nodes pinned"), HasSubstr("2 nodes no longer pinned"),
                                     HasSubstr("2 nodes dropped")));
}

TEST(CacheCommand, SaysWhatIsMissingBeforeItAsks) {
  FakeDaemon daemon(caching("{}"));
  for (const auto& [words, says] : std::initializer_list<std::pair<std::vector<std::string>, std::string>>{
           {{"cache", "pin", "m"}, "the number of a node"},
           {{"cache", "pin", "m", "x"}, "'x' is no node"},
           {{"cache", "drop", "m", "7", "--session", "s"}, "not both"},
           {{"cache", "show", "m"}, "the number of a node"},
           {{"cache", "explain", "m"}, "needs a prompt"},
           {{"cache", "grow", "m"}, "it may be list, show,"},
           {{"cache"}, "ACTION is missing"}}) {
    TestWorld world;
    world.point_to(daemon);
    EXPECT_EQ(world.run(words), kUsage) << says;
    EXPECT_THAT(world.err.str(), HasSubstr(says));
  }
}

TEST(CacheCommand, PrintsWhatTheDaemonSaysAndItsErrors) {
  FakeDaemon daemon(caching(R"({"ok":true,"model":"llama-cpp:m","records":5})"));
  TestWorld world;
  world.point_to(daemon);
  EXPECT_EQ(world.run({"cache", "flush", "m", "--json"}), kOk);
  EXPECT_EQ(world.out.str(), R"({"ok":true,"model":"llama-cpp:m","records":5})"
                             "\n");
  FakeDaemon refusing(
      caching(R"({"error":"cache_pin_limit","message":"half of the tier is pinned"})", "", 409));
  TestWorld second;
  second.point_to(refusing);
  EXPECT_EQ(second.run({"cache", "pin", "m", "7"}), kFailure);
  EXPECT_THAT(second.err.str(), AllOf(HasSubstr("half of the tier is pinned"), HasSubstr("cache_pin_limit")));
}

}  // namespace
}  // namespace gezel::cli
