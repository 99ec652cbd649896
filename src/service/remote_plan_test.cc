// Plans of models that are not installed: what is asked of whom, and what the answer is made of.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <boost/asio/thread_pool.hpp>

#include "engine/timers.h"
#include "models/remote_header.h"
#include "service/test_service.h"

namespace gezel::service {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A llama of 4 layers with 2 KV heads of 64: 4 * 2 * (64 + 64) elements of two bytes for a token.
constexpr std::uint64_t kKvBytesPerToken = 2048;

std::string model_file(std::uint32_t parts = 1, std::uint64_t data = 4096) {
  gguf::testing::TestFile file;
  file.text("general.architecture", "llama")
      .u32("llama.context_length", 8192)
      .u32("llama.block_count", 4)
      .u32("llama.embedding_length", 512)
      .u32("llama.attention.head_count", 8)
      .u32("llama.attention.head_count_kv", 2);
  if (parts > 1)
    file.entry("split.count", gguf::testing::kU16, gguf::testing::raw(static_cast<std::uint16_t>(parts)));
  return file.tensor("token_embd.weight", data).bytes();
}

// No network at all.
class Offline final : public downloads::HttpClient {
 public:
  Result<> get(const downloads::HttpGet& request, downloads::HttpSink&,
               const downloads::Cancellation&) override {
    return fail(ErrorKind::unavailable, "host_unreachable",
                fmt::format("the host {} cannot be found; this machine may be offline", request.url.host));
  }
};

// Says nothing until it is told to stop.
class Silent final : public downloads::HttpClient {
 public:
  Result<> get(const downloads::HttpGet&, downloads::HttpSink&,
               const downloads::Cancellation& cancellation) override {
    if (on_ask) on_ask();
    cancellation.wait(Millis(600'000));
    return fail(ErrorKind::cancelled, "cancelled", "the download was cancelled");
  }
  std::function<void()> on_ask;
};

class RemotePlan : public testing::ServiceTest {
 protected:
  RemotePlan() {
    admission = std::make_shared<engine::Admission>(
        engine::Admission::Parts{.loop = loop.get_executor(),
                                 .clock = clock,
                                 .timers = std::make_shared<engine::LoopTimers>(loop.get_executor()),
                                 .machine = [] {
                                   engine::Admission::Machine machine;
                                   machine.pools.budget_bytes = machine.pools.ram_share_bytes =
                                       machine.pools.fast_bytes = machine.pools.concurrency_bytes = 8 * kGiB;
                                   machine.total_ram = machine.free_ram = 16 * kGiB;
                                   return machine;
                                 }});
  }

  // An item of the user's catalog for a file that the hub has.
  void offer(const std::string& id, const std::string& content, std::string_view more = "") {
    client.files[id + ".gguf?download=true"] = content;
    write_item(id, content.size(),
               fmt::format(R"("filename":"{}.gguf","sha256":"{}")", id, sha256_hex(content)), more);
  }
  void write_item(const std::string& id, std::size_t size, std::string_view files, std::string_view more) {
    const std::string folder = fmt::format("catalog/chat-models/{}/{}", id.substr(0, 2), id);
    home.write(folder + "/manifest.json",
               fmt::format(R"({{"id":"{0}","name":"Model {0}","description":"A model.",)"
                           R"("maintainer":{{"name":"Org"}},"parameterSize":"1B","supportsTools":true{1}}})",
                           id, more));
    home.write(folder + "/versions/1.0.0/manifest.json",
               fmt::format(R"({{"version":"1.0.0","releasedAt":"2026-08-01T00:00:00Z","approxSizeBytes":{0},)"
                           R"("llamaCpp":{{"huggingfaceRepo":"org/model",{1},"approxSizeBytes":{0}}}}})",
                           size, files));
  }
  // A repository of the hub with one file.
  void serve_hub(const std::string& path, const std::string& content) {
    const std::string commit(40, 'c');
    client.files["main"] = R"({"sha":")" + commit + R"("})";
    client.files[commit + "?recursive=true"] =
        fmt::format(R"([{{"type":"file","path":"{}","size":{},"lfs":{{"oid":"{}"}}}}])", path, content.size(),
                    sha256_hex(content));
    client.files[path + "?download=true"] = content;
  }
  void use(downloads::HttpClient& other) {
    others.emplace(other, waiter, entropy);
    installs->transfers = std::shared_ptr<const downloads::Transfers>(std::shared_ptr<void>(), &*others);
  }

  auto plan(std::string model, engine::MemoryWish wish = {}, bool network = true) {
    return wait(service->memory_plan(
        {.model = std::move(model), .wish = wish, .allow_network_names = network, .cancelled = nullptr}));
  }
  json::object planned(const std::string& model, engine::MemoryWish wish = {}) {
    const auto got = plan(model, wish);
    EXPECT_TRUE(got) << got.error().message;
    return got ? got->as_object() : json::object();
  }
  static std::uint64_t number(const json::object& object, std::string_view name) {
    return object.at(name).to_number<std::uint64_t>();
  }
  static std::uint64_t part(const json::object& plan, std::string_view name) {
    return number(plan.at("bytes").as_object(), name);
  }
  std::string refusal(const std::string& model) {
    const auto got = plan(model);
    EXPECT_FALSE(got);
    return got ? "" : fmt::format("{} {}", got.error().status, got.error().code);
  }

  std::optional<downloads::Transfers> others;
};

TEST_F(RemotePlan, AModelOfTheCatalogIsPlannedByItsHeader) {
  const std::string content = model_file();
  offer("small-q4", content, R"(,"aliases":["small"])");
  start();
  const auto got = planned("small-q4", {.context = 4096, .slots = 2});
  EXPECT_EQ(got.at("model").as_string(), "llama-cpp:small-q4");
  EXPECT_EQ(got.at("decision").as_string(), "fits");
  EXPECT_EQ(got.at("source").as_string(), "header");
  EXPECT_TRUE(got.at("estimated").as_bool());
  EXPECT_EQ(number(got, "context"), 4096U);
  EXPECT_EQ(number(got, "slots"), 2U);
  EXPECT_EQ(got.at("kv_type").as_string(), "f16");
  EXPECT_EQ(part(got, "weights"), content.size());
  EXPECT_EQ(part(got, "kv"), 2 * 4096 * kKvBytesPerToken);
  EXPECT_EQ(part(got, "total"), part(got, "weights") + part(got, "repack") + part(got, "kv") +
                                    part(got, "compute") + part(got, "cache"));
  EXPECT_EQ(number(got, "largest_context"), 8192U);
  EXPECT_EQ(number(got, "download_bytes"), content.size());
  EXPECT_EQ(number(got, "header_bytes_read"), content.size()) << "of so small a file all of it";
  EXPECT_THAT(got.at("summary").as_string().c_str(), HasSubstr("about"));
  for (const char* name : {"llama-cpp:small-q4", "llama-cpp/small-q4", "small", "llama-cpp:small"})
    EXPECT_EQ(planned(name).at("model").as_string(), "llama-cpp:small-q4") << name;
  EXPECT_THAT(listed(), ElementsAre("llama-cpp:small-q4")) << "nothing was installed";
}

TEST_F(RemotePlan, AHeaderIsReadOnce) {
  offer("small-q4", model_file());
  start();
  EXPECT_GT(number(planned("small-q4"), "header_bytes_read"), 0U);
  const auto again = planned("small-q4", {.context = 512, .slots = {}});
  EXPECT_EQ(number(again, "header_bytes_read"), 0U);
  EXPECT_EQ(number(again, "context"), 512U);
  EXPECT_THAT(client.asked, ElementsAre("small-q4.gguf?download=true"));
}

TEST_F(RemotePlan, WhoAsksAtTheSameTimeSharesOneReading) {
  offer("small-q4", model_file());
  start();
  int answers = 0;
  for (int i = 0; i < 3; ++i) {
    asio::co_spawn(loop, service->memory_plan({.model = "small-q4", .wish = {}, .cancelled = nullptr}),
                   [&](const std::exception_ptr&, const auto& got) { answers += got.has_value() ? 1 : 0; });
  }
  settle();
  EXPECT_EQ(answers, 3);
  EXPECT_THAT(client.asked, ElementsAre("small-q4.gguf?download=true"));
}

TEST_F(RemotePlan, AListOfModelsAsksNobody) {
  offer("small-q4", model_file());
  start();
  EXPECT_THAT(listed(), ElementsAre("llama-cpp:small-q4"));
  EXPECT_THAT(client.asked, IsEmpty());
}

TEST_F(RemotePlan, EveryPartOfASplitModelCounts) {
  const std::string content = model_file(2);
  client.files["m-00001-of-00002.gguf?download=true"] = content;
  write_item("split-q4", content.size() + 5'000'000'000,
             fmt::format(R"("shards":[{{"name":"m-00001-of-00002.gguf","sha256":"{0}","sizeBytes":{1}}},)"
                         R"({{"name":"m-00002-of-00002.gguf","sha256":"{0}","sizeBytes":5000000000}}])",
                         sha256_hex(content), content.size()),
             "");
  start();
  const auto got = planned("split-q4");
  EXPECT_EQ(part(got, "weights"), content.size() + 5'000'000'000);
  EXPECT_EQ(number(got, "download_bytes"), content.size() + 5'000'000'000);
  EXPECT_THAT(client.asked, ElementsAre("m-00001-of-00002.gguf?download=true"));
}

TEST_F(RemotePlan, AFileOfTheHubIsPlannedWithoutAnInstall) {
  const std::string content = model_file();
  serve_hub("m-Q4_K_M.gguf", content);
  start();
  const auto got = planned("hf:org/repo:Q4_K_M");
  EXPECT_EQ(got.at("model").as_string(), "hf:org/repo:Q4_K_M");
  EXPECT_EQ(got.at("source").as_string(), "header");
  EXPECT_EQ(part(got, "weights"), content.size());
  EXPECT_THAT(listed(), IsEmpty());
  EXPECT_EQ(number(planned("hf:org/repo:Q4_K_M"), "header_bytes_read"), 0U);
}

TEST_F(RemotePlan, AFileOfTheHubThatIsInstalledIsPlannedAsInstalled) {
  serve_hub("m.gguf", model_file());
  start();
  const auto started =
      wait(service->installs().ensure({.model = "hf:org/repo", .allow_network_names = true}));
  ASSERT_TRUE(started);
  settle();
  capacity::MemoryPlan own;
  own.decision = capacity::Decision::fits;
  own.slots = 3;
  engine_of("llama-cpp:local-m")->plan = own;
  const auto got = planned("hf:org/repo");
  EXPECT_EQ(got.at("source").as_string(), "installed");
  EXPECT_EQ(got.at("model").as_string(), "llama-cpp:local-m");
  EXPECT_EQ(number(got, "slots"), 3U);
  EXPECT_FALSE(got.contains("download_bytes"));
}

TEST_F(RemotePlan, AnAddressIsPlannedAndASecondLookAsksTheHost) {
  client.files["m.gguf"] = model_file();
  start();
  const auto got = planned("https://models.example/x/m.gguf");
  EXPECT_EQ(got.at("model").as_string(), "https://models.example/x/m.gguf");
  EXPECT_EQ(number(got, "download_bytes"), client.files["m.gguf"].size());
  client.files["m.gguf"] = model_file(1, 8192);  // nothing pins what is there
  EXPECT_EQ(number(planned("https://models.example/x/m.gguf"), "download_bytes"),
            client.files["m.gguf"].size());
  EXPECT_EQ(refusal("http://models.example/m.gguf"), "400 bad_url");
  EXPECT_EQ(refusal("https://models.example/"), "400 bad_url");
  EXPECT_EQ(refusal("file:///etc/passwd"), "400 bad_url");
}

TEST_F(RemotePlan, TheNetworkIsNamedOnlyByWhoMay) {
  start();
  for (const char* name : {"hf:org/repo", "https://models.example/m.gguf"}) {
    const auto refused = plan(name, {}, false);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, "missing_scope:ui");
  }
  EXPECT_THAT(client.asked, IsEmpty());
}

TEST_F(RemotePlan, OfflineTheCatalogsFiguresStandForTheHeader) {
  const std::string content = model_file();
  offer("small-q4", content, R"(,"contextWindow":8192,"kvBytesPerTokenF16":1000,"kvFixedBytesF16":500)");
  Offline offline;
  start();
  use(offline);
  const auto got = planned("small-q4", {.context = 4096, .slots = 2});
  EXPECT_EQ(got.at("source").as_string(), "catalog");
  EXPECT_TRUE(got.at("estimated").as_bool());
  EXPECT_THAT(got.at("note").as_string().c_str(),
              AllOf(HasSubstr("huggingface.co cannot be found"), HasSubstr("check the connection")));
  EXPECT_EQ(part(got, "weights"), content.size());
  EXPECT_EQ(part(got, "kv"), 2 * (4096 * 1000 + 500));
  EXPECT_EQ(part(got, "total"), part(got, "weights") + part(got, "kv") + part(got, "compute"));
  EXPECT_EQ(number(got, "largest_context"), 8192U);
  EXPECT_EQ(number(got, "header_bytes_read"), 0U);
}

TEST_F(RemotePlan, OfflineWhatOnlyTheNetworkKnowsIsRefusedNamingTheHost) {
  Offline offline;
  start();
  use(offline);
  for (const char* name : {"hf:org/repo", "https://models.example/m.gguf"}) {
    const auto refused = plan(name);
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().status, 503);
    EXPECT_EQ(refused.error().code, "host_unreachable");
    EXPECT_EQ(refused.error().param, "model");
    EXPECT_THAT(refused.error().message, AllOf(HasSubstr("cannot be found"), HasSubstr("connection")));
  }
}

TEST_F(RemotePlan, ADamagedFileIsTheHostsFault) {
  offer("small-q4", "this is no model");
  start();
  EXPECT_EQ(refusal("small-q4"), "502 model_invalid");
  EXPECT_THAT(plan("small-q4").error().message, HasSubstr("huggingface.co"));
}

TEST_F(RemotePlan, WhatNobodyKnowsIsNotFound) {
  start();
  EXPECT_EQ(refusal("nothing"), "404 model_not_found");
  EXPECT_EQ(refusal("hf:org/none"), "404 file_not_on_host");
  EXPECT_EQ(refusal("hf:org"), "400 invalid_hub_id");
}

TEST_F(RemotePlan, AModelThatIsTooLargeIsDeniedWithFigures) {
  const std::string content = model_file();
  client.files["huge-q4.gguf?download=true"] = content;
  write_item("huge-q4", 100'000'000'000,
             fmt::format(R"("filename":"huge-q4.gguf","sha256":"{}")", std::string(64, 'a')), "");
  start();
  const auto got = planned("huge-q4");
  EXPECT_EQ(got.at("decision").as_string(), "no");
  EXPECT_THAT(got.at("denial").as_string().c_str(), HasSubstr("GiB"));
}

// The network on a thread of its own, as in a daemon.
class SlowPlan : public RemotePlan {
 protected:
  SlowPlan() {
    installs->headers = installs->questions = network.get_executor();
    offer("small-q4", model_file(), R"(,"contextWindow":8192,"kvBytesPerTokenF16":1000)");
  }
  ~SlowPlan() override {
    if (service) finish(service->stop());
    network.join();
  }
  template <class T>
  std::optional<T> finish(asio::awaitable<T> work) {
    std::optional<T> out;
    bool done = false;
    const auto run = [&](asio::awaitable<T> inner) -> asio::awaitable<void> {
      out = co_await std::move(inner);
    };
    asio::co_spawn(loop, run(std::move(work)), [&](const std::exception_ptr&) { done = true; });
    loop.restart();
    while (!done) loop.run_one();
    return out;
  }
  void finish(asio::awaitable<void> work) {
    bool done = false;
    asio::co_spawn(loop, std::move(work), [&](const std::exception_ptr&) { done = true; });
    loop.restart();
    while (!done) loop.run_one();
  }
  auto ask(const std::string& model, std::shared_ptr<downloads::Cancellation> cancelled = nullptr) {
    return finish(service->memory_plan({.model = model,
                                        .wish = {},
                                        .allow_network_names = true,
                                        .cancelled = std::move(cancelled)}))
        .value();
  }

  auto ensure(std::shared_ptr<downloads::Cancellation> cancelled = nullptr) {
    return finish(
               service->installs().ensure(
                   {.model = "hf:org/repo", .allow_network_names = true, .cancelled = std::move(cancelled)}))
        .value();
  }

  asio::thread_pool network{1};
  Silent silent;
};

TEST_F(SlowPlan, ASlowHostIsGivenUpAndTheCatalogAsked) {
  installs->header_time = Millis(1);
  start();
  use(silent);
  const auto got = ask("small-q4");
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->at("source").as_string(), "catalog");
  EXPECT_THAT(got->at("note").as_string().c_str(), HasSubstr("huggingface.co did not send"));
  const auto refused = ask("https://models.example/m.gguf");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, 504);
  EXPECT_EQ(refused.error().code, "timed_out");
  EXPECT_THAT(refused.error().message, HasSubstr("models.example"));
}

TEST_F(SlowPlan, WhoGoesAwayIsNotWaitedFor) {
  start();
  use(silent);
  const auto cancelled = std::make_shared<downloads::Cancellation>();
  silent.on_ask = [&] { cancelled->cancel(); };
  const auto got = ask("small-q4", cancelled);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().status, 499);
}

