// The process ends after each step of installs of every kind: models in parts, with auxiliary files, and from
// any address with and without a digest. Whatever is then on the disk, the next start finds a sound store,
// and the next install ends well without fetching what was complete.

#include <gmock/gmock.h>

#include "models/crash_support.h"
#include "models/install_test_support.h"
#include "models/url_source.h"

namespace gezel::models {
namespace {

using ::testing::ElementsAreArray;
using testing::End;
using testing::Files;
using ::testing::IsEmpty;
using testing::plan_for;

constexpr std::string_view kHost = "https://models.example";

std::string part(std::uint16_t number, std::uint64_t fill) {
  using gguf::testing::kU16;
  using gguf::testing::raw;
  gguf::testing::TestFile file;
  file.text("general.architecture", "llama")
      .u32("llama.context_length", 4096)
      .text("tokenizer.chat_template", "{{ messages }}")
      .entry("split.no", kU16, raw(number))
      .entry("split.count", kU16, raw<std::uint16_t>(3))
      .tensor("blk." + std::to_string(number) + ".weight", fill);
  return file.bytes();
}

// A safetensors file: a header and, behind it, something.
std::string tensors(std::size_t fill) {
  std::string out{2, 0, 0, 0, 0, 0, 0, 0};
  return out + "{}" + std::string(fill, 'x');
}

struct Kind {
  std::string name = {}, backend = "llama-cpp";
  Files before = {}, after = {};  // what the host has at first, and when there is an update
  std::function<InstallPlan(const Files&)> plan = {};
};

Kind in_parts() {
  const auto files = [](std::uint64_t second) {
    return Files{{"m-00001-of-00003.gguf", part(0, 512)},
                 {"m-00002-of-00003.gguf", part(1, second)},
                 {"m-00003-of-00003.gguf", part(2, 2048)}};
  };
  return {.name = "parts", .before = files(1024), .after = files(4096), .plan = [](const Files& content) {
            return plan_for(content, std::string(kHost));
          }};
}

Kind with_auxiliary_files() {
  const auto plan = [](const Files& files) {
    InstallPlan out = plan_for(files, std::string(kHost));
    out.backend = catalog::Backend::sd_cpp;
    // Weights first, then the others in their order.
    std::ranges::stable_partition(out.files,
                                  [](const PlannedFile& file) { return file.name.starts_with("weights"); });
    for (auto& file : out.files) {
      if (file.name.starts_with("weights")) continue;
      file.role = FileRole::auxiliary;
      file.auxiliary_role = file.name.substr(0, file.name.find('.'));
    }
    return out;
  };
  const auto files = [](std::size_t vae) {
    return Files{{"weights.safetensors", tensors(3000)},
                 {"vae.safetensors", tensors(vae)},
                 {"clip_l.safetensors", tensors(200)}};
  };
  return {.name = "auxiliary", .backend = "sd-cpp", .before = files(100), .after = files(150), .plan = plan};
}

Kind of_an_address(bool pinned) {
  const auto plan = [pinned](const Files& files) {
    InstallPlan out = plan_url(std::string(kHost) + "/sub/m.gguf", "model-q4",
                               pinned ? sha256_hex(files.at("m.gguf")) : std::string())
                          .value();
    out.files.front().size_bytes = files.at("m.gguf").size();  // as look_at_url() would have found
    return out;
  };
  return {.name = pinned ? "address with digest" : "address",
          .before = {{"m.gguf", testing::tiny_model("llama", 4096)}},
          .after = {{"m.gguf", testing::tiny_model("llama", 2048)}},
          .plan = plan};
}

Kind of_an_address_in_parts() {
  Kind out = in_parts();
  out.name = "address in parts";
  out.plan = [](const Files&) {
    return plan_url(std::string(kHost) + "/m-00002-of-00003.gguf", "model-q4").value();
  };
  return out;
}

class CrashKinds : public ::testing::TestWithParam<Kind> {
 protected:
  End live(const Files& files, int steps) {
    return testing::run_until(steps, [&](const StepHook& at_step) { return lives(files, at_step, nullptr); });
  }
  // `asked`: what was fetched.
  bool lives(const Files& files, const StepHook& at_step, std::vector<std::string>* asked) {
    downloads::testing::SharedClock shared;
    downloads::testing::FakeWaiter waiter(shared);
    SystemEntropy random;
    ModelStore store(home.path(), shared, random, GetParam().backend);
    testing::MemoryClient client;
    client.files = files;
    const downloads::Transfers transfers(client, waiter, random);
    testing::RememberingObserver observer;
    InstallOptions options;
    options.at_step = at_step;
    const auto done = install(store, transfers, shared, GetParam().plan(files), options, observer, {});
    if (asked != nullptr) *asked = client.asked;
    EXPECT_TRUE(done) << done.error().error.message;
    return done.has_value();
  }
  void reset() {
    for (const auto& entry : fs::directory_iterator(home.path())) fs::remove_all(entry.path());
  }
  std::vector<std::string> names_in(const fs::path& folder) {
    std::vector<std::string> out;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored))
      out.push_back(entry.path().filename().string());
    std::ranges::sort(out);
    return out;
  }
  Files installed(ModelStore& store) {
    Files out;
    const auto model = store.find("model-q4");
    EXPECT_TRUE(model) << model.error().message;
    if (!model) return out;
    for (const auto& file : model->files) {
      out[file.filename().string()] = read_file(file).value();
      EXPECT_EQ(model->sha256.at(file.filename().string()), sha256_hex(out[file.filename().string()]));
    }
    return out;
  }
  ModelStore store() { return ModelStore(home.path(), clock, entropy, GetParam().backend); }

