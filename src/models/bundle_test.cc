// What makes an archive a bundle. Acceptance case 52 of spec 60: everything here is refused before anybody
// could confirm it.
#include "models/bundle.h"

#include <gmock/gmock.h>

#include "models/bundle_test_support.h"

namespace gezel::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RawBundle;
using testing::TextSource;
using testing::tiny_model;

// "" = a good one.
std::string problem_of(const std::string& archive) {
  const TextSource source(archive);
  const auto bundle = open_bundle(source);
  if (!bundle) return bundle.error().message;
  const auto verified = verify_bundle(source, *bundle);
  if (!verified) return verified.error().message;
  const auto plan = plan_bundle(*bundle);
  return plan ? "" : plan.error().message;
}

TEST(Bundle, OneThatIsGood) {
  auto raw = RawBundle::of();
  raw.manifest.license = catalog::License{.name = "Apache License 2.0",
                                          .short_name = "Apache-2.0",
                                          .license_class = catalog::LicenseClass::open,
                                          .url = "https://example.org/license"};
  raw.add("catalog/chat-models/no/notes/manifest.json", "{}", BundleRole::catalog_file);
  const TextSource source(raw.bytes());
  const auto bundle = open_bundle(source);
  ASSERT_TRUE(bundle) << bundle.error().message;
  ASSERT_TRUE(verify_bundle(source, *bundle));
  EXPECT_EQ(bundle->manifest.id, "notes");
  EXPECT_EQ(bundle->manifest.license->short_name, "Apache-2.0");
  EXPECT_THAT(bundle_warnings(*bundle), IsEmpty());
  const auto plan = plan_bundle(*bundle);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->id, "notes");
  EXPECT_EQ(plan->source, "bundle");
  ASSERT_EQ(plan->files.size(), 1U);
  EXPECT_EQ(plan->files[0].sha256, sha256_hex(tiny_model()));
}

TEST(Bundle, OneWithoutALicenceIsWarnedOf) {
  const TextSource source(RawBundle::of().bytes());
  EXPECT_THAT(bundle_warnings(*open_bundle(source)), ElementsAre(HasSubstr("licence")));
}

TEST(Bundle, Case52AnUndeclaredFileIsRefused) {
  auto raw = RawBundle::of();
  raw.entries.push_back({.name = "model/more.gguf", .content = "GGUF"});
  EXPECT_THAT(problem_of(raw.bytes()), HasSubstr("model/more.gguf, which it does not declare"));
}

TEST(Bundle, Case52AProgramIsRefused) {
  for (const char* name :
       {"model/a.py", "model/a.SH", "model/run.exe", "catalog/chat-models/x.js", "model/lib.so"}) {
    auto raw = RawBundle::of();
    raw.add(name, "#!/bin/sh",
            std::string_view(name).starts_with("model/") ? BundleRole::model : BundleRole::catalog_file);
    EXPECT_THAT(problem_of(raw.bytes()), HasSubstr("are not taken")) << name;
  }
}

TEST(Bundle, Case52ALinkIsRefused) {
  auto raw = RawBundle::of();
  raw.entries[0].mode = 0120777;
  EXPECT_THAT(problem_of(raw.bytes()), HasSubstr("is a link"));
}

