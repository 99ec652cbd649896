// Installs from a real server on a loopback port.
#include "models/installer.h"

#include <gmock/gmock.h>

#include "models/drift.h"
#include "models/install_test_support.h"
#include "models/manifest.h"

namespace gezel::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Installer;
using ::testing::IsEmpty;
using testing::kShard1;
using testing::kShard2;
using testing::kShard3;
using testing::plan_for;
using testing::tiny_model;

TEST_F(Installer, PutsAModelInPlaceWithItsManifest) {
  files["mtp-m.gguf"] = tiny_model("llama", 32);
  files["mmproj-m.gguf"] = tiny_model("clip", 32);
  auto plan = plan_for(files, server.url(""));
  plan.revision = "abc";
  plan.quantization = "Q4_K_M";
  const auto done = run(plan);
  ASSERT_TRUE(done) << done.error().error.message;
  EXPECT_EQ(done->warning, "");
  const auto model = store.find("model-q4");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->weights.filename(), "m.gguf");
  EXPECT_EQ(model->draft.filename(), "mtp-m.gguf");
  EXPECT_EQ(model->projector.filename(), "mmproj-m.gguf");
  EXPECT_EQ(model->context_window, 4096);
  EXPECT_EQ(model->source, "catalog");
  EXPECT_EQ(model->sha256.size(), 3U);
  EXPECT_EQ(store.check(*model), Integrity::unchanged);
  const auto manifest = manifest_of();
  EXPECT_EQ(string_or(manifest, "huggingfaceRepo"), "org/model");
  EXPECT_EQ(string_or(manifest, "revision"), "abc");
  EXPECT_EQ(string_or(manifest, "catalogVersion"), "1.0.0");
  EXPECT_EQ(string_or(manifest, "draftModelFilename"), "mtp-m.gguf");
  EXPECT_EQ(string_or(manifest, "payloadFingerprint").size(), 64U);
  EXPECT_THAT(names_in(store.root() / "model-q4"),
              ElementsAre("m.gguf", "manifest.json", "mmproj-m.gguf", "mtp-m.gguf"));
  EXPECT_THAT(names_in(store.root() / kIncoming), IsEmpty());
}

TEST_F(Installer, ProgressIsOfTheWholeModelAndNeverGoesBack) {
  files["mtp-m.gguf"] = tiny_model("llama", 2048);
  const auto plan = plan_for(files, server.url(""));
  ASSERT_TRUE(run(plan));
  Bytes last = 0;
  for (const auto& report : observer.reports) {
    EXPECT_GE(report.bytes_written, last);
    EXPECT_EQ(report.total_bytes, plan.total_bytes());
    last = report.bytes_written;
  }
  EXPECT_EQ(last, plan.total_bytes());
  EXPECT_TRUE(observer.metadata);
}

TEST_F(Installer, Case34AMismatchChangesNothingThatIsInstalled) {
  const auto plan = plan_for(files, server.url(""));
  ASSERT_TRUE(run(plan));
  auto next = plan_for({{"m.gguf", tiny_model("llama", 8)}}, server.url(""), "model-q4", "2.0.0");
  const auto failed = run(next);
  ASSERT_FALSE(failed);
  EXPECT_EQ(code(failed), "hash_mismatch");
  ASSERT_TRUE(failed.error().mismatch);
  EXPECT_EQ(failed.error().mismatch->file, "m.gguf");
  EXPECT_EQ(failed.error().mismatch->expected, next.files[0].sha256);
  EXPECT_EQ(failed.error().mismatch->actual, plan.files[0].sha256);
  EXPECT_THAT(failed.error().error.message, HasSubstr("differs from the one in the catalog"));
  EXPECT_TRUE(store.find("model-q4"));
  EXPECT_THAT(names_in(store.root() / kIncoming / "model-q4"), ElementsAre("plan.json"));
}

TEST_F(Installer, Case35SkippingTheCheckKeepsTheFileAndItsActualDigest) {
  auto plan = plan_for(files, server.url(""));
  const std::string actual = plan.files[0].sha256;
  plan.files[0].sha256 = std::string(64, 'a');
  ASSERT_EQ(code(run(plan)), "hash_mismatch");
  ASSERT_TRUE(run(plan, {.skip_sha = true}));
  const auto manifest = manifest_of();
  EXPECT_EQ(string_or(manifest.at("fileSha256").as_object(), "m.gguf"), actual);
  EXPECT_FALSE(manifest.contains("payloadFingerprint"));
  EXPECT_TRUE(store.find("model-q4"));
}

