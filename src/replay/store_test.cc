#include "replay/store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "base/files.h"
#include "base/test_folder.h"

namespace gezel::replay {
namespace {

const Scope kMe{"default", "f00d"};

Answer answer(std::string text = "<tool_call>{ \"name\":\"f\" }</tool_call>") {
  Answer out;
  out.content = "So:";
  out.calls = {{"call_1", "get_weather", R"({"city":"Oslo","days":2})"}, {"call_2", "ping", "{}"}};
  out.engine_ids = {"functions.get_weather:0", ""};
  out.sampled = {std::move(text), 7, true};
  return out;
}

class ReplayStore : public testing::Test {
 protected:
  void open(Limits limits = {}) {
    store.reset();
    auto opened = Store::open(file, clock, limits);
    ASSERT_TRUE(opened) << opened.error().message;
    store = std::move(*opened);
  }
  std::optional<Kept> find(const Answer& a, const Scope& scope = kMe) {
    return store->find(scope, a.calls, a.content);
  }

  TestFolder folder;
  fs::path file = folder.path() / "private" / "calls.db";
  ManualClock clock;
  std::unique_ptr<Store> store;
};

TEST_F(ReplayStore, GivesBackTheBytesAndTheModelsOwnIds) {
  open();
  const std::string odd("a\0b\xff\xc3", 5);
  ASSERT_TRUE(store->keep(kMe, answer(odd + "rest of it")));
  const auto kept = find(answer());
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->sampled.text, odd + "rest of it");
  EXPECT_EQ(kept->sampled.reasoning_bytes, 7u);
  EXPECT_TRUE(kept->sampled.began_in_reasoning);
  EXPECT_EQ(kept->engine_ids, (std::vector<std::string>{"functions.get_weather:0", ""}));
}

TEST_F(ReplayStore, KeepsThemThroughARestart) {
  open();
  ASSERT_TRUE(store->keep(kMe, answer()));
  open();
  EXPECT_TRUE(find(answer()));
  EXPECT_EQ(store->counters().records, 1u);
}

TEST_F(ReplayStore, ArgumentsWrittenDifferentlyAreTheSame) {
  open();
  ASSERT_TRUE(store->keep(kMe, answer()));
  Answer sent = answer();
  sent.calls[0].arguments = "{ \"days\": 2.0, \"city\": \"Os\\u006co\" }";
  EXPECT_TRUE(find(sent));
}

TEST_F(ReplayStore, AnythingEditedMisses) {
  open();
  ASSERT_TRUE(store->keep(kMe, answer()));
  const auto misses = [&](const auto& edit) {
    Answer edited = answer();
    edit(edited);
    return !find(edited);
  };
  EXPECT_TRUE(misses([](Answer& a) { a.calls[0].arguments = R"({"city":"Oslo","days":3})"; }));
  EXPECT_TRUE(misses([](Answer& a) { a.calls[0].name = "get_whether"; }));
  EXPECT_TRUE(misses([](Answer& a) { a.calls[1].id = "call_3"; }));
  EXPECT_TRUE(misses([](Answer& a) { a.content = "So: "; }));
  EXPECT_TRUE(misses([](Answer& a) { a.calls.pop_back(); }));
  EXPECT_TRUE(misses([](Answer& a) { std::swap(a.calls[0], a.calls[1]); }));
  EXPECT_TRUE(misses([](Answer& a) { a.calls.push_back(a.calls[1]); }));
  EXPECT_TRUE(misses([](Answer& a) { a.calls[1].arguments = "not json"; }));
  EXPECT_EQ(store->counters().misses, 8u);
  EXPECT_EQ(store->counters().hits, 0u);
}

TEST_F(ReplayStore, NobodyElseGetsThem) {
  open();
  ASSERT_TRUE(store->keep(kMe, answer()));
  EXPECT_FALSE(find(answer(), {"someone", "f00d"}));
  EXPECT_FALSE(find(answer(), {"default", "beef"}));
  EXPECT_FALSE(find(answer(), {"defaultf0", "0d"}));
}

TEST_F(ReplayStore, RecordsOfAWeekAgoAreGone) {
  open();
  ASSERT_TRUE(store->keep(kMe, answer()));
  clock.advance(std::chrono::hours(7 * 24 + 1));
  EXPECT_FALSE(find(answer()));
  open();
  EXPECT_EQ(store->counters().records, 0u);
}

TEST_F(ReplayStore, TheOldestGoWhenThereIsNoRoom) {
  open({.bytes = 10'000});
  for (int i = 0; i < 20; ++i) {
    Answer a = answer(std::string(1000, 'x'));
    a.calls[0].id = "call_" + std::to_string(i);
    ASSERT_TRUE(store->keep(kMe, a));
    EXPECT_LE(store->counters().bytes, 10'000u);
  }
  Answer last = answer(), first = answer();
  last.calls[0].id = "call_19";
  first.calls[0].id = "call_0";
  first.calls[1].id = "call_0b";
  EXPECT_TRUE(find(last));
  EXPECT_FALSE(find(first));
}

TEST_F(ReplayStore, TheFileStaysBoundedToo) {
  open({.bytes = 200'000});
  for (int i = 0; i < 300; ++i) {
    Answer a = answer(std::string(5000, 'x'));
    a.calls[0].id = "a" + std::to_string(i);
    a.calls[1].id = "b" + std::to_string(i);
    ASSERT_TRUE(store->keep(kMe, a));
  }
  store.reset();
  EXPECT_LT(fs::file_size(file), 600'000u);
}

TEST_F(ReplayStore, OneRecordAboveTheLimitIsNotKept) {
  open({.bytes = 1000});
  ASSERT_TRUE(store->keep(kMe, answer(std::string(5000, 'x'))));
  EXPECT_FALSE(find(answer()));
}

TEST_F(ReplayStore, AllItsFilesArePrivate) {
  const auto before = ::umask(0);
  open();
  ASSERT_TRUE(store->keep(kMe, answer()));
  ::umask(before);
  for (const auto& entry : fs::directory_iterator(file.parent_path())) {
    EXPECT_EQ(entry.status().permissions() & fs::perms(0777), fs::perms(0600)) << entry.path();
  }
}

TEST_F(ReplayStore, ADamagedFileIsBegunAnew) {
  for (const std::string& content :
       {std::string(100'000, 'x'), std::string("SQLite format 3\0", 16), std::string(16, '\0')}) {
    folder.write("private/calls.db", content);
    open();
    ASSERT_TRUE(store->keep(kMe, answer()));
    EXPECT_TRUE(find(answer()));
    store.reset();
    fs::remove_all(file.parent_path());
  }
}

TEST_F(ReplayStore, DamageNeverBecomesAPrompt) {
  open();
  Answer big = answer(std::string(50'000, 'x'));
  ASSERT_TRUE(store->keep(kMe, big));
  store.reset();
  const auto size = fs::file_size(file);
  for (std::uintmax_t at = 100; at < size; at += 997) {
    {
      std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
      bytes.seekp(static_cast<std::streamoff>(at));
      bytes.put('\x5a');
    }
    auto opened = Store::open(file, clock);
    ASSERT_TRUE(opened) << opened.error().message;
    if (const auto kept = (*opened)->find(kMe, big.calls, big.content)) {
      EXPECT_EQ(kept->sampled.text, big.sampled.text);
    }
    (void)(*opened)->keep(kMe, answer("y"));
  }
}

TEST_F(ReplayStore, AFolderInItsPlaceIsAnErrorThatNamesIt) {
  fs::create_directories(file);
  const auto opened = Store::open(file, clock);
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find(file.string()), std::string::npos);
}

TEST_F(ReplayStore, ALinkInItsPlaceIsNotFollowed) {
  fs::create_directories(file.parent_path());
  const fs::path target = folder.write("precious", "text");
  fs::create_symlink(target, file);
  EXPECT_FALSE(Store::open(file, clock));
  EXPECT_EQ(fs::file_size(target), 4u);
}

}  // namespace
}  // namespace gezel::replay
