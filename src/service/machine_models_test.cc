// Models that the machine has for all its users, through the service.
#include <gmock/gmock.h>

#include "service/test_service.h"

namespace gezel::service {
namespace {

using models::testing::tiny_model;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class MachineService : public testing::ServiceTest {
 protected:
  void publish(const std::string& id) {
    const TestFolder private_home;
    models::ModelStore owner(private_home.path(), clock, entropy, "llama-cpp",
                             {.folder = machine.path(), .own = true});
    ASSERT_TRUE(
        owner.import({.path = files.write(id + ".gguf", tiny_model()).string(), .mode = "copy", .id = id}));
    options.installs.machine = {.folder = machine.path()};
  }
  TestFolder machine;
};

TEST_F(MachineService, ItsModelsAreListedWithTheirOriginAndAnswer) {
  publish("shared");
  start();
  settle();
  EXPECT_THAT(listed(), ElementsAre("llama-cpp:shared"));
  const auto entry = wait(service->retrieve_model("shared")).value();
  EXPECT_TRUE(entry.at("read_only").as_bool());
  EXPECT_TRUE(chat("shared"));
  EXPECT_EQ(engines["llama-cpp:shared"]->generated, 1);
  const auto row = wait(service->installs().installed()).at("models").at(0);
  EXPECT_TRUE(row.at("readOnly").as_bool());
  EXPECT_FALSE(row.at("updateAvailable").as_bool());
}

TEST_F(MachineService, ItsModelsAreReadyAndCannotBeDeletedOrUpdated) {
  publish("shared");
  start();
  settle();
  EXPECT_EQ(wait(service->installs().ensure({.model = "llama-cpp:shared"}))->job_id, "");
  const auto removed = wait(service->installs().remove("shared", false));
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().status, 409);
  EXPECT_EQ(removed.error().code, "read-only-model");
  const auto updated = wait(service->installs().install({.id = "shared"}));
  ASSERT_FALSE(updated);
  EXPECT_EQ(updated.error().status, 409);
  EXPECT_EQ(updated.error().code, "read-only-model");
  EXPECT_THAT(updated.error().message, HasSubstr("--copy"));
  EXPECT_EQ(wait(service->installs().install({.id = "shared", .own_copy = true})).error().code,
            "unknown_model");
}

TEST_F(MachineService, AsTheMachinesServiceItInstallsThere) {
  install("old");
  options.installs.machine = {.folder = machine.path(), .own = true};
  start();
  settle();
  EXPECT_THAT(listed(), ElementsAre("llama-cpp:old"));
  EXPECT_TRUE(fs::exists(machine.path() / "models/llama-cpp/old/manifest.json"));
}

TEST_F(MachineService, OneThatComesWhileItRunsIsNoticed) {
  options.installs.machine = {.folder = machine.path()};
  start();
  settle();
  publish("late");
  clock.advance(Millis(2'000));
  listed();  // asks for a new look
  settle();
  EXPECT_THAT(listed(), ElementsAre("llama-cpp:late"));
}

}  // namespace
}  // namespace gezel::service
