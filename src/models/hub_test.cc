#include "models/hub.h"

#include <gmock/gmock.h>

#include "models/ids.h"
#include "models/install_test_support.h"
#include "models/owner.h"

namespace gezel::models {
namespace {

using downloads::testing::Reply;
using downloads::testing::serve;
using downloads::testing::ServedRequest;
using downloads::testing::TestServer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<HubFile> listing(std::initializer_list<const char*> paths) {
  std::vector<HubFile> out;
  for (const char* path : paths) out.push_back({path, 100, std::string(64, 'a')});
  return out;
}

std::vector<std::string> chosen(const std::vector<HubFile>& files, std::string_view selector = {}) {
  std::vector<std::string> out;
  const auto found = choose_files(files, selector);
  if (!found) return {found.error().code};
  for (const auto& file : *found) out.push_back(file.path);
  return out;
}

TEST(HubId, ReadsItsParts) {
  const auto full = parse_hub_id("hf:org/repo@v1.0:Q4_K_M");
  ASSERT_TRUE(full);
  EXPECT_EQ(full->repository, "org/repo");
  EXPECT_EQ(full->revision, "v1.0");
  EXPECT_EQ(full->selector, "Q4_K_M");
  EXPECT_EQ(parse_hub_id("hf:org/repo")->revision, "main");
  EXPECT_EQ(parse_hub_id("hf:org/repo:sub/m.gguf")->selector, "sub/m.gguf");
}

TEST(HubId, RefusesWhatLeadsElsewhere) {
  for (const char* text : {"hf:", "hf:org", "hf:../repo", "hf:org/repo@", "hf:org/repo@../x",
                           "hf:org/repo:", "hf:org/repo:../x", "org/repo", "hf:org/repo/x", "hf:org/re po"})
    EXPECT_EQ(parse_hub_id(text).error().code, "invalid_hub_id") << text;
}

TEST(HubChoice, AnExactFileWinsThenTheTag) {
  const auto files =
      listing({"m-Q4_K_M.gguf", "m-Q4_K.gguf", "m-IQ4_0.gguf", "m-Q4_0.gguf", "sub/m-Q8_0.gguf"});
  EXPECT_THAT(chosen(files, "m-Q4_K_M.gguf"), ElementsAre("m-Q4_K_M.gguf"));
  EXPECT_THAT(chosen(files, "q4_k"), ElementsAre("m-Q4_K.gguf"));
  EXPECT_THAT(chosen(files, "Q4_0"), ElementsAre("m-Q4_0.gguf"));
  EXPECT_THAT(chosen(files, "m-Q8_0.gguf"), ElementsAre("sub/m-Q8_0.gguf"));
  EXPECT_THAT(chosen(files, "Q2_K"), ElementsAre("no_such_file"));
}

TEST(HubChoice, WithoutASelectorTheBestKnownOrTheOnlyOne) {
  EXPECT_THAT(chosen(listing({"m-Q8_0.gguf", "m-Q5_K_M.gguf", "m-F16.gguf"})), ElementsAre("m-Q5_K_M.gguf"));
  EXPECT_THAT(chosen(listing({"m-F16.gguf", "mmproj-Q8_0.gguf", "imatrix-Q4_0.gguf", "README.md"})),
              ElementsAre("m-F16.gguf"));
  EXPECT_THAT(chosen(listing({"a-F16.gguf", "b-F16.gguf"})), ElementsAre("no_such_file"));
  EXPECT_THAT(choose_files(listing({"a-F16.gguf", "b-F16.gguf"}), "").error().message,
              HasSubstr("a-F16.gguf, b-F16.gguf"));
  EXPECT_THAT(choose_files(listing({"README.md"}), "").error().message, HasSubstr("no GGUF file"));
}

TEST(HubChoice, SplitSetsAreTakenWholeAndInOrder) {
  const auto files = listing(
      {"q/m-Q4_K_M-00002-of-00002.gguf", "q/m-Q4_K_M-00001-of-00002.gguf", "m-Q8_0-00001-of-00002.gguf"});
  EXPECT_THAT(chosen(files), ElementsAre("q/m-Q4_K_M-00001-of-00002.gguf", "q/m-Q4_K_M-00002-of-00002.gguf"));
  EXPECT_THAT(chosen(files, "Q8_0"), ElementsAre("missing_parts"));
}

TEST(HubListing, ReadsPinsAndLeavesOutWhatIsUnsafe) {
  const std::string sha(64, 'A');
  const auto files = parse_listing(fmt::format(
      R"([{{"type":"directory","path":"x"}},{{"type":"file","path":"m.gguf","size":5,"lfs":{{"oid":"{}"}}}},)"
      R"({{"type":"file","path":"../m.gguf","size":5}},{{"type":"file","path":"r.md","size":1}},7])",
      sha));
  ASSERT_TRUE(files);
  ASSERT_EQ(files->size(), 2U);
  EXPECT_EQ((*files)[0].sha256, std::string(64, 'a'));
  EXPECT_EQ((*files)[1].sha256, "");
  EXPECT_FALSE(parse_listing("{}"));
  EXPECT_FALSE(parse_commit(R"({"sha":"main"})"));
}

TEST(HubPlan, AnIdThatWouldBeCutTellsItsFilesApart) {
  const std::string stem(80, 'm');
  const auto plan = [&](const std::string& repository, const std::string& path) {
    return plan_hub({repository, "main", ""}, std::string(40, 'c'), {{path, 100, std::string(64, 'a')}}, {})
        .value();
  };
  const std::string one = plan("org/a", stem + "-Q4_0.gguf").id, two = plan("org/a", stem + "-Q8_0.gguf").id;
  EXPECT_EQ(one.size(), kMaxIdLength);
  EXPECT_TRUE(one.ends_with("-" + sha256_hex("org/a/" + stem + "-Q4_0.gguf").substr(0, 8)));
  EXPECT_NE(one, two);
  EXPECT_EQ(plan("org/a", "sub/m.gguf").id, "local-m");
  EXPECT_EQ(plan("org/a", "sub/m.gguf").repository_file, "sub/m.gguf");
  EXPECT_EQ(distinct_id(plan("org/a", "sub/m.gguf")),
            "local-m-" + sha256_hex("org/a/sub/m.gguf").substr(0, 8));
}

class FromHub : public testing::InstallTest {};

TEST_F(FromHub, InstallsWithThePinsOfTheListing) {
  const std::string content = testing::tiny_model("llama", 512), commit(40, 'c');
  TestServer server([&](const ServedRequest& request) {
    Reply out;
    if (request.target == "/api/models/org/My-Repo/revision/main") {
      out.body = R"({"sha":")" + commit + R"("})";
    } else if (request.target == "/api/models/org/My-Repo/tree/" + commit + "?recursive=true") {
      out.body =
          fmt::format(R"([{{"type":"file","path":"sub/My-Q4_K_M.gguf","size":{},"lfs":{{"oid":"{}"}}}}])",
                      content.size(), sha256_hex(content));
    } else if (request.target == "/org/My-Repo/resolve/" + commit + "/sub/My-Q4_K_M.gguf?download=true") {
      return serve(content, request);
    } else {
      out.status = 404;
    }
    return out;
  });
  const downloads::AccessToken token{downloads::parse_url(server.url())->origin(), "secret"};
  const auto plan =
      resolve_hub("hf:org/My-Repo:Q4_K_M", {.base = server.url(""), .mirrors = {}}, transfers, token, {});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->id, "local-my-q4-k-m");
  ASSERT_TRUE(run(*plan, {.token = token}));
  const auto model = store.find("local-my-q4-k-m");
  ASSERT_TRUE(model);
  EXPECT_EQ(model->source, "huggingface");
  EXPECT_EQ(model->revision, commit);
  for (const auto& request : server.requests()) EXPECT_EQ(request.authorization, "Bearer secret");
}

// A hub that lists one file a page; `link` is the Link header of page `page`, which begins at 0.
class PagedHub : public FromHub {
 protected:
  Reply answer(const ServedRequest& request) {
    Reply out;
    if (request.target.find("/revision/") != std::string::npos) {
      out.body = R"({"sha":")" + std::string(40, 'c') + R"("})";
      return out;
    }
    const std::size_t cursor = request.target.find("cursor=");
    const int page = cursor == std::string::npos ? 0 : std::stoi(request.target.substr(cursor + 7));
    out.body = fmt::format(R"([{{"type":"file","path":"m-Q{}_0.gguf","size":5}}])", page);
    if (const auto header = link(page); !header.empty()) out.headers.emplace_back("Link", header);
    return out;
  }
  std::string code(const Result<InstallPlan>& plan) { return plan ? plan->files[0].name : plan.error().code; }
  Result<InstallPlan> resolve(const std::string& selector) {
    return resolve_hub("hf:org/repo:" + selector, {.base = server.url(""), .mirrors = {}}, transfers, {}, {});
  }

