// Hashing and copying that do not get on, and everything else that does.
#include <gmock/gmock.h>

#include "service/test_service.h"

namespace gezel::service {
namespace {

using models::testing::tiny_model;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class SlowWork : public testing::ServiceTest {
 protected:
  SlowWork() { slow_hangs = true; }
  ~SlowWork() override { let_slow_work_end(); }

  void import_later(const std::string& id, const std::string& mode = "copy") {
    const json::object request{
        {"path", files.write(id + ".gguf", tiny_model()).string()}, {"id", id}, {"mode", mode}};
    asio::co_spawn(loop, service->import_model(request),
                   [this, id](const std::exception_ptr&, const api::ApiResult<json::value>& result) {
                     ended[id] = result ? "done" : result.error().code;
                     if (!result) refused = result.error();
                   });
    settle();
  }

  std::map<std::string, std::string> ended;  // imports, and how
  std::optional<api::ApiError> refused;
};

TEST_F(SlowWork, HoldsUpNoAnswerAndNoQuestion) {
  install("here");
  start();
  import_later("copied");
  EXPECT_TRUE(chat("here"));
  EXPECT_THAT(listed(), ElementsAre("llama-cpp:here"));
  EXPECT_TRUE(wait(service->retrieve_model("here")));
  EXPECT_EQ(wait(service->installs().ensure({.model = "llama-cpp:here"}))->job_id, "");
  import_later("referenced", "reference");
  EXPECT_EQ(ended["referenced"], "done") << "nothing is copied for it";
  EXPECT_EQ(ended.count("copied"), 0u);
  let_slow_work_end();
  EXPECT_EQ(ended["copied"], "done");
  EXPECT_THAT(listed(), UnorderedElementsAre("llama-cpp:here", "llama-cpp:copied", "llama-cpp:referenced"));
}

TEST_F(SlowWork, OnlySoManyImportsWaitForIt) {
  start();
  for (const char* id : {"a", "b", "c", "d"}) import_later(id);
  EXPECT_TRUE(ended.empty());
  import_later("e");
  ASSERT_EQ(ended["e"], "too_many_copies");
  EXPECT_EQ(refused->status, 503);
  EXPECT_TRUE(refused->retry_after_s);
  EXPECT_THAT(refused->message, HasSubstr("4 imports"));
  let_slow_work_end();
  import_later("e");
  let_slow_work_end();
  EXPECT_EQ(ended["e"], "done");
}

TEST_F(SlowWork, ABundleThatIsMadeHoldsUpNothing) {
  install("here");
  start();
  bool made = false;
  asio::co_spawn(loop, service->bundles().export_model("llama-cpp", "here"),
                 [&](const std::exception_ptr&, const auto& result) { made = result.has_value(); });
  settle();
  EXPECT_FALSE(made);
  EXPECT_TRUE(chat("here"));
  let_slow_work_end();
  EXPECT_TRUE(made);
}

}  // namespace
}  // namespace gezel::service
