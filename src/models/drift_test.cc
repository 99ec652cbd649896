#include "models/drift.h"

#include <gtest/gtest.h>

#include "catalog/catalog.h"

namespace gezel::models {
namespace {

using catalog::Backend;
using Verdict = Drift::Verdict;

std::string sha(char c) {
  return std::string(64, c);
}

class DriftTest : public ::testing::Test {
 protected:
  DriftTest() {
    latest.version = catalog::SemVer::parse("2.0.0").value();
    latest.llama_cpp.emplace();
    latest.llama_cpp->repository = "org/model";
    latest.llama_cpp->files = {{"m.gguf", sha('a'), 1000}};
    installed.catalog_version = "1.0.0";
    installed.repository = "org/model";
    installed.sha256 = {{"m.gguf", sha('a')}};
    installed.sizes = {{"m.gguf", 1000}};
  }
  Drift find() { return find_drift(installed, latest, Backend::llama_cpp); }
  std::string fingerprint() {
    return fingerprint_of(payload_of(latest, Backend::llama_cpp).value(), installed);
  }

  catalog::Version latest;
  InstalledPayload installed;
};

TEST_F(DriftTest, EqualVersionsAreNotLookedAt) {
  installed.catalog_version = "2.0.0";
  installed.sha256["m.gguf"] = sha('b');
  EXPECT_FALSE(find().update_available);
  installed.catalog_version = "";
  EXPECT_FALSE(find().update_available);
}

TEST_F(DriftTest, Case38TheSameFilesAreNoUpdateAndTheFingerprintIsRecordedOnce) {
  const auto first = find();
  EXPECT_FALSE(first.update_available);
  EXPECT_EQ(first.record_fingerprint, fingerprint());
  installed.fingerprint = first.record_fingerprint;
  const auto again = find();
  EXPECT_FALSE(again.update_available);
  EXPECT_EQ(again.record_fingerprint, "");
}

TEST_F(DriftTest, Case39AnOptionalProjectorIsNoUpdateARequiredDraftIs) {
  const std::string recorded = fingerprint();
  latest.llama_cpp->projector = catalog::PinnedFile{"mmproj.gguf", sha('c'), 5};
  for (const auto& print : {std::string(), recorded}) {
    installed.fingerprint = print;
    EXPECT_FALSE(find().update_available) << print;
  }
  latest.llama_cpp->draft = catalog::PinnedFile{"draft.gguf", sha('d'), 5};
  for (const auto& print : {std::string(), recorded}) {
    installed.fingerprint = print;
    EXPECT_TRUE(find().update_available) << print;
    EXPECT_EQ(find().available_version, "2.0.0");
  }
}

TEST_F(DriftTest, AnInstalledProjectorCounts) {
  latest.llama_cpp->projector = catalog::PinnedFile{"mmproj.gguf", sha('c'), 5};
  installed.sha256["mmproj.gguf"] = sha('c');
  installed.fingerprint = fingerprint();
  EXPECT_FALSE(find().update_available);
  latest.llama_cpp->projector->sha256 = sha('e');
  EXPECT_TRUE(find().update_available);
}

TEST_F(DriftTest, Case40WithoutHashesEqualSizesProveNothingButAreNoUpdate) {
  installed.sha256.clear();
  const auto drift = find();
  EXPECT_FALSE(drift.update_available);
  EXPECT_EQ(drift.record_fingerprint, "");
}

TEST_F(DriftTest, OtherSizesHashesOrRepositoriesAreAnUpdate) {
  installed.sha256["m.gguf"] = sha('b');
  EXPECT_EQ(find().verdict, Verdict::changed);
  installed.sha256.clear();
  installed.sizes["m.gguf"] = 999;
  EXPECT_EQ(find().verdict, Verdict::changed);
  installed.sizes["m.gguf"] = 1000;
  installed.repository = "org/other";
  EXPECT_EQ(find().verdict, Verdict::changed);
}

TEST_F(DriftTest, WhatCannotBeComparedIsSaidToBeUnknown) {
  installed.sha256.clear();
  latest.llama_cpp->files[0].size_bytes = 0;
  const auto drift = find();
  EXPECT_EQ(drift.verdict, Verdict::unknown);
  EXPECT_TRUE(drift.update_available);
}

TEST_F(DriftTest, ABackendWithoutASourceHasNoUpdate) {
  EXPECT_FALSE(find_drift(installed, latest, Backend::mlx).update_available);
}

TEST_F(DriftTest, ATransformedFileOnlyHasToBeThere) {
  latest.mlx.emplace();
  latest.mlx->repository = "org/model";
  latest.mlx->chat_template = "{{ x }}";
  latest.mlx->files = {{"model.safetensors", sha('a'), 1000}, {"tokenizer_config.json", sha('b'), 10}};
  installed.sha256 = {{"model.safetensors", sha('a')}, {"tokenizer_config.json", sha('f')}};
  EXPECT_FALSE(find_drift(installed, latest, Backend::mlx).update_available);
  installed.sha256.erase("tokenizer_config.json");
  EXPECT_TRUE(find_drift(installed, latest, Backend::mlx).update_available);
}

}  // namespace
}  // namespace gezel::models