TEST(Bundle, Case52ARatioOf300To1IsRefused) {
  // Deflate packs zeros 1000 to 1; with some noise it is 300 to 1.
  std::string content = tiny_model() + std::string(1'000'000, '\0');
  for (std::uint32_t i = 0, x = 1; i < 2'000; ++i)
    content += static_cast<char>((x = x * 1664525 + 1013904223) >> 24);
  auto raw = RawBundle::of(content);
  raw.entries[0].deflate = true;
  EXPECT_THAT(problem_of(raw.bytes()), HasSubstr("200 to 1"));
}

TEST(Bundle, WhatIsDeclaredMustBeThereAndAsItIsDeclared) {
  auto raw = RawBundle::of();
  raw.entries.pop_back();
  EXPECT_THAT(problem_of(raw.bytes()), HasSubstr("declares manifests/catalog.json, which is not in it"));
  raw = RawBundle::of();
  raw.entries[2].content += " ";
  EXPECT_THAT(problem_of(raw.bytes()), HasSubstr("bytes of manifests/catalog.json"));
  raw = RawBundle::of();
  raw.entries[0].content.back() = static_cast<char>(raw.entries[0].content.back() ^ 1);
  EXPECT_THAT(problem_of(raw.bytes()), HasSubstr("model/notes.gguf in the bundle is damaged"));
  raw = RawBundle::of();
  raw.manifest.approx_size_bytes += 1;
  EXPECT_THAT(problem_of(raw.bytes()), HasSubstr("says that its model has"));
}

TEST(Bundle, TheManifestsMustBeOfOneModel) {
  auto raw = RawBundle::of();
  const auto with = [&](std::size_t entry, const json::object& members) {
    auto changed = RawBundle::of();
    changed.entries[entry].content = to_json(members);
    changed.manifest.files[entry].size_bytes = changed.entries[entry].content.size();
    changed.manifest.files[entry].sha256 = sha256_hex(changed.entries[entry].content);
    return changed.bytes();
  };
  EXPECT_THAT(problem_of(with(1, {{"id", "other"}, {"weightsFilename", "notes.gguf"}})),
              HasSubstr("its install manifest of \"other\""));
  EXPECT_THAT(problem_of(with(2, {{"id", "other"}})), HasSubstr("its catalog manifest of \"other\""));
  EXPECT_THAT(
      problem_of(with(1, {{"id", "notes"}, {"catalogId", "item-q4"}, {"weightsFilename", "notes.gguf"}})),
      HasSubstr("is of \"item-q4\""));
  EXPECT_THAT(problem_of(with(1, {{"id", "notes"}, {"weightsFilename", "../../etc/passwd"}})),
              HasSubstr("which is no file of its model"));
  EXPECT_THAT(problem_of(with(
                  1, {{"id", "notes"}, {"weightsFilename", "notes.gguf"}, {"mmprojFilename", "notes.gguf"}})),
              HasSubstr("or twice"));
  raw.add("model/extra.gguf", "GGUF", BundleRole::model);
  raw.manifest.approx_size_bytes += 4;
  EXPECT_THAT(problem_of(raw.bytes()),
              HasSubstr("the model file extra.gguf, which its install manifest does not name"));
}

TEST(Bundle, AModelFileIsAGgufFile) {
  auto raw = RawBundle::of(std::string("not a model"));
  EXPECT_THAT(problem_of(raw.bytes()), HasSubstr("which is no GGUF file"));
  raw = RawBundle::of();
  raw.add("model/readme.md", "# hello", BundleRole::model);
  raw.manifest.approx_size_bytes += 7;
  EXPECT_THAT(problem_of(raw.bytes()), HasSubstr("only GGUF files"));
}

TEST(Bundle, AnMlxModelHasItsConfigurationAndItsTensors) {
  auto raw = RawBundle::of();
  raw.manifest.engine = catalog::Backend::mlx;
  EXPECT_THAT(problem_of(raw.bytes()), HasSubstr("without a config.json"));
  const auto mlx = [](const std::string& tensors) {
    RawBundle out = RawBundle::of();
    out.manifest.engine = catalog::Backend::mlx;
    out.entries.erase(out.entries.begin());
    out.manifest.files.erase(out.manifest.files.begin());
    out.add("model/config.json", "{}", BundleRole::model);
    out.add("model/model.safetensors", tensors, BundleRole::model);
    out.manifest.approx_size_bytes = 2 + tensors.size();
    return out.bytes();
  };
  std::string header;
  zip::put(header, 2, 8);
  EXPECT_THAT(problem_of(mlx(header + "{}")), HasSubstr("runs llama-cpp models only"));
  std::string large;
  zip::put(large, kMaxSafetensorsHeader + 1, 8);
  EXPECT_THAT(problem_of(mlx(large + "{}")), HasSubstr("safetensors header"));
  EXPECT_THAT(problem_of(mlx("short")), HasSubstr("safetensors header"));
}

TEST(Bundle, ItsManifestSaysWhatIsWrongWithIt) {
  const auto with = [](std::string_view key, json::value value) {
    json::object members = bundle_manifest_json(RawBundle::of().manifest);
    if (value.is_null())
      members.erase(key);
    else
      members[key] = std::move(value);
    const auto parsed = parse_bundle_manifest(to_json(members));
    return parsed ? std::string() : parsed.error().message;
  };
  EXPECT_EQ(with("unknown", 1), "");
  EXPECT_THAT(with("schemaVersion", 2), HasSubstr("newer version"));
  EXPECT_THAT(with("kind", "other"), HasSubstr("another kind"));
  EXPECT_THAT(with("id", "../x"), HasSubstr("which cannot be one"));
  EXPECT_THAT(with("id", nullptr), HasSubstr("\"id\""));
  EXPECT_THAT(with("name", "a\nb"), HasSubstr("\"name\""));
  EXPECT_THAT(with("name", json::string(2000, 'a')), HasSubstr("\"name\""));
  EXPECT_THAT(with("engine", "vllm"), HasSubstr("llama-cpp, mlx or ds4"));
  EXPECT_THAT(with("approxSizeBytes", -1), HasSubstr("approxSizeBytes"));
  EXPECT_THAT(with("approxSizeBytes", 1.5), HasSubstr("approxSizeBytes"));
  EXPECT_THAT(with("files", nullptr), HasSubstr("\"files\""));
  EXPECT_THAT(with("files", json::array{1}), HasSubstr("files[0]"));
  const auto with_file = [&](std::string_view key, json::value value) {
    json::object members = bundle_manifest_json(RawBundle::of().manifest);
    members["files"].as_array()[0].as_object()[key] = std::move(value);
    const auto parsed = parse_bundle_manifest(to_json(members));
    return parsed ? std::string() : parsed.error().message;
  };
  EXPECT_THAT(with_file("path", "../x.gguf"), HasSubstr("no safe path"));
  EXPECT_THAT(with_file("path", "elsewhere/x.gguf"), HasSubstr("not that of its place"));
  EXPECT_THAT(with_file("role", "catalog-file"), HasSubstr("not that of its place"));
  EXPECT_THAT(with_file("role", "root"), HasSubstr("not that of its place"));
  EXPECT_THAT(with_file("sha256", "abc"), HasSubstr("64 hexadecimal digits"));
  EXPECT_THAT(with_file("sizeBytes", "5"), HasSubstr("files[0].sizeBytes"));
  EXPECT_THAT(parse_bundle_manifest("[]").error().message, HasSubstr("no JSON object"));
  EXPECT_THAT(parse_bundle_manifest("{").error().message, HasSubstr("cannot be read"));
  EXPECT_THAT(parse_bundle_manifest(std::string(kMaxBundleManifest + 1, ' ')).error().message,
              HasSubstr("at most"));
}

TEST(Bundle, DeclaredTwiceIsRefused) {
  auto raw = RawBundle::of();
  raw.manifest.files.push_back(raw.manifest.files[0]);
  raw.manifest.files.back().path = "model/NOTES.gguf";
  EXPECT_THAT(problem_of(raw.bytes()), HasSubstr("declares model/NOTES.gguf twice"));
  raw = RawBundle::of();
  raw.manifest.files.pop_back();
  raw.entries.pop_back();
  EXPECT_THAT(problem_of(raw.bytes()), HasSubstr("exactly one catalog-manifest"));
}

TEST(Bundle, AnArchiveOfAnotherKind) {
  EXPECT_THAT(problem_of(testing::raw_archive({{.name = "word/document.xml", .content = "<x/>"}})),
              HasSubstr("of another kind"));
}

TEST(Bundle, CutOffAnywhereItIsAnError) {
  const std::string whole = RawBundle::of().bytes();
  ASSERT_EQ(problem_of(whole), "");
  for (std::size_t size = 0; size < whole.size(); size += 7)
    EXPECT_NE(problem_of(whole.substr(0, size)), "") << size;
}

class Exported : public testing::StoreTest {};

TEST_F(Exported, AModelOfTheStoreIsAGoodBundle) {
  const auto path = files.write("weights/My Model.gguf", tiny_model("llama", 4096));
  ASSERT_TRUE(import(path, "copy", "notes"));
  const catalog::Catalog catalog{catalog::CatalogOptions{}};
  const auto request =
      export_request(*store.find("notes"), catalog, clock.wall_now(), "gezel-inference/test");
  auto archive = BundleExport::prepare(request);
  ASSERT_TRUE(archive) << archive.error().message;
  EXPECT_EQ(archive->file_name(), "notes.gezmodel");
  const Bytes total = archive->total_bytes();
  const std::string bytes = testing::read_all(*archive);
  EXPECT_EQ(bytes.size(), total);
  EXPECT_EQ(problem_of(bytes), "");
  const TextSource source(bytes);
  const auto bundle = open_bundle(source);
  ASSERT_TRUE(bundle);
  EXPECT_EQ(bundle->manifest.name, "Tiny");
  EXPECT_EQ(bundle->manifest.created_by, "gezel-inference/test");
  EXPECT_FALSE(bundle->manifest.license) << "the catalog does not know it";
  EXPECT_FALSE(bundle->installed.contains("fileStamps"));
  EXPECT_THAT(bytes, ::testing::Not(HasSubstr(files.path().string()))) << "no path of this machine";
  BundleExport again = BundleExport::prepare(request).value();
  EXPECT_EQ(testing::read_all(again), bytes) << "the same model gives the same archive";
}

TEST_F(Exported, AReferenceMayGoThroughLinksTheStoreMayNot) {
  const auto path = files.write("blobs/abc", tiny_model());
  fs::create_symlink(path, files.path() / "m.gguf");
  ASSERT_TRUE(import(files.path() / "m.gguf", "reference", "notes"));
  EXPECT_TRUE(BundleExport::prepare({.model = *store.find("notes")}));
  ASSERT_TRUE(import(files.path() / "blobs/abc", "copy", "copied"));
  auto model = *store.find("copied");
  fs::remove(model.weights);
  fs::create_symlink(path, model.weights);
  const auto refused = BundleExport::prepare({.model = model});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("is a link"));
}

