#include "models/discovery.h"

#include <gmock/gmock.h>

#include "models/test_home.h"

namespace gezel::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::tiny_model;

class Discover : public ::testing::Test {
 protected:
  std::vector<std::string> ids(const std::vector<DiscoveredModel>& rows) {
    std::vector<std::string> out;
    for (const auto& row : rows) out.push_back(row.suggested_id);
    return out;
  }
  TestFolder folder;
};

TEST_F(Discover, TheHubCacheByItsCurrentSnapshot) {
  const std::string content = tiny_model();
  const std::string digest = sha256_hex(content);
  const std::string repository = "models--org--repo/";
  folder.write(repository + "blobs/" + digest, content);
  folder.write(repository + "refs/main", "bbb\n");
  for (const char* commit : {"aaa", "bbb"}) {
    const fs::path snapshot = folder.path() / repository / "snapshots" / commit;
    fs::create_directories(snapshot);
    fs::create_symlink(fs::path("../../blobs") / digest, snapshot / fmt::format("m-{}.gguf", commit));
  }
  const auto rows = discover({.hub = folder.path()}, [&](Bytes size, std::string_view sha256) {
    return size == content.size() && sha256 == digest ? "known-q4" : "";
  });
  ASSERT_THAT(ids(rows), ElementsAre("local-m-bbb"));
  EXPECT_EQ(rows[0].source, "huggingface");
  EXPECT_EQ(rows[0].catalog_match, "known-q4");
  EXPECT_EQ(rows[0].context_window, 4096);
  EXPECT_TRUE(rows[0].importable);
}

TEST_F(Discover, WithoutARefTheNewestSnapshot) {
  folder.write("models--a--b/snapshots/old/x.gguf", tiny_model());
  folder.write("models--a--b/snapshots/new/y.gguf", tiny_model());
  fs::last_write_time(folder.path() / "models--a--b/snapshots/old",
                      fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_THAT(ids(discover({.hub = folder.path()})), ElementsAre("local-y"));
}

TEST_F(Discover, LinksOutOfTheRootAreNotFollowed) {
  TestFolder elsewhere;
  const fs::path secret = elsewhere.write("secret.gguf", tiny_model());
  fs::create_symlink(secret, folder.path() / "link.gguf");
  fs::create_directory_symlink(elsewhere.path(), folder.path() / "sub");
  fs::create_directory_symlink(folder.path(), folder.path() / "loop");
  folder.write("own.gguf", tiny_model());
  EXPECT_THAT(ids(discover({.user_folders = {folder.path()}})), ElementsAre("local-own"));
}

TEST_F(Discover, UserFoldersDownToSixLevels) {
  folder.write("1/2/3/4/5/6/deep.gguf", tiny_model());
  folder.write("1/2/3/4/5/6/7/deeper.gguf", tiny_model());
  EXPECT_THAT(ids(discover({.user_folders = {folder.path()}})), ElementsAre("local-deep"));
}

TEST_F(Discover, LmStudioWithSplitSetsProjectorsAndMlx) {
  folder.write("org/repo/m-00001-of-00002.gguf", tiny_model());
  folder.write("org/repo/m-00002-of-00002.gguf", tiny_model());
  folder.write("org/repo/mmproj-m.gguf", tiny_model("clip"));
  folder.write("org/broken/n-00001-of-00002.gguf", tiny_model());
  folder.write("org/mlx/config.json", "{}");
  folder.write("org/mlx/model.safetensors", "x");
  const auto rows = discover({.lm_studio = {folder.path(), folder.path() / "none"}});
  ASSERT_THAT(ids(rows), ElementsAre("local-n", "local-mlx", "local-m"));
  EXPECT_FALSE(rows[0].importable);
  EXPECT_THAT(rows[0].reason, HasSubstr("n-00002-of-00002.gguf"));
  EXPECT_THAT(rows[1].reason, HasSubstr("MLX"));
  EXPECT_EQ(rows[2].paths.size(), 2U);
  EXPECT_EQ(rows[2].projector.filename(), "mmproj-m.gguf");
}

TEST_F(Discover, Case51AnOllamaManifestPointsAtItsBlob) {
  const std::string content = tiny_model(), digest = sha256_hex(content);
  folder.write("blobs/sha256-" + digest, content);
  folder.write(
      "manifests/registry.example/library/qwen3.5/9b",
      fmt::format(
          R"({{"layers":[{{"mediaType":"application/vnd.ollama.image.license","digest":"sha256:{0}"}},)"
          R"({{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:{0}"}}]}})",
          digest));
  Bytes known_size = content.size() + 1;
  const auto match = [&](Bytes size, std::string_view sha256) {
    return size == known_size && sha256 == digest ? "qwen3.5-9b-q4" : "";
  };
  auto rows = discover({.ollama = folder.path()}, match);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_THAT(rows[0].paths, ElementsAre(folder.path() / "blobs" / ("sha256-" + digest)));
  EXPECT_EQ(rows[0].name, "qwen3.5:9b");
  EXPECT_EQ(rows[0].catalog_match, "") << "the hash alone is not enough";
  known_size = content.size();
  EXPECT_EQ(discover({.ollama = folder.path()}, match)[0].catalog_match, "qwen3.5-9b-q4");
}

