#include "gguf/inspector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <stdexcept>

#include "base/test_folder.h"
#include "gguf/test_file.h"

namespace gezel::gguf {
namespace {

using namespace testing;  // TestFile of this module
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A reader that works when it is told to.
class Reader {
 public:
  Inspector::Runner runner() {
    return [this](std::function<void()> work, std::function<void()> then) {
      waiting_.push_back([work = std::move(work), then = std::move(then)] {
        work();
        then();
      });
    };
  }
  std::size_t waiting() const { return waiting_.size(); }
  void work_all() {
    while (!waiting_.empty()) {
      const auto job = std::move(waiting_.front());
      waiting_.erase(waiting_.begin());
      job();
    }
  }

 private:
  std::vector<std::function<void()>> waiting_;
};

std::string model(const char* name) {
  TestFile file;
  file.text("general.architecture", "llama").text("general.name", name);
  return file.bytes();
}

TEST(Inspector, Case29_AFileIsParsedAgainOnlyWhenItChanged) {
  const TestFolder folder;
  const auto path = folder.write("m.gguf", model("one"));
  Reader reader;
  Inspector inspector(reader.runner());
  std::vector<std::shared_ptr<const Metadata>> found;
  const auto ask = [&] {
    inspector.inspect(path, Inspector::Depth::metadata, [&](const auto& reply) { found.push_back(*reply); });
    reader.work_all();
  };
  ask();
  ask();
  EXPECT_EQ(inspector.parses(), 1u);
  EXPECT_EQ(found[0], found[1]);
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::seconds(5));
  ask();
  EXPECT_EQ(inspector.parses(), 2u);
  EXPECT_EQ(found[2]->name, "one");
}

// The loop of a host that has nothing else to do runs until the reply is there, and not a moment
// for an idle inspector.
TEST(Inspector, Case30_APendingInspectionKeepsTheLoopAndAnIdleOneDoesNot) {
  const TestFolder folder;
  const auto path = folder.write("m.gguf", model("one"));
  boost::asio::thread_pool pool(1);
  boost::asio::io_context loop;
  Inspector inspector([&](std::function<void()> work, std::function<void()> then) {
    boost::asio::post(pool, [&loop, guard = boost::asio::make_work_guard(loop), work = std::move(work),
                             then = std::move(then)] {
      work();
      boost::asio::post(loop, then);
    });
  });
  bool replied = false;
  inspector.inspect(path, Inspector::Depth::whole_model,
                    [&](const auto& reply) { replied = reply.has_value(); });
  EXPECT_FALSE(replied);
  loop.run();
  EXPECT_TRUE(replied);
  loop.restart();
  EXPECT_EQ(loop.run(), 0u);
  pool.join();
}

TEST(Inspector, RequestsForTheSameFileShareOneReading) {
  const TestFolder folder;
  const auto path = folder.write("m.gguf", model("one"));
  Reader reader;
  Inspector inspector(reader.runner());
  int replies = 0;
  const auto count = [&](const auto&) { ++replies; };
  inspector.inspect(path, Inspector::Depth::metadata, count);
  const auto abandoned = inspector.inspect(path, Inspector::Depth::metadata, count);
  inspector.inspect(path, Inspector::Depth::metadata, count);
  inspector.inspect(path, Inspector::Depth::whole_model, count);
  inspector.abandon(abandoned);
  EXPECT_EQ(reader.waiting(), 1u);  // one at a time
  reader.work_all();
  EXPECT_EQ(replies, 3);
  EXPECT_EQ(inspector.parses(), 2u);
}

TEST(Inspector, AnAbandonedReadingIsStillRemembered) {
  const TestFolder folder;
  const auto path = folder.write("m.gguf", model("one"));
  Reader reader;
  Inspector inspector(reader.runner());
  inspector.abandon(inspector.inspect(path, Inspector::Depth::metadata, [](const auto&) { FAIL(); }));
  reader.work_all();
  inspector.inspect(path, Inspector::Depth::metadata, [](const auto& reply) { EXPECT_TRUE(reply); });
  reader.work_all();
  EXPECT_EQ(inspector.parses(), 1u);
}

TEST(Inspector, FailuresAreNotRemembered) {
  const TestFolder folder;
  const auto path = folder.write("m.gguf", "no model");
  Reader reader;
  Inspector inspector(reader.runner());
  std::vector<bool> found;
  for (int i = 0; i < 2; ++i) {
    inspector.inspect(path, Inspector::Depth::metadata, [&](const auto& reply) { found.push_back(!!reply); });
    reader.work_all();
  }
  EXPECT_THAT(found, ElementsAre(false, false));
  EXPECT_EQ(inspector.parses(), 2u);
}

TEST(Inspector, ADyingReaderFailsWhoWaitsAndServesTheNext) {
  const TestFolder folder;
  const auto path = folder.write("m.gguf", model("one"));
  Reader reader;
  bool dies = true;
  Inspector inspector(reader.runner(), [&](const auto& file, auto depth) -> Result<Metadata> {
    if (dies) throw std::runtime_error("out of luck");
    return Inspector::read_file_header(file, depth);
  });
  std::string message;
  inspector.inspect(path, Inspector::Depth::metadata,
                    [&](const auto& reply) { message = reply.error().message; });
  reader.work_all();
  EXPECT_THAT(message, HasSubstr("m.gguf could not be inspected: out of luck"));
  dies = false;
  bool found = false;
  inspector.inspect(path, Inspector::Depth::metadata, [&](const auto& reply) { found = reply.has_value(); });
  reader.work_all();
  EXPECT_TRUE(found);
}

TEST(Inspector, TheLastThirtyTwoFilesAreRemembered) {
  const TestFolder folder;
  std::vector<std::filesystem::path> paths;
  for (int i = 0; i < 33; ++i) paths.push_back(folder.write(std::to_string(i) + ".gguf", model("x")));
  Reader reader;
  Inspector inspector(reader.runner());
  const auto ask = [&](const std::filesystem::path& path) {
    inspector.inspect(path, Inspector::Depth::metadata, [](const auto&) {});
    reader.work_all();
  };
  for (const auto& path : paths) ask(path);
  EXPECT_EQ(inspector.parses(), 33u);
  ask(paths[1]);
  EXPECT_EQ(inspector.parses(), 33u);
  ask(paths[0]);  // the longest unused was forgotten
  EXPECT_EQ(inspector.parses(), 34u);
}

TEST(Inspector, AShardThatChangedIsNoticed) {
  const TestFolder folder;
  const auto shard = [](std::uint16_t number) {
    TestFile file;
    if (number == 0) file.text("general.architecture", "llama");
    file.entry("split.no", kU16, raw(number)).entry("split.count", kU16, raw<std::uint16_t>(2));
    return file.bytes();
  };
  const auto first = folder.write("m-00001-of-00002.gguf", shard(0));
  const auto second = folder.write("m-00002-of-00002.gguf", shard(1));
  Reader reader;
  Inspector inspector(reader.runner());
  const auto ask = [&] {
    inspector.inspect(first, Inspector::Depth::whole_model, [](const auto& reply) { EXPECT_TRUE(reply); });
    reader.work_all();
  };
  ask();
  std::filesystem::last_write_time(second,
                                   std::filesystem::last_write_time(second) + std::chrono::seconds(5));
  ask();
  EXPECT_EQ(inspector.parses(), 2u);
}

TEST(Inspector, AReplyAfterItsEndIsNotCalled) {
  const TestFolder folder;
  const auto path = folder.write("m.gguf", model("one"));
  Reader reader;
  {
    Inspector inspector(reader.runner());
    inspector.inspect(path, Inspector::Depth::metadata, [](const auto&) { FAIL(); });
  }
  reader.work_all();
}

}  // namespace
}  // namespace gezel::gguf
