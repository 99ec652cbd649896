// Installs that did not end: what is kept of them, what is fetched again, and from where.
#include <gmock/gmock.h>

#include "base/test_unprivileged.h"
#include "models/install_test_support.h"

namespace gezel::models {
namespace {

using downloads::testing::Reply;
using downloads::testing::serve;
using downloads::testing::serve_until;
using downloads::testing::ServedRequest;
using downloads::testing::TestServer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Installer;
using ::testing::IsEmpty;
using testing::plan_for;
using testing::tiny_model;

TEST_F(Installer, AFailedDownloadIsGoneOnWith) {
  const std::string content = files["m.gguf"];
  int calls = 0;
  TestServer bad([&](const ServedRequest& request) {
    return ++calls <= 5 ? serve_until(content, request, 100) : serve(content, request);
  });
  const auto plan = plan_for(files, bad.url(""));
  EXPECT_EQ(code(run(plan)), "dropped");
  EXPECT_EQ(observer.retries.size(), 4U);
  const auto incomplete = store.inventory().incomplete;
  ASSERT_EQ(incomplete.size(), 1U);
  EXPECT_EQ(incomplete[0].id, "model-q4");
  EXPECT_EQ(incomplete[0].bytes, 500U);
  EXPECT_TRUE(incomplete[0].has_partial);
  ASSERT_TRUE(run(plan));
  EXPECT_EQ(bad.requests().back().from, 500U);
  EXPECT_THAT(observer.verified, ElementsAre("m.gguf"));
  EXPECT_THAT(store.inventory().incomplete, IsEmpty());
}

TEST_F(Installer, AFileThatACrashLeftUnrecordedIsNotFetchedAgain) {
  const auto plan = plan_for(files, server.url(""));
  ASSERT_TRUE(StagingPlan::prepare(store.home(), store.root(), plan));
  home.write("engines/llama-cpp/models/.incoming/model-q4/m.gguf", files["m.gguf"]);
  ASSERT_TRUE(run(plan));
  ASSERT_EQ(server.requests().size(), 1U);
  EXPECT_EQ(server.requests()[0].from, files["m.gguf"].size()) << "nothing is left to send";
}

TEST_F(Installer, AFileOfTheInstalledModelIsNotTakenForADownload) {
  ASSERT_TRUE(run(plan_for(files, server.url(""))));
  const auto plan = plan_for(files, server.url(""), "model-q4", "2.0.0");
  ASSERT_TRUE(StagingPlan::prepare(store.home(), store.root(), plan));
  // A crash between the link to a file that is reused and its record.
  const fs::path link = store.root() / kIncoming / "model-q4" / "m.gguf";
  fs::create_hard_link(store.root() / "model-q4" / "m.gguf", link);
  const auto staging = StagingPlan::prepare(store.home(), store.root(), plan);
  ASSERT_TRUE(staging);
  EXPECT_EQ(staging->partial_bytes(plan.files[0]), 0U) << "a download would write into the installed file";
}

TEST_F(Installer, APlanThatCannotBeReadCostsNoBytes) {
  const auto plan = plan_for(files, server.url(""));
  ASSERT_TRUE(StagingPlan::prepare(store.home(), store.root(), plan));
  const fs::path partial =
      home.write("engines/llama-cpp/models/.incoming/model-q4/m.gguf.partial", "precious");
  fs::permissions(partial.parent_path() / kPlanName, fs::perms::none);
  {
    const Unprivileged user(home.path());
    EXPECT_FALSE(StagingPlan::prepare(store.home(), store.root(), plan));
  }
  EXPECT_EQ(read_file(partial).value_or("(none)"), "precious");
  home.write("engines/llama-cpp/models/.incoming/model-q4/plan.json", "{");
  EXPECT_TRUE(StagingPlan::prepare(store.home(), store.root(), plan)) << "one that says nothing is none";
}

TEST_F(Installer, APartialOfAnotherPinIsDropped) {
  const std::string content = files["m.gguf"];
  TestServer bad([&](const ServedRequest& request) { return serve_until(content, request, 100); });
  EXPECT_FALSE(run(plan_for(files, bad.url(""))));
  files["m.gguf"] = tiny_model("llama", 64);
  ASSERT_TRUE(run(plan_for(files, server.url(""), "model-q4", "2.0.0")));
  EXPECT_FALSE(server.requests().at(0).from);
}

TEST_F(Installer, AFileWithoutAPinIsKeptOnlyForTheSameAddress) {
  const std::string content = files["m.gguf"];
  TestServer bad([&](const ServedRequest& request) { return serve_until(content, request, 100); });
  auto plan = plan_for(files, bad.url(""));
  plan.files[0].sha256.clear();
  EXPECT_FALSE(run(plan));
  EXPECT_EQ(bad.requests().back().from, 400U);
  EXPECT_FALSE(run(plan));
  EXPECT_EQ(bad.requests().at(5).from, 500U);
  plan.files[0].urls = {server.url("/m.gguf")};
  ASSERT_TRUE(run(plan));
  EXPECT_FALSE(server.requests().at(0).from);
}

TEST_F(Installer, MirrorsAreTriedInOrder) {
  TestServer denying([&](const ServedRequest&) {
    Reply out;
    out.status = 403;
    return out;
  });
  TestServer corrupting([&](const ServedRequest& request) {
    Reply out = answer(request);
    out.body[out.body.size() / 2] ^= 1;
    return out;
  });
  auto plan = plan_for(files, denying.url(""));
  plan.files[0].urls = {denying.url("/m.gguf"), corrupting.url("/m.gguf"), server.url("/m.gguf")};
  ASSERT_TRUE(run(plan));
  EXPECT_EQ(denying.requests().size(), 1U);
  EXPECT_EQ(corrupting.requests().size(), 1U);
  EXPECT_FALSE(server.requests().at(0).from) << "nothing of a corrupt file is kept";
}

TEST_F(Installer, WhenAllSourcesFailTheFirstReasonIsSaid) {
  TestServer denying([&](const ServedRequest&) {
    Reply out;
    out.status = 401;
    return out;
  });
  auto plan = plan_for(files, denying.url(""));
  plan.files[0].urls.push_back(server.url("/absent.gguf"));
  const auto failed = run(plan);
  EXPECT_EQ(code(failed), "gated_or_denied");
  EXPECT_THAT(failed.error().error.message, HasSubstr("1 other source(s) failed as well"));
}

TEST_F(Installer, ACancelledInstallKeepsItsStaging) {
  const std::string content = files["m.gguf"];
  TestServer slow([&](const ServedRequest& request) {
    Reply out = serve_until(content, request, 700);
    out.after_body = [&] {
      if (measure_folder(store.root() / kIncoming / "model-q4").payload_bytes > 0) cancellation.cancel();
    };
    return out;
  });
  const auto plan = plan_for(files, slow.url(""));
  const auto cancelled = run(plan);
  EXPECT_EQ(code(cancelled), "cancelled");
  EXPECT_EQ(store.inventory().incomplete.size(), 1U);
}

}  // namespace
}  // namespace gezel::models