TEST_F(SlowPlan, OnlySoManyWaitForTheNetwork) {
  start();
  use(silent);
  int refused = 0;
  const auto ended = [&](const std::exception_ptr&, const api::ApiResult<json::value>& got) {
    if (!got && got.error().code == "too_many_plans") {
      EXPECT_EQ(got.error().status, 503);
      EXPECT_TRUE(got.error().retry_after_s);
      ++refused;
    }
  };
  for (int i = 0; i < 20; ++i) {
    asio::co_spawn(
        loop,
        service->memory_plan(
            {.model = "hf:org/repo", .wish = {}, .allow_network_names = true, .cancelled = nullptr}),
        ended);
  }
  settle();
  EXPECT_EQ(refused, 4);
}

TEST_F(SlowPlan, AnInstallGivesASlowHubUp) {
  installs->header_time = Millis(1);
  start();
  use(silent);
  const auto refused = ensure();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, 504);
  EXPECT_EQ(refused.error().code, "timed_out");
  EXPECT_THAT(refused.error().message, HasSubstr("huggingface.co"));
}

TEST_F(SlowPlan, WhoGoesAwayInstallsNothing) {
  start();
  use(silent);
  const auto cancelled = std::make_shared<downloads::Cancellation>();
  silent.on_ask = [&] { cancelled->cancel(); };
  const auto got = ensure(cancelled);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().status, 499);
  EXPECT_TRUE(service->installs().active().at("installs").as_array().empty());
}

TEST_F(SlowPlan, OnlySoManyInstallsWaitForTheirHosts) {
  start();
  use(silent);
  int refused = 0;
  const auto ended = [&](const std::exception_ptr&, const api::ApiResult<EnsuredModel>& got) {
    if (got || got.error().code != "too_many_installs") return;
    EXPECT_EQ(got.error().status, 503);
    EXPECT_TRUE(got.error().retry_after_s);
    ++refused;
  };
  for (int i = 0; i < 20; ++i) {
    asio::co_spawn(loop, service->installs().ensure({.model = "hf:org/repo", .allow_network_names = true}),
                   ended);
  }
  settle();
  EXPECT_EQ(refused, 4);
}

TEST_F(SlowPlan, AStopEndsTheQuestionsOfAnInstall) {
  start();
  use(silent);
  silent.on_ask = [&] { asio::co_spawn(loop, service->stop(), asio::detached); };
  const auto got = ensure();
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, "shutting_down");
}

TEST_F(SlowPlan, AStopEndsIt) {
  start();
  use(silent);
  silent.on_ask = [&] { asio::co_spawn(loop, service->stop(), asio::detached); };
  const auto got = ask("small-q4");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, "shutting_down");
}

}  // namespace
}  // namespace gezel::service