  // Ends after each step of an install of `files` on top of what `prepare` leaves.
  void end_everywhere(const Files& files, const std::function<void()>& prepare, const Files* old) {
    int steps = 0;
    for (;; ++steps) {
      ASSERT_LT(steps, 100);
      reset();
      prepare();
      const End end = live(files, steps);
      if (end.completed) break;
      {
        ModelStore next = store();
        next.recover();
        EXPECT_THAT(next.inventory().unrecognized, IsEmpty()) << end.step;
        if (next.find("model-q4")) {
          const Files there = installed(next);
          EXPECT_TRUE(there == files || (old != nullptr && there == *old)) << end.step;
        } else {
          EXPECT_EQ(old, nullptr) << "the old model is gone after " << end.step;
        }
      }
      std::vector<std::string> asked;
      ASSERT_TRUE(lives(files, {}, &asked)) << end.step;
      ModelStore next = store();
      EXPECT_EQ(installed(next), files) << end.step;
      EXPECT_THAT(names_in(next.root()), ElementsAreArray({".incoming", "model-q4"})) << end.step;
      EXPECT_THAT(names_in(next.root() / kIncoming), IsEmpty()) << end.step;
      std::vector<std::string> expected{"manifest.json"};
      for (const auto& [name, content] : files) expected.push_back(name);
      std::ranges::sort(expected);
      EXPECT_THAT(names_in(next.root() / "model-q4"), ElementsAreArray(expected)) << end.step;
      if (end.step == "manifest" || end.step == "read header")
        EXPECT_THAT(asked, IsEmpty()) << "everything was there and verified";
    }
    EXPECT_GE(steps, 8);
  }

  TestFolder home;
  ManualClock clock;
  testing::CountingEntropy entropy;
};

TEST_P(CrashKinds, AtEveryStepOfAFirstInstallTheStoreIsCleanOrResumable) {
  end_everywhere(GetParam().before, [] {}, nullptr);
}

TEST_P(CrashKinds, AtEveryStepOfAnUpdateTheOldOrTheNewModelIsThere) {
  end_everywhere(
      GetParam().after, [&] { ASSERT_TRUE(live(GetParam().before, -1).completed); }, &GetParam().before);
}

INSTANTIATE_TEST_SUITE_P(Every, CrashKinds,
                         ::testing::Values(in_parts(), with_auxiliary_files(), of_an_address(false),
                                           of_an_address(true), of_an_address_in_parts()),
                         [](const auto& info) {
                           std::string out = info.param.name;
                           std::ranges::replace(out, ' ', '_');
                           return out;
                         });

}  // namespace
}  // namespace gezel::models