  std::function<std::string(int page)> link;
  TestServer server{[this](const ServedRequest& request) { return answer(request); }};
};

TEST_F(PagedHub, AListingIsReadToItsLastPage) {
  link = [&](int page) {
    const std::string next = page == 0 ? server.url("/api/next?cursor=1") : "/api/next?cursor=2";
    return page < 2 ? fmt::format(R"(<{}>; rel="next")", next) : R"(</api/next?cursor=0>; rel="prev")";
  };
  EXPECT_EQ(code(resolve("Q8_0")), "no_such_file");
  EXPECT_EQ(code(resolve("Q2_0")), "m-Q2_0.gguf");
  EXPECT_EQ(server.requests().size(), 8U);
}

TEST_F(PagedHub, AListingThatGoesOnAtAnotherHostIsRefused) {
  link = [&](int) { return fmt::format("<{}>; rel=next", server.url("/x?cursor=1", "localhost")); };
  EXPECT_EQ(code(resolve("Q0_0")), "bad_listing");
  link = [&](int) { return std::string("<https://elsewhere.example/x?cursor=1>; rel=next"); };
  EXPECT_EQ(code(resolve("Q0_0")), "bad_listing");
}

TEST_F(PagedHub, AListingWithoutAnEndIsGivenUp) {
  link = [&](int page) { return fmt::format("</api/next?cursor={}>; rel=next", page); };
  EXPECT_EQ(code(resolve("Q0_0")), "listing_too_long");
  EXPECT_EQ(server.requests().size(), 1U + kMaxListingPages);
}

TEST_F(FromHub, AFileWithoutAPinIsHashedAndRecorded) {
  const std::string content = testing::tiny_model("llama", 512);
  TestServer server([&](const ServedRequest& request) { return serve(content, request); });
  const auto plan = plan_hub({"org/repo", "main", ""}, std::string(40, 'c'), {{"m.gguf", content.size(), ""}},
                             {.base = server.url(""), .mirrors = {}});
  ASSERT_TRUE(plan);
  ASSERT_TRUE(run(*plan));
  EXPECT_EQ(store.find("local-m")->sha256.at("m.gguf"), sha256_hex(content));
  EXPECT_FALSE(manifest_of("local-m").contains("payloadFingerprint"));
}

}  // namespace
}  // namespace gezel::models