TEST_F(Installer, Case37AnUpdateFetchesOnlyTheShardThatChanged) {
  files = {{kShard1, tiny_model("llama", 512)},
           {kShard2, tiny_model("llama", 1024)},
           {kShard3, tiny_model("llama", 2048)}};
  ASSERT_TRUE(run(plan_for(files, server.url(""))));
  files[kShard2] = tiny_model("llama", 4096);
  const auto plan = plan_for(files, server.url(""), "model-q4", "2.0.0");
  ASSERT_TRUE(run(plan));
  EXPECT_THAT(asked(), ElementsAre(kShard1, kShard2, kShard3, kShard2));
  EXPECT_EQ(observer.reports.front().bytes_written, files[kShard1].size() + files[kShard3].size());
  EXPECT_EQ(observer.reports.front().total_bytes, plan.total_bytes());
  EXPECT_EQ(read_file(store.root() / "model-q4" / kShard2).value(), files[kShard2]);
  EXPECT_EQ(string_or(manifest_of(), "catalogVersion"), "2.0.0");
}

TEST_F(Installer, AProjectorIsFetchedAloneWhenItIsAskedForLater) {
  ASSERT_TRUE(run(plan_for(files, server.url(""))));
  files["mmproj-m.gguf"] = tiny_model("clip", 64);
  ASSERT_TRUE(run(plan_for(files, server.url(""))));
  EXPECT_THAT(asked(), ElementsAre("m.gguf", "mmproj-m.gguf"));
  EXPECT_FALSE(store.find("model-q4")->projector.empty());
}

TEST_F(Installer, FilesOfAnOldVersionGo) {
  files["mtp-m.gguf"] = tiny_model("llama", 32);
  ASSERT_TRUE(run(plan_for(files, server.url(""))));
  files.erase("mtp-m.gguf");
  ASSERT_TRUE(run(plan_for(files, server.url(""), "model-q4", "2.0.0")));
  EXPECT_THAT(names_in(store.root() / "model-q4"), ElementsAre("m.gguf", "manifest.json"));
}

TEST_F(Installer, WhatIsNoModelIsRejectedAndItsStagingRemoved) {
  files["m.gguf"] = "this is not a model, but it has the right digest";
  const auto failed = run(plan_for(files, server.url("")));
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().error.message, HasSubstr("no model that can be run"));
  EXPECT_THAT(names_in(store.root() / kIncoming), IsEmpty());
}

TEST_F(Installer, ASplitSetMustBeComplete) {
  files = {{kShard1, tiny_model("llama", 512)}, {kShard3, tiny_model("llama", 2048)}};
  EXPECT_EQ(code(run(plan_for(files, server.url("")))), "missing_parts");
}

TEST_F(Installer, AFileWithoutATemplateIsInstalledWithAWarning) {
  gguf::testing::TestFile file;
  file.text("general.architecture", "llama").u32("llama.context_length", 512).tensor("token_embd.weight", 64);
  files["m.gguf"] = file.bytes();
  const auto done = run(plan_for(files, server.url("")));
  ASSERT_TRUE(done);
  EXPECT_THAT(done->warning, HasSubstr("no chat template"));
  EXPECT_EQ(manifest_of().at("chatTemplatePresent").as_bool(), false);
}

TEST_F(Installer, AFullDiskIsSaidBeforeTheFirstByte) {
  store.set_free_space_probe([](const fs::path&) { return std::optional<Bytes>(kGiB); });
  EXPECT_EQ(code(run(plan_for(files, server.url("")))), "insufficient_disk");
  EXPECT_THAT(asked(), IsEmpty());
  store.set_free_space_probe([](const fs::path&) { return std::optional<Bytes>(3 * kGiB); });
  {
    DiskHold other(store.disk_holds(), kGiB);
    EXPECT_EQ(code(run(plan_for(files, server.url("")))), "insufficient_disk");
    other.set(0);
    EXPECT_TRUE(run(plan_for(files, server.url("")))) << "the other has written what it had to write";
    ASSERT_TRUE(store.remove({.id = "model-q4"}));
  }
  EXPECT_TRUE(run(plan_for(files, server.url(""))));
}

TEST_F(Installer, Case33WhatCannotBeMeasuredStopsNobody) {
  store.set_free_space_probe([](const fs::path&) { return std::nullopt; });
  EXPECT_TRUE(run(plan_for(files, server.url(""))));
}

TEST_F(Installer, OneInstallOfAnIdAtATime) {
  const auto slot = store.begin_install("model-q4");
  ASSERT_TRUE(slot);
  EXPECT_EQ(code(run(plan_for(files, server.url("")))), "install_in_progress");
  EXPECT_EQ(store.remove({.id = "model-q4"}).error().code, "model_not_installed");
}

