// models/install_test_support.h
//
// What tests of installs share: a plan for files on a test server, an observer that remembers, and a client
// that answers from memory.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "downloads/test_server.h"
#include "downloads/transfer.h"
#include "models/installer.h"
#include "models/staging.h"
#include "models/test_home.h"

namespace gezel::models::testing {

using Files = std::map<std::string, std::string>;  // name on the host -> content

inline InstallPlan plan_for(const Files& files, const std::string& base, std::string id = "model-q4",
                            std::string version = "1.0.0") {
  InstallPlan out;
  out.id = out.catalog_id = std::move(id);
  out.name = "Model";
  out.source = "catalog";
  out.catalog_version = std::move(version);
  out.repository = "org/model";
  for (const auto& [name, content] : files) {
    PlannedFile file;
    file.name = name;
    file.urls = {base + "/" + name};
    file.sha256 = sha256_hex(content);
    file.size_bytes = content.size();
    if (name.starts_with("mtp-")) file.role = FileRole::draft;
    if (name.starts_with("mmproj")) file.role = FileRole::projector;
    out.files.push_back(std::move(file));
  }
  return out;
}

class RememberingObserver final : public InstallObserver {
 public:
  void progress(const InstallProgressReport& report) override { reports.push_back(report); }
  void retrying(const std::string& file, const downloads::Retry& retry) override {
    retries.push_back(file + ": " + retry.reason.code);
  }
  void verifying(const std::string& file) override { verified.push_back(file); }
  void extracting_metadata() override { metadata = true; }

  std::vector<InstallProgressReport> reports;
  std::vector<std::string> retries, verified;
  bool metadata = false;
};

// Serves files from memory, by the last segment of the address.
class MemoryClient final : public downloads::HttpClient {
 public:
  Result<> get(const downloads::HttpGet& request, downloads::HttpSink& sink,
               const downloads::Cancellation&) override {
    const std::string name = request.url.text.substr(request.url.text.rfind('/') + 1);
    asked.push_back(name);
    hosts.push_back(request.url.host);
    downloads::ResponseHead head;
    const auto found = down.contains(request.url.host) ? files.end() : files.find(name);
    head.status = found == files.end() ? 404 : request.offset > 0 ? 206 : 200;
    if (found == files.end()) {
      sink.on_head(head);
      return {};
    }
    head.content_length = found->second.size() - request.offset;
    if (!sink.on_head(head)) return {};
    const std::string_view rest = std::string_view(found->second).substr(request.offset);
    for (std::size_t at = 0; at < rest.size(); at += 1000) GEZEL_CHECK(sink.on_body(rest.substr(at, 1000)));
    return {};
  }

  Files files;
  std::vector<std::string> asked, hosts;
  std::set<std::string> down;  // hosts that have none of the files
};

class InstallTest : public ::testing::Test {
 protected:
  std::expected<Installed, InstallError> run(const InstallPlan& plan, InstallOptions options = {}) {
    observer = {};
    return install(store, transfers, clock, plan, options, observer, cancellation);
  }
  std::string code(const std::expected<Installed, InstallError>& result) {
    return result ? "" : result.error().error.code;
  }
  json::object manifest_of(const std::string& id = "model-q4") {
    return parse_json(read_file(store.root() / id / "manifest.json").value()).value().as_object();
  }
  std::vector<std::string> names_in(const fs::path& folder) {
    std::vector<std::string> out;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored))
      out.push_back(entry.path().filename().string());
    std::ranges::sort(out);
    return out;
  }

  TestFolder home;
  downloads::testing::SharedClock clock;
  downloads::testing::FakeWaiter waiter{clock};
  CountingEntropy entropy;
  ModelStore store{home.path(), clock, entropy};
  downloads::CurlClient client{{.user_agent = "gezel-inference/test"}, clock};
  downloads::Transfers transfers{client, waiter, entropy};
  downloads::Cancellation cancellation;
  RememberingObserver observer;
};

// A model in three pieces.
inline const std::string kShard1 = "m-00001-of-00003.gguf", kShard2 = "m-00002-of-00003.gguf",
                         kShard3 = "m-00003-of-00003.gguf";

// Installs from a real server on a loopback port, which serves `files` by name.
class Installer : public InstallTest {
 protected:
  downloads::testing::Reply answer(const downloads::testing::ServedRequest& request) {
    const auto found = files.find(request.target.substr(1));
    if (found != files.end()) return downloads::testing::serve(found->second, request);
    downloads::testing::Reply out;
    out.status = 404;
    return out;
  }
  std::vector<std::string> asked() {
    std::vector<std::string> out;
    for (const auto& request : server.requests()) out.push_back(request.target.substr(1));
    return out;
  }

  Files files{{"m.gguf", tiny_model("llama", 4096)}};
  downloads::testing::TestServer server{
      [this](const downloads::testing::ServedRequest& request) { return answer(request); }};
};

}  // namespace gezel::models::testing
