#include "engine/router.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

namespace gezel::engine {
namespace {

using Replica = Router::Replica;

constexpr MonotonicTime kNow{std::chrono::hours(1)};
constexpr Replica kReady{.ready = true}, kStopped{}, kDraining{.ready = true, .draining = true};
Replica working(int requests) {
  return {.ready = true, .requests = requests};
}

TEST(Router, AConversationStaysWithTheWorkerThatServedIt) {
  Router router;
  const std::array both{kReady, kReady};
  EXPECT_EQ(router.bind("a", both, kNow).replica, 0);
  EXPECT_EQ(router.bind("b", both, kNow).replica, 1);
  const std::array first_is_idle{kReady, working(9)};
  EXPECT_EQ(router.bind("b", first_is_idle, kNow).replica, 1);
}

TEST(Router, ANewConversationGoesWhereTheFewestAre) {
  Router router;
  const std::array three{kReady, kReady, kReady};
  for (int i = 0; i < 9; ++i) router.bind(fmt::format("s{}", i), three, kNow);
  for (int replica = 0; replica < 3; ++replica) EXPECT_EQ(router.sessions(replica, kNow), 3);
}

TEST(Router, ARequestOfNoConversationGoesWhereTheLeastIsToDo) {
  Router router;
  const std::array idle{kReady, kReady};
  router.bind("a", idle, kNow);
  EXPECT_EQ(router.bind("", std::array{working(1), working(2)}, kNow).replica, 0);
  EXPECT_EQ(router.bind("", std::array{working(2), working(1)}, kNow).replica, 1);
  EXPECT_EQ(router.sessions(0, kNow) + router.sessions(1, kNow), 1);
}

TEST(Router, ADrainingWorkerGetsNothingNew) {
  Router router;
  router.bind("a", std::array{kReady, working(3)}, kNow);
  EXPECT_EQ(router.bind("a", std::array{kDraining, working(3)}, kNow).replica, 1);
  EXPECT_EQ(router.bind("", std::array{kDraining, working(3)}, kNow).replica, 1);
  // From then on it is at home there.
  EXPECT_EQ(router.bind("a", std::array{kReady, working(3)}, kNow).replica, 1);
}

TEST(Router, WithoutALoadedWorkerAConversationsOwnIsLoadedElseTheFirst) {
  Router router;
  const std::array both{kReady, kReady};
  router.bind("a", both, kNow);
  router.bind("b", both, kNow);
  const std::array none{kStopped, kStopped};
  EXPECT_EQ(router.bind("b", none, kNow).replica, 1);
  EXPECT_EQ(router.bind("c", none, kNow).replica, 0);
  EXPECT_FALSE(router.bind("c", none, kNow).missed);
}

TEST(Router, AWorkerThatIsNotLoadedIsMissedWhereItWouldHaveBeenBetter) {
  Router router;
  const std::array one{kReady, kStopped};
  EXPECT_FALSE(router.bind("a", one, kNow).missed) << "nobody is there yet";
  const auto second = router.bind("b", one, kNow);
  EXPECT_EQ(second.replica, 0);
  EXPECT_EQ(second.missed, 1);
  EXPECT_FALSE(router.bind("", one, kNow).missed) << "the loaded one has nothing to do";
  EXPECT_EQ(router.bind("", std::array{working(1), kStopped}, kNow).missed, 1);
  EXPECT_FALSE(router.bind("", std::array{working(1), kDraining}, kNow).missed) << "it is loaded";
}

TEST(Router, AConversationIsOverAfterHalfAnHour) {
  Router router;
  router.bind("a", std::array{kReady, kReady}, kNow);
  EXPECT_EQ(router.sessions(0, kNow + Router::kSessionTime - Millis(1)), 1);
  EXPECT_EQ(router.sessions(0, kNow + Router::kSessionTime), 0);
}

TEST(Router, ConversationsAreBoundedAndTheOldestIsForgotten) {
  Router router;
  const std::array both{kReady, kReady};
  for (std::size_t i = 0; i <= Router::kMostSessions; ++i)
    router.bind(fmt::format("s{}", i), both, kNow + Millis(i));
  EXPECT_EQ(router.sessions(0, kNow) + router.sessions(1, kNow), static_cast<int>(Router::kMostSessions));
}

TEST(Router, PropertyNothingGoesToAWorkerThatTakesNoWorkWhileAnotherDoes) {
  std::mt19937 random(7);
  Router router;
  for (int step = 0; step < 5'000; ++step) {
    std::vector<Replica> replicas(1 + random() % 4);
    bool any = false;
    for (auto& replica : replicas) {
      replica = {random() % 2 == 0, random() % 4 == 0, static_cast<int>(random() % 5)};
      any = any || (replica.ready && !replica.draining);
    }
    const std::string session = random() % 3 == 0 ? "" : fmt::format("s{}", random() % 20);
    const auto route = router.bind(session, replicas, kNow + Millis(step));
    ASSERT_GE(route.replica, 0);
    ASSERT_LT(route.replica, static_cast<int>(replicas.size()));
    const auto& chosen = replicas[static_cast<std::size_t>(route.replica)];
    if (any) {
      EXPECT_TRUE(chosen.ready && !chosen.draining);
    }
    if (route.missed) {
      EXPECT_FALSE(replicas[static_cast<std::size_t>(*route.missed)].ready);
    }
  }
}

}  // namespace
}  // namespace gezel::engine
