// The order of an engine's requests: testdata/engine/queue_widths.jsonl and queue_order.jsonl have the
// tables.
#include "engine/request_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/json.h"

namespace gezel::engine {
namespace {

using prompt::Lane;
using testing::ElementsAre;

MonotonicTime at(std::int64_t ms) {
  return MonotonicTime(Millis(ms));
}

Lane lane_named(std::string_view name) {
  return name == "interactive" ? Lane::interactive : name == "background" ? Lane::background : Lane::batch;
}

// One queue, its widths and the time; ids count from 1.
struct Bench {
  explicit Bench(QueueWidths widths, RequestQueue::Settings settings = {}) : queue(at(0), settings) {
    queue.set_widths(widths);
  }
  std::uint64_t come(Lane lane, std::int64_t now_ms, std::string session = {}, std::string caller = {}) {
    EXPECT_TRUE(
        queue.push({++last, lane, false, at(now_ms), std::move(session), std::move(caller)}, at(now_ms)));
    return last;
  }
  std::uint64_t come_ambient(std::int64_t now_ms) {
    EXPECT_TRUE(queue.push({++last, Lane::background, true, at(now_ms), {}, {}}, at(now_ms)));
    return last;
  }
  std::optional<std::uint64_t> next(std::int64_t now_ms) { return queue.pop(at(now_ms)); }
  void end(std::uint64_t id, std::int64_t now_ms) { queue.finish(id, at(now_ms)); }