TEST_F(Discover, OllamaModelsThatCannotBeImportedSayWhy) {
  const std::string missing(64, 'a');
  const auto manifest = [&](const std::string& name, std::string_view type, const std::string& digest) {
    folder.write(
        "manifests/h/library/m/" + name,
        fmt::format(
            R"({{"layers":[{{"mediaType":"application/vnd.ollama.image.{}","digest":"sha256:{}"}}]}})", type,
            digest));
  };
  manifest("1-tensors", "tensor", missing);
  manifest("2-missing", "model", missing);
  manifest("3-escape", "model", "../../../../etc/passwd");
  folder.write("blobs/sha256-" + std::string(64, 'b'), "no gguf");
  manifest("4-other", "model", std::string(64, 'b'));
  folder.write("manifests/h/library/m/5-broken", "{");
  const auto rows = discover({.ollama = folder.path()});
  ASSERT_EQ(rows.size(), 3U);
  for (const auto& row : rows) EXPECT_FALSE(row.importable) << row.name;
  EXPECT_THAT(rows[0].reason, HasSubstr("one by one"));
  EXPECT_THAT(rows[1].reason, HasSubstr("missing"));
  EXPECT_FALSE(rows[2].reason.empty());
}

TEST_F(Discover, ALookThatIsToldToStopLooksNoFurther) {
  std::vector<std::string> digests;
  for (std::uint64_t fill : {64, 128, 256}) {
    const std::string content = tiny_model("llama", fill);
    digests.push_back(sha256_hex(content));
    folder.write("blobs/sha256-" + digests.back(), content);
    folder.write(fmt::format("manifests/h/library/m{}/1b", fill),
                 fmt::format(R"({{"layers":[{{"mediaType":"application/vnd.ollama.image.model",)"
                             R"("digest":"sha256:{}"}}]}})",
                             digests.back()));
  }
  folder.write("own.gguf", tiny_model());
  const DiscoveryRoots roots{
      .llama_cache = folder.path(), .ollama = folder.path(), .user_folders = {folder.path()}};
  std::stop_source stop;
  int matched = 0;
  const auto match = [&](Bytes, std::string_view) {
    if (++matched == 2) stop.request_stop();
    return std::string();
  };
  const auto rows = discover(roots, match, stop.get_token());
  EXPECT_EQ(matched, 2) << "the third model is not read";
  EXPECT_EQ(rows.size(), 3U) << "the flat cache's file and two of Ollama; nothing of the user's folder";
  EXPECT_THAT(discover(roots, match, stop.get_token()), IsEmpty());
}

TEST_F(Discover, NothingIsChanged) {
  const fs::path file = folder.write("m.gguf", tiny_model());
  const auto before = stamp_file(file).value();
  discover({.llama_cache = folder.path(), .user_folders = {folder.path()}});
  EXPECT_EQ(stamp_file(file).value(), before);
}

TEST_F(Discover, SuggestedIdsAreDistinct) {
  folder.write("a/m.gguf", tiny_model());
  folder.write("b/m.gguf", tiny_model());
  EXPECT_THAT(ids(discover({.user_folders = {folder.path()}})), ElementsAre("local-m", "local-m-2"));
}

TEST_F(Discover, AbsentFoldersHaveNothing) {
  EXPECT_THAT(discover({.hub = "/nonexistent", .llama_cache = "/nonexistent", .ollama = "/nonexistent"}),
              IsEmpty());
}

TEST(DiscoveryRootsTest, FollowTheVariablesInOrder) {
  std::map<std::string, std::string, std::less<>> set;
  const auto variable = [&](std::string_view name) {
    const auto found = set.find(name);
    return found == set.end() ? std::string() : found->second;
  };
  const auto roots = [&] { return discovery_roots(variable, "/h", RootSystem::linux, {}); };
  EXPECT_EQ(roots().hub, "/h/.cache/huggingface/hub");
  EXPECT_EQ(roots().ollama, "/h/.ollama/models");
  set["XDG_CACHE_HOME"] = "/x";
  EXPECT_EQ(roots().hub, "/x/huggingface/hub");
  set["HF_HOME"] = "/hf";
  EXPECT_EQ(roots().hub, "/hf/hub");
  set["LLAMA_CACHE"] = "/l";
  EXPECT_EQ(roots().hub, "/l");
  set["OLLAMA_MODELS"] = "/o";
  EXPECT_EQ(roots().ollama, "/o");
  EXPECT_EQ(discovery_roots(variable, "/h", RootSystem::windows, {}).llama_cache, "");
}

TEST_F(Discover, NoMoreFoldersAreLookedIntoThanTheLimitSays) {
  for (const char* name : {"a/a.gguf", "b/b.gguf", "c/c.gguf"}) folder.write(name, tiny_model());
  const auto rows = discover({.user_folders = {folder.path()}, .max_folders = 3});
  EXPECT_THAT(ids(rows), ElementsAre("local-a", "local-b")) << "the root is one of them";
}

}  // namespace
}  // namespace gezel::models