TEST_F(Installer, WhatAnInstallStillWritesIsHeldUntilItEnds) {
  Bytes at_start = 0, at_end = kGiB;
  const auto held = [&] { return DiskHold(store.disk_holds(), 0).others(); };
  const auto plan = plan_for(files, server.url(""));
  ASSERT_TRUE(run(plan, {.at_step = [&](std::string_view step) {
                    if (step == "room") at_start = held();
                    if (step == "manifest") at_end = held();
                  }}));
  EXPECT_EQ(at_start, plan.total_bytes());
  EXPECT_EQ(at_end, 0U);
}

TEST_F(Installer, NothingIsWrittenThroughALinkInTheStore) {
  TestFolder elsewhere;
  fs::create_directories(store.root());
  fs::create_directory_symlink(elsewhere.path(), store.root() / kIncoming);
  EXPECT_EQ(code(run(plan_for(files, server.url("")))), "unsafe_path");
  EXPECT_THAT(names_in(elsewhere.path()), IsEmpty());
}

TEST_F(Installer, AnImageModelIsHashesAndSignatures) {
  ModelStore images(home.path(), clock, entropy, "sd-cpp");
  const std::string header = R"({"x":1})";
  std::string safetensors(8, '\0');
  safetensors[0] = static_cast<char>(header.size());
  files = {{"weights.safetensors", safetensors + header + "data"}, {"vae.safetensors", safetensors + header}};
  auto plan = plan_for(files, server.url(""), "sd-x");
  std::swap(plan.files[0], plan.files[1]);
  plan.backend = catalog::Backend::sd_cpp;
  plan.files[1].role = FileRole::auxiliary;
  plan.files[1].auxiliary_role = "vae";
  plan.media = {{"weightsKind", "checkpoint"}};
  ASSERT_TRUE(install(images, transfers, clock, plan, {}, observer, cancellation));
  EXPECT_EQ(images.find("sd-x")->files.size(), 2U);
  files["weights.safetensors"] = "nothing of the kind";
  EXPECT_EQ(code(install(images, transfers, clock, plan_for(files, server.url(""), "sd-y"), {}, observer,
                         cancellation)) == "",
            false);
}

TEST_F(Installer, DriftOfAnInstalledModelFindsNothingNew) {
  ASSERT_TRUE(run(plan_for(files, server.url(""))));
  const auto model = store.find("model-q4").value();
  catalog::Version latest;
  latest.version = catalog::SemVer::parse("2.0.0").value();
  latest.llama_cpp.emplace();
  latest.llama_cpp->repository = "org/model";
  latest.llama_cpp->files = {{"m.gguf", model.sha256.at("m.gguf"), model.size_bytes}};
  const InstalledPayload payload{
      model.catalog_version, model.repository, model.payload_fingerprint, model.sha256, {}};
  EXPECT_FALSE(find_drift(payload, latest, catalog::Backend::llama_cpp).update_available)
      << "the fingerprint of the manifest is that of the catalog";
}

TEST_F(Installer, Case38TheFingerprintIsRecordedAndTheVersionStays) {
  auto plan = plan_for(files, server.url(""));
  plan.files[0].sha256.clear();  // an old install that compared nothing
  ASSERT_TRUE(run(plan));
  ASSERT_FALSE(manifest_of().contains("payloadFingerprint"));
  ASSERT_TRUE(store.record_fingerprint("model-q4", std::string(64, 'f')));
  ASSERT_TRUE(store.record_fingerprint("model-q4", std::string(64, 'e')));
  EXPECT_EQ(string_or(manifest_of(), "payloadFingerprint"), std::string(64, 'f')) << "once";
  EXPECT_EQ(string_or(manifest_of(), "catalogVersion"), "1.0.0");
}

TEST_F(Installer, AModelOfTheMachineIsOpenToAllAsSoonAsItIsThere) {
  TestFolder machine;
  ModelStore owner(home.path(), clock, entropy, "llama-cpp", {.folder = machine.path(), .own = true});
  std::vector<fs::perms> modes;
  const InstallOptions options{.at_step = [&](std::string_view step) {
    if (step != "published") return;
    const fs::path folder = owner.root() / "model-q4";
    for (const auto& path : {folder, folder / "m.gguf", folder / kManifestName})
      modes.push_back(fs::status(path).permissions());
  }};
  ASSERT_TRUE(
      install(owner, transfers, clock, plan_for(files, server.url("")), options, observer, cancellation));
  EXPECT_THAT(modes, ElementsAre(fs::perms(0755), fs::perms(0644), fs::perms(0644)));
}

}  // namespace
}  // namespace gezel::models
