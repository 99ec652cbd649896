// Installs from a real server on a loopback port.

#include "models/installer.h"
#include "base/test_unprivileged.h"

#include <gmock/gmock.h>

#include "models/drift.h"
#include "models/install_test_support.h"
#include "models/manifest.h"

namespace gezel::models {
namespace {

using downloads::testing::Reply;
using downloads::testing::serve;
using downloads::testing::serve_until;
using downloads::testing::ServedRequest;
using downloads::testing::TestServer;
using ::testing::ElementsAre;
using testing::Files;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::plan_for;
using testing::tiny_model;

const std::string kShard1 = "m-00001-of-00003.gguf", kShard2 = "m-00002-of-00003.gguf",
                  kShard3 = "m-00003-of-00003.gguf";

class Installer : public testing::InstallTest {
 protected:
  Reply answer(const ServedRequest& request) {
    const auto found = files.find(request.target.substr(1));
    if (found != files.end()) return serve(found->second, request);
    Reply out;
    out.status = 404;
    return out;
  }
  std::vector<std::string> asked() {
    std::vector<std::string> out;
    for (const auto& request : server.requests()) out.push_back(request.target.substr(1));
    return out;
  }

  Files files{{"m.gguf", tiny_model("llama", 4096)}};
  TestServer server{[this](const ServedRequest& request) { return answer(request); }};
};

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

TEST_F(Installer, OneInstallOfAnIdAtATime) {
  const auto slot = store.begin_install("model-q4");
  ASSERT_TRUE(slot);
  EXPECT_EQ(code(run(plan_for(files, server.url("")))), "install_in_progress");
  EXPECT_EQ(store.remove({.id = "model-q4"}).error().code, "model_not_installed");
}

TEST_F(Installer, AModelFromElsewhereIsNotReplaced) {
  TestFolder own;
  ASSERT_TRUE(
      store.import({.path = own.write("x.gguf", tiny_model()).string(), .mode = "copy", .id = "model-q4"}));
  EXPECT_EQ(code(run(plan_for(files, server.url("")))), "model_exists");
  ASSERT_TRUE(store.remove({.id = "model-q4"}));
  auto plan = plan_for(files, server.url(""));
  plan.source = "huggingface";
  ASSERT_TRUE(run(plan));
  ASSERT_TRUE(run(plan)) << "the same one may be installed again";
  plan.repository = "other/model";
  EXPECT_EQ(code(run(plan)), "model_exists");
}

TEST_F(Installer, ABrokenModelFromElsewhereIsNotReplaced) {
  for (const char* mode : {"copy", "reference"}) {
    TestFolder own;
    const auto imported =
        store.import({.path = own.write("x.gguf", tiny_model()).string(), .mode = mode, .id = "model-q4"});
    ASSERT_TRUE(imported);
    fs::remove(imported->weights);
    EXPECT_EQ(code(run(plan_for(files, server.url("")))), "model_exists") << mode;
    EXPECT_EQ(string_or(manifest_of(), "weightsFilename"), manifest_name(imported->weights, mode[0] == 'r'));
    ASSERT_TRUE(store.remove({.id = "model-q4"}));
  }
}

TEST_F(Installer, WhatCannotBeReadIsNotReplaced) {
  fs::create_directories(store.root() / "model-q4" / "manifest.json");
  EXPECT_EQ(code(run(plan_for(files, server.url("")))), "model_exists");
  fs::remove(store.root() / "model-q4" / "manifest.json");
  home.write("engines/llama-cpp/models/model-q4/manifest.json", "{");
  EXPECT_EQ(code(run(plan_for(files, server.url("")))), "model_exists") << "it may have been an import";
}

TEST_F(Installer, ABrokenInstallIsReplacedByTheSameModelOnly) {
  auto plan = plan_for(files, server.url(""));
  for (const char* source : {"catalog", "huggingface"}) {
    plan.source = source;
    ASSERT_TRUE(run(plan));
    fs::remove(store.root() / "model-q4" / "m.gguf");
    auto other = plan;
    other.source = "huggingface";
    other.repository = "other/model";
    EXPECT_EQ(code(run(other)), "model_exists") << source;
    ASSERT_TRUE(run(plan)) << source;
    EXPECT_TRUE(store.find("model-q4"));
    ASSERT_TRUE(store.remove({.id = "model-q4"}));
  }
}

TEST_F(Installer, ABrokenInstallKeepsItsGoodFiles) {
  files = {{kShard1, tiny_model("llama", 512)},
           {kShard2, tiny_model("llama", 1024)},
           {kShard3, tiny_model("llama", 2048)}};
  const auto plan = plan_for(files, server.url(""));
  ASSERT_TRUE(run(plan));
  fs::remove(store.root() / "model-q4" / kShard2);
  std::string changed = files[kShard3];
  changed.back() ^= 1;
  // Another content of the same size is not what the digest says.
  home.write("engines/llama-cpp/models/model-q4/" + kShard3, changed);
  ASSERT_TRUE(run(plan));
  EXPECT_THAT(asked(), ElementsAre(kShard1, kShard2, kShard3, kShard2, kShard3));
  EXPECT_EQ(read_file(store.root() / "model-q4" / kShard3).value(), files[kShard3]);
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

TEST_F(Installer, ARepairFetchesARefusedFileThoughItLooksUnchanged) {
  const auto plan = plan_for(files, server.url(""));
  ASSERT_TRUE(run(plan));
  const fs::path file = store.root() / "model-q4" / "m.gguf";
  const auto time = fs::last_write_time(file);
  {
    std::fstream damage(file, std::ios::binary | std::ios::in | std::ios::out);
    damage.seekp(-1, std::ios::end);
    damage.put(static_cast<char>(files["m.gguf"].back() ^ 1));
  }
  fs::last_write_time(file, time);
  ASSERT_FALSE(store.verify(*store.find("model-q4")));
  ASSERT_TRUE(run(plan));
  EXPECT_THAT(asked(), ElementsAre("m.gguf", "m.gguf"));
  EXPECT_EQ(read_file(file).value(), files["m.gguf"]);
}

TEST_F(Installer, TheMachinesModelDoesNotStandInTheWayOfACopyOfOnesOwn) {
  for (const bool damaged : {false, true}) {
    TestFolder machine, service, mine, elsewhere;
    ModelStore owner(service.path(), clock, entropy, "llama-cpp", {.folder = machine.path(), .own = true});
    const auto supplied = owner.import(
        {.path = elsewhere.write("x.gguf", tiny_model()).string(), .mode = "copy", .id = "model-q4"});
    ASSERT_TRUE(supplied);
    if (damaged) std::ofstream(supplied->weights, std::ios::app | std::ios::binary) << "x";
    ModelStore user(mine.path(), clock, entropy, "llama-cpp", {.folder = machine.path()});
    EXPECT_EQ(
        code(install(user, transfers, clock, plan_for(files, server.url("")), {}, observer, cancellation)),
        "")
        << damaged;
    ASSERT_TRUE(user.find("model-q4")) << damaged;
    EXPECT_FALSE(user.find("model-q4")->read_only) << damaged;
  }
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