  RequestQueue queue;
  std::uint64_t last = 0;
};

std::vector<json::object> table(const std::string& name) {
  std::ifstream file(std::string(GEZEL_TESTDATA "/engine/") + name);
  std::vector<json::object> out;
  for (std::string line; std::getline(file, line);) {
    auto row = parse_json(line);
    EXPECT_TRUE(row) << line;
    if (row) out.push_back(row->get_object());
  }
  EXPECT_FALSE(out.empty()) << name;
  return out;
}

TEST(QueueWidths, Case28_AreThoseOfTheTable) {
  for (const auto& row : table("queue_widths.jsonl")) {
    const auto kind = parse_queue_kind(string_or(row, "kind"));
    ASSERT_TRUE(kind) << to_json(row);
    const auto widths = queue_widths(*kind, static_cast<int>(int_or(row, "slots", 0)));
    EXPECT_EQ(widths.interactive, int_or(row, "interactive", -1)) << to_json(row);
    EXPECT_EQ(widths.concurrency, int_or(row, "concurrency", -1)) << to_json(row);
    EXPECT_EQ(widths.background, int_or(row, "background", -1)) << to_json(row);
    EXPECT_EQ(widths.physical, int_or(row, "physical", -1)) << to_json(row);
  }
  EXPECT_FALSE(parse_queue_kind("other"));
}

// What waits since when, what was served, and the ids in the order in which they go.
TEST(RequestQueue, LetsGoInTheOrderOfTheTable) {
  for (const auto& row : table("queue_order.jsonl")) {
    RequestQueue::Settings settings;
    settings.affinity = bool_or(row, "affinity", true);
    Bench bench({64, 64, 64, 64}, settings);
    if (const auto* served = object_at(row, "served")) {
      const auto id =
          bench.come(Lane::interactive, 0, string_or(*served, "session"), string_or(*served, "caller"));
      ASSERT_EQ(bench.next(0), id);
      if (served->contains("ended")) bench.end(id, int_or(*served, "ended", 0));
    }
    const auto first = bench.last;
    for (const auto& value : *array_at(row, "waits")) {
      const auto& entry = value.as_object();
      bench.come(lane_named(string_or(entry, "lane", "interactive")), int_or(entry, "since", 0),
                 string_or(entry, "session"), string_or(entry, "caller"));
    }
    std::vector<std::uint64_t> expected;
    for (const auto& number : *array_at(row, "goes"))
      expected.push_back(first + static_cast<std::uint64_t>(number.as_int64()));
    const auto now = int_or(row, "now", 0);
    EXPECT_EQ(bench.queue.order(at(now)), expected) << to_json(row);
    std::vector<std::uint64_t> went;
    while (const auto id = bench.next(now)) went.push_back(*id);
    // Each that goes makes its own conversation warm, so only the first is sure to be the same.
    ASSERT_EQ(went.size(), expected.size());
    EXPECT_EQ(went.front(), expected.front()) << to_json(row);
  }
}

TEST(RequestQueue, Case31_AStarvingBackgroundEntryIsNextIfItsCapAllows) {
  Bench bench({2, 2, 1, 2});
  const auto running = bench.come(Lane::background, 0);
  ASSERT_EQ(bench.next(0), running);
  const auto starving = bench.come(Lane::background, 0);
  const auto young = bench.come(Lane::interactive, 61'000);
  EXPECT_EQ(bench.next(61'000), young) << "one background entry runs already, and that is the cap";
  bench.end(running, 61'000);
  bench.come(Lane::interactive, 61'000);
  EXPECT_EQ(bench.next(61'000), starving);
}

TEST(RequestQueue, Case29_WithOneSlotARequestMadeByARunningTurnIsNotBehindIt) {
  Bench bench(queue_widths(QueueKind::supervised, 1));
  const auto turn = bench.come(Lane::interactive, 0);
  ASSERT_EQ(bench.next(0), turn);
  const auto other_turn = bench.come(Lane::interactive, 1);
  const auto one_shot = bench.come(Lane::background, 2);
  EXPECT_EQ(bench.next(2), one_shot);
  EXPECT_EQ(bench.next(2), std::nullopt);
  bench.end(one_shot, 3);
  EXPECT_EQ(bench.next(3), std::nullopt) << "the extra place is none for a second turn";
  bench.end(turn, 4);
  EXPECT_EQ(bench.next(4), other_turn);
}

TEST(RequestQueue, Case30_AmbientWorkWaitsForQuietAndIsLookedAtAgainThen) {
  Bench bench({1, 1, 1, 1});
  const auto other = bench.come(Lane::interactive, 90'000);
  ASSERT_EQ(bench.next(90'000), other);
  bench.end(other, 100'000);
  const auto ambient = bench.come_ambient(200'000);
  EXPECT_EQ(bench.next(200'000), std::nullopt);
  EXPECT_EQ(bench.queue.recheck(at(200'000)), at(280'025));
  EXPECT_EQ(bench.next(279'999), std::nullopt)
      << "older than a minute, but what is held back does not starve";
  EXPECT_EQ(bench.next(280'025), ambient);
}

TEST(RequestQueue, AmbientWorkGoesAtOnceWhereAPlaceIsLeftOver) {
  Bench bench({4, 4, 4, 4});
  bench.come(Lane::interactive, 0);
  bench.come(Lane::interactive, 0);
  bench.next(0);
  bench.next(0);
  const auto one = bench.come_ambient(1);
  bench.come_ambient(1);
  EXPECT_EQ(bench.next(1), one);
  EXPECT_EQ(bench.next(1), std::nullopt) << "three of four places are taken: the last is for other work";
  EXPECT_EQ(bench.queue.recheck(at(1)), std::nullopt)
      << "while that runs, its end is the next thing to happen";
}

TEST(RequestQueue, WithoutQuietTimeAmbientWorkIsBackgroundWork) {
  Bench bench({1, 1, 1, 1}, {.ambient_quiet = Millis(0)});
  const auto ambient = bench.come_ambient(1);
  EXPECT_EQ(bench.next(1), ambient);
}

TEST(RequestQueue, TheDaemonsStartCountsAsOtherWork) {
  Bench bench({1, 1, 1, 1});
  const auto ambient = bench.come_ambient(10);
  EXPECT_EQ(bench.next(179'999), std::nullopt);
  EXPECT_EQ(bench.next(180'000), ambient);
}

TEST(RequestQueue, IsBounded) {
  Bench bench({});
  for (std::size_t i = 0; i < RequestQueue::kMaxWaiting; ++i) bench.come(Lane::interactive, 0);
  EXPECT_FALSE(bench.queue.push({1'000, Lane::interactive, false, at(0), {}, {}}, at(0)));
  EXPECT_TRUE(bench.queue.remove(5));
  EXPECT_FALSE(bench.queue.remove(5));
  EXPECT_TRUE(bench.queue.push({1'000, Lane::interactive, false, at(0), {}, {}}, at(0)));
}

TEST(RequestQueue, OneThatIsTriedAgainKeepsItsAge) {
  Bench bench({1, 1, 1, 1});
  const auto first = bench.come(Lane::interactive, 0);
  ASSERT_EQ(bench.next(0), first);
  bench.come(Lane::interactive, 5);
  bench.end(first, 10);
  ASSERT_TRUE(bench.queue.push({first, Lane::interactive, false, at(0), {}, {}}, at(10)));
  EXPECT_EQ(bench.next(10), first);
}

TEST(RequestQueue, EntriesMoveWithinTheirLaneOnly) {
  Bench bench({});
  const auto a = bench.come(Lane::interactive, 0), x = bench.come(Lane::background, 1),
             b = bench.come(Lane::interactive, 2), y = bench.come(Lane::background, 3),
             c = bench.come(Lane::interactive, 4);
  EXPECT_TRUE(bench.queue.move(c, 1));
  EXPECT_THAT(bench.queue.order(at(5)), ElementsAre(a, c, b, x, y));
  EXPECT_TRUE(bench.queue.move(c, 100));
  EXPECT_TRUE(bench.queue.move(x, -1));
  EXPECT_THAT(bench.queue.order(at(5)), ElementsAre(c, a, b, y, x));
  EXPECT_FALSE(bench.queue.move(99, 1));
}

TEST(RequestQueue, SaysWithoutQueueingWhetherThereIsRoom) {
  Bench bench({4, 4, 3, 4});
  EXPECT_TRUE(bench.queue.has_capacity(Lane::interactive, 4));
  EXPECT_FALSE(bench.queue.has_capacity(Lane::interactive, 5));
  EXPECT_TRUE(bench.queue.has_capacity(Lane::background, 3));
  EXPECT_FALSE(bench.queue.has_capacity(Lane::background, 4));
  for (int i = 0; i < 3; ++i) bench.come(Lane::interactive, 0);
  EXPECT_TRUE(bench.queue.has_capacity(Lane::interactive));
  EXPECT_FALSE(bench.queue.has_capacity(Lane::interactive, 2));
  bench.next(0);
  EXPECT_TRUE(bench.queue.has_capacity(Lane::interactive)) << "one runs now, two wait";
  EXPECT_EQ(bench.queue.size(), 2U);
}

TEST(RequestQueue, AffinityIsRememberedForHalfAMinuteAndForSixtyFour) {
  Bench bench({64, 64, 64, 64});
  const auto old = bench.come(Lane::interactive, 0, "s");
  ASSERT_EQ(bench.next(0), old);
  bench.end(old, 0);
  const auto cold = bench.come(Lane::interactive, 1), warm = bench.come(Lane::interactive, 2, "s");
  EXPECT_THAT(bench.queue.order(at(30'000)), ElementsAre(warm, cold));
  EXPECT_THAT(bench.queue.order(at(30'001)), ElementsAre(cold, warm));
  for (std::size_t i = 0; i < RequestQueue::kMostRemembered; ++i) {
    const auto id = bench.come(Lane::interactive, 3, "other");
    bench.queue.remove(id);
    ASSERT_TRUE(bench.queue.push({id, Lane::interactive, false, at(-60'000), "other", {}}, at(3)));
    ASSERT_EQ(bench.next(3), id);
    bench.end(id, 3);
  }
  EXPECT_THAT(bench.queue.order(at(4)), ElementsAre(cold, warm));
}

// Whatever happens: nobody is lost, caps hold, and all that can go goes.
TEST(RequestQueue, KeepsItsPromisesUnderAnySequenceOfEvents) {
  std::uint32_t state = 7;
  const auto random = [&](std::uint32_t below) {
    state = state * 1'664'525 + 1'013'904'223;
    return (state >> 8) % below;
  };
  const QueueWidths widths{5, 4, 3, 4};
  Bench bench(widths, {.ambient_quiet = Millis(500)});
  std::map<std::uint64_t, Lane> running;
  std::size_t came = 0, went = 0, cancelled = 0;
  std::int64_t now = 0;
  for (int i = 0; i < 5'000; ++i) {
    now += random(300);
    if (const auto what = random(8); what < 3 && bench.queue.size() < RequestQueue::kMaxWaiting) {
      bench.come(static_cast<Lane>(random(3)), now, "s" + std::to_string(random(4)),
                 "c" + std::to_string(random(2)));
      ++came;
    } else if (what == 3 && bench.queue.size() < RequestQueue::kMaxWaiting) {
      bench.come_ambient(now);
      ++came;
    } else if (what == 4) {
      cancelled += bench.queue.remove(1 + random(static_cast<std::uint32_t>(bench.last + 1)));
    } else if (!running.empty()) {
      bench.end(running.begin()->first, now);
      running.erase(running.begin());
    }
    while (const auto id = bench.next(now)) {
      ASSERT_TRUE(running.emplace(*id, Lane::interactive).second);
      ++went;
    }
    ASSERT_EQ(bench.queue.running(), running.size());
    ASSERT_LE(running.size(), 5U);
    ASSERT_EQ(came, went + cancelled + bench.queue.size());
    ASSERT_EQ(bench.queue.order(at(now)).size(), bench.queue.size());
  }
}

TEST(RequestQueue, TheGateIsFourTimesTheSlotsAndNeverAbove64) {
  EXPECT_EQ(gate_width(1), 4);
  EXPECT_EQ(gate_width(8), 32);
  EXPECT_EQ(gate_width(16), 64);
  EXPECT_EQ(gate_width(64), 64);
}

}  // namespace
}  // namespace gezel::engine
