// Model bundles through the service.
#include <gmock/gmock.h>

#include "models/bundle_test_support.h"
#include "service/bundles.h"
#include "service/test_service.h"

namespace gezel::service {
namespace {

using models::testing::RawBundle;
using models::testing::tiny_model;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::string_view kId = "00112233-4455-6677-8899-aabbccddeeff";

// A body in pieces, which may break off.
class Pieces final : public api::BodyReader {
 public:
  explicit Pieces(std::string body, std::size_t most = 1000, std::size_t breaks_at = std::string::npos)
      : body_(std::move(body)), most_(most), breaks_at_(breaks_at) {}
  asio::awaitable<Result<std::string>> next() override {
    if (at_ >= breaks_at_) co_return fail(ErrorKind::cancelled, "upload_broken", "the upload broke off");
    const std::string piece = body_.substr(at_, most_);
    at_ += piece.size();
    co_return piece;
  }

 private:
  std::string body_;
  std::size_t most_, breaks_at_, at_ = 0;
};

class ServiceBundles : public testing::ServiceTest {
 protected:
  Bundles& bundles() { return service->bundles(); }
  api::ApiResult<BundleScanned> upload(const std::string& body, std::optional<Bytes> announced = {},
                                       bool async = false, std::size_t breaks_at = std::string::npos) {
    Pieces pieces(body, 1000, breaks_at);
    return wait(bundles().scan({.import_id = std::string(kId),
                                .path = {},
                                .upload = &pieces,
                                .upload_bytes = announced,
                                .respond_async = async}));
  }
  std::vector<std::string> waiting() {
    std::vector<std::string> out;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(home.path() / ".transactions/gezmodel-imports", ignored))
      out.push_back(entry.path().filename().string());
    return out;
  }
};

TEST_F(ServiceBundles, WhatIsExportedCanBeImportedElsewhere) {
  install("notes");
  start();
  const auto made = wait(bundles().export_model("llama-cpp", "notes"));
  ASSERT_TRUE(made) << made.error().message;
  std::string archive;
  while (true) {
    const auto piece = wait((*made)->next());
    ASSERT_TRUE(piece);
    if (piece->empty()) break;
    archive += *piece;
  }
  EXPECT_EQ(archive.size(), (*made)->total_bytes());
  ASSERT_TRUE(wait(service->installs().remove("notes", false)));
  const auto scanned = upload(archive, archive.size());
  ASSERT_TRUE(scanned) << scanned.error().message;
  EXPECT_TRUE(scanned->complete);
  EXPECT_EQ(scanned->body.at("id").as_string(), "notes");
  EXPECT_EQ(scanned->body.at("exists").as_bool(), false);
  EXPECT_THAT(listed(), IsEmpty());
  const auto model = wait(bundles().confirm(std::string(kId), false));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->at("model").at("id").as_string(), "llama-cpp:notes");
  EXPECT_TRUE(chat("notes"));
  EXPECT_THAT(waiting(), IsEmpty());
}

TEST_F(ServiceBundles, OnlyWhatIsHereIsExported) {
  start();
  EXPECT_EQ(wait(bundles().export_model("llama-cpp", "none")).error().status, 404);
  EXPECT_EQ(wait(bundles().export_model("mlx", "none")).error().code, "unsupported_backend");
}

TEST_F(ServiceBundles, AnArchiveOfThisMachineStaysWhereItIs) {
  start();
  const auto path = files.write("a.gezmodel", RawBundle::of().bytes());
  const auto scanned = wait(bundles().scan({.import_id = {}, .path = path}));
  ASSERT_TRUE(scanned) << scanned.error().message;
  const std::string id(scanned->body.at("importId").as_string());
  ASSERT_TRUE(wait(bundles().confirm(id, false)));
  EXPECT_TRUE(fs::exists(path));
  EXPECT_EQ(wait(bundles().confirm(id, false)).error().status, 404);
}

TEST_F(ServiceBundles, ABrokenUploadLeavesNothing) {
  start();
  const std::string archive = RawBundle::of().bytes();
  EXPECT_EQ(upload(archive, archive.size(), false, 500).error().code, "upload_broken");
  EXPECT_EQ(upload(archive.substr(0, 700), archive.size()).error().code, "upload_incomplete");
  EXPECT_EQ(upload("nonsense").error().code, "invalid_bundle");
  EXPECT_THAT(waiting(), IsEmpty());
  EXPECT_TRUE(upload(archive, archive.size())) << "the same id may be used again";
}

