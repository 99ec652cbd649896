#include <gmock/gmock.h>

#include "http/test_support.h"

namespace gezel::http::test {
namespace {

using testing::HasSubstr;

class BundleHandlers : public RouterTest {
 protected:
  FakeBundles& bundles() { return inference.bundle; }
  static api::Request upload(std::string body, api::Headers headers = {}) {
    auto request = post("/api/model-bundles/imports/scan", std::move(body), "client");
    request.headers.emplace_back("content-type", "application/vnd.gezel.model+zip");
    request.headers.insert(request.headers.end(), headers.begin(), headers.end());
    return request;
  }
};

TEST_F(BundleHandlers, AnExportIsAStreamWithItsNameAndSize) {
  auto& reply = send(get("/api/model-bundles/llama-cpp/m/export", "client"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, "abcdef");
  EXPECT_EQ(bundles().exported, "llama-cpp m");
  EXPECT_EQ(api::find_header(reply.headers, "content-type"), "application/vnd.gezel.model+zip");
  EXPECT_EQ(api::find_header(reply.headers, "x-gezel-model-bytes"), "6");
  EXPECT_EQ(api::find_header(reply.headers, "content-disposition"), "attachment; filename=\"m.gezmodel\"");
}

TEST_F(BundleHandlers, AnExportThatFailsHasNoEnd) {
  bundles().pieces = {"abc", "broken"};
  auto& reply = send(get("/api/model-bundles/llama-cpp/m/export", "client"));
  EXPECT_EQ(reply.body, "abc");
  EXPECT_FALSE(reply.ended);
}

TEST_F(BundleHandlers, AnUploadIsPassedOnWithWhatIsSaidOfIt) {
  auto& reply = send(upload("archive", {{"x-gezel-import-id", "id-1"}, {"x-gezel-upload-bytes", "7"}}));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(bundles().uploaded, "archive");
  EXPECT_EQ(bundles().scanned->import_id, "id-1");
  EXPECT_EQ(bundles().scanned->upload_bytes, 7U);
  EXPECT_EQ(send(upload("archive", {{"prefer", "respond-async"}})).status, 202);
  EXPECT_THAT(send(upload("archive", {{"x-gezel-upload-bytes", "many"}})).body,
              HasSubstr("x-gezel-upload-bytes"));
}

TEST_F(BundleHandlers, AFileOfThisMachineIsNamedByItsPath) {
  const auto scan = [&](std::string body) -> RecordedResponse& {
    auto request = post("/api/model-bundles/imports/scan", std::move(body), "client");
    request.headers.emplace_back("content-type", "application/json");
    return send(std::move(request));
  };
  EXPECT_EQ(scan(R"({"path":"/models/a.gezmodel","importId":"id-2"})").status, 200);
  EXPECT_EQ(bundles().scanned->path, "/models/a.gezmodel");
  EXPECT_EQ(bundles().scanned->import_id, "id-2");
  EXPECT_THAT(scan(R"({"path":"a.gezmodel"})").body, HasSubstr("absolute path"));
  EXPECT_THAT(scan("[]").body, HasSubstr("invalid_body"));
  EXPECT_EQ(scan(R"({"path":")" + std::string(70'000, 'a') + "\"}").status, 413);
}

TEST_F(BundleHandlers, TheOtherStepsAreNamedByTheImport) {
  EXPECT_EQ(send(get("/api/model-bundles/imports/id-1/progress", "client")).body, R"({"importId":"id-1"})");
  EXPECT_EQ(send(get("/api/model-bundles/imports/id-1", "client")).status, 404);
  EXPECT_EQ(
      send(post("/api/model-bundles/imports/confirm", R"({"importId":"id-1","replace":true})", "client"))
          .body,
      R"({"importId":"id-1","replace":true})");
  EXPECT_EQ(send(post("/api/model-bundles/imports/confirm", R"({"replace":1})", "client")).status, 400);
  auto remove = get("/api/model-bundles/imports/id-1", "client");
  remove.method = "DELETE";
  EXPECT_EQ(send(std::move(remove)).body, R"({"discarded":"id-1"})");
}

TEST_F(BundleHandlers, OnlyManagementGetsThere) {
  EXPECT_EQ(send(get("/api/model-bundles/llama-cpp/m/export")).status, 403);
  EXPECT_EQ(send(post("/api/model-bundles/imports/scan", "archive")).status, 403);
  EXPECT_EQ(bundles().uploaded, "");
}

}  // namespace
}  // namespace gezel::http::test