TEST_F(Exported, AFileThatChangesMeanwhileEndsIt) {
  const auto path = files.write("m.gguf", tiny_model("llama", 3 * kMiB));
  ASSERT_TRUE(import(path, "reference", "notes"));
  auto archive = BundleExport::prepare({.model = *store.find("notes")});
  ASSERT_TRUE(archive);
  files.write("m.gguf", tiny_model("llama", 2 * kMiB));
  Result<std::string> piece = std::string("begin");
  while (piece && !piece->empty()) piece = archive->next();
  ASSERT_FALSE(piece);
  EXPECT_EQ(piece.error().code, "model_changing");
}

TEST_F(Exported, CanBeCancelled) {
  ASSERT_TRUE(import(files.write("m.gguf", tiny_model()), "reference", "notes"));
  const auto cancelled = BundleExport::prepare({.model = *store.find("notes")}, [](Bytes) { return false; });
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, "cancelled");
}

TEST(BundleName, HasOnlyWhatEveryFileSystemHas) {
  EXPECT_EQ(bundle_file_name("qwen3.5-2b-q4"), "qwen3.5-2b-q4.gezmodel");
  EXPECT_EQ(bundle_file_name("qwen3.5:2b"), "qwen3.5-2b.gezmodel");
}

}  // namespace
}  // namespace gezel::models