TEST_F(ServiceBundles, AnAnswerThatDoesNotWaitIsFollowedByItsProgress) {
  start();
  const auto accepted = upload(RawBundle::of().bytes(), {}, true);
  ASSERT_TRUE(accepted) << accepted.error().message;
  EXPECT_FALSE(accepted->complete);
  settle();
  const auto progress = bundles().progress(std::string(kId));
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->at("status").as_string(), "done");
  EXPECT_EQ(progress->at("phase").as_string(), "validating");
  EXPECT_EQ(progress->at("review").at("id").as_string(), "notes");
  clock.advance(Millis(10 * 60 * 1000 + 1));
  EXPECT_EQ(bundles().progress(std::string(kId)).error().code, "import_not_found");
  EXPECT_TRUE(wait(bundles().confirm(std::string(kId), false))) << "the review itself is kept for a day";
}

TEST_F(ServiceBundles, AnErrorIsKeptForItsProgress) {
  start();
  auto raw = RawBundle::of();
  raw.entries[0].content[40] = static_cast<char>(raw.entries[0].content[40] ^ 1);
  ASSERT_TRUE(upload(raw.bytes(), {}, true));
  settle();
  const auto progress = bundles().progress(std::string(kId));
  ASSERT_TRUE(progress);
  EXPECT_EQ(progress->at("status").as_string(), "error");
  EXPECT_EQ(progress->at("error").at("code").as_string(), "hash_mismatch");
  EXPECT_THAT(waiting(), IsEmpty());
}

TEST_F(ServiceBundles, AModelThatIsThereIsReplacedOnPurpose) {
  install("notes");
  start();
  const auto scanned = upload(RawBundle::of(tiny_model("llama", 4096)).bytes());
  ASSERT_TRUE(scanned);
  EXPECT_TRUE(scanned->body.at("exists").as_bool());
  const auto refused = wait(bundles().confirm(std::string(kId), false));
  EXPECT_EQ(refused.error().status, 409);
  EXPECT_THAT(refused.error().message, HasSubstr("replace"));
  EXPECT_TRUE(wait(bundles().confirm(std::string(kId), true)));
  EXPECT_EQ(read_file(store.find("notes")->weights).value(), tiny_model("llama", 4096));
}

// Whatever comes to nothing leaves what was known of an import.
TEST_F(ServiceBundles, AReviewOutlivesARepeatedScanAndARefusedConfirmation) {
  install("notes");
  start();
  ASSERT_TRUE(upload(RawBundle::of().bytes()));
  const auto status = [&] {
    const auto progress = bundles().progress(std::string(kId));
    return progress ? std::string(progress->at("status").as_string()) : progress.error().code;
  };
  EXPECT_EQ(upload(RawBundle::of().bytes()).error().code, "import_exists");
  EXPECT_EQ(status(), "done");
  EXPECT_EQ(wait(bundles().confirm(std::string(kId), false)).error().status, 409);
  EXPECT_EQ(status(), "done");
}

// An upload beside others who write to the same disk, with and without a length.
class ServiceBundleSpace : public ServiceBundles {
 protected:
  void SetUp() override {
    install("notes");
    start();
    ASSERT_TRUE(chat("notes"));
    service_store->set_free_space_probe([this](const fs::path&) { return free; });
  }
  const std::string archive = RawBundle::of().bytes();
  Bytes free = 2 * kGiB + archive.size();
};

TEST_F(ServiceBundleSpace, WhatOthersStillWriteIsNotFree) {
  for (const std::optional<Bytes> announced :
       {std::optional<Bytes>(archive.size()), std::optional<Bytes>()}) {
    {
      const models::DiskHold install(service_store->disk_holds(), 1);
      EXPECT_EQ(upload(archive, announced).error().status, 507) << announced.has_value();
      EXPECT_THAT(waiting(), IsEmpty());
    }
    EXPECT_TRUE(upload(archive, announced)) << announced.has_value();
    EXPECT_TRUE(wait(bundles().discard(std::string(kId))));
  }
}

TEST_F(ServiceBundleSpace, OthersSeeWhatAnUploadStillWrites) {
  Bytes seen = 0;
  service_store->set_free_space_probe([&](const fs::path&) {
    seen = models::DiskHold(service_store->disk_holds(), 0).others();
    return free;
  });
  ASSERT_TRUE(upload(archive, archive.size()));
  EXPECT_EQ(seen, archive.size());
  EXPECT_EQ(models::DiskHold(service_store->disk_holds(), 0).others(), 0U);
}

TEST_F(ServiceBundles, CanBeDiscarded) {
  start();
  ASSERT_TRUE(upload(RawBundle::of().bytes()));
  EXPECT_TRUE(wait(bundles().discard(std::string(kId))));
  EXPECT_EQ(wait(bundles().discard(std::string(kId))).error().status, 404);
  EXPECT_THAT(waiting(), IsEmpty());
}

TEST_F(ServiceBundles, WhatWasCutOffIsGoneAfterAStart) {
  home.write(".transactions/gezmodel-imports/" + std::string(kId) + "/archive.gezmodel", "half");
  start();
  settle();
  EXPECT_THAT(waiting(), IsEmpty());
}

}  // namespace
}  // namespace gezel::service
