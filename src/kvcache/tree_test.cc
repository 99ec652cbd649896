#include "kvcache/tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvcache/test_tree.h"

namespace gezel::kvcache {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;

constexpr MonotonicTime kNow{std::chrono::hours(1)};
MonotonicTime at(int second) {
  return MonotonicTime(seconds(second));
}

Tree roomy(Mode mode = Mode::full) {
  return Tree({.mode = mode, .host_budget = kGiB, .disk_budget = kGiB});
}

DiskRef record(const Tree& tree, NodeId id, Bytes bytes = 100) {
  const Node* node = tree.find(id);
  return std::make_shared<DiskRecord>(
      DiskRecord{.id = tree.hash_of(id), .start = node->start, .end = node->end, .bytes = bytes});
}

TEST(Tree, SplitsWhereTwoPromptsPart) {
  Tree tree = roomy();
  const auto system = counted(1000);
  const auto a = joined(system, counted(50, 5000));
  const auto b = joined(joined(system, counted(3, 5000)), counted(37, 9000));
  tree.commit(kTestDomain, a, 1000, Class::system, 0, kNow);
  tree.commit(kTestDomain, a, 1050, Class::user, 0, kNow);
  EXPECT_EQ(tree.match(kTestDomain, b).matched, 1003U);
  tree.commit(kTestDomain, b, 1000, Class::system, 1, kNow);
  const NodeId tip = tree.commit(kTestDomain, b, 1040, Class::user, 1, kNow);
  const auto path = tree.path(tip);
  ASSERT_EQ(path.size(), 3U);
  EXPECT_EQ(tree.find(path[0])->end, 1000U);
  EXPECT_EQ(tree.find(path[1])->end, 1003U);
  EXPECT_EQ(tree.find(path[1])->kids.size(), 2U);
  EXPECT_EQ(tree.check(), "");
}

TEST(Tree, KeepsDomainsApart) {
  Tree tree = roomy();
  const auto keys = counted(10);
  tree.commit(domain_of("a", "", "", ""), keys, 10, Class::tail, 0, kNow);
  EXPECT_EQ(tree.match(domain_of("", "", "", ""), keys).matched, 0U);
  EXPECT_EQ(tree.match(domain_of("", "a", "", ""), keys).matched, 0U);
  EXPECT_EQ(tree.match(domain_of("a", "", "", ""), keys).matched, 10U);
}

TEST(Tree, NeverEndsInsideAMediaSpan) {
  Tree tree = roomy();
  const Key image = media_key(sha256({}), "v1");
  const std::vector<Key> a = {1, 2, image, image, image, 3, 4};
  EXPECT_NE(tree.commit(kTestDomain, a, 4, Class::user, 0, kNow), kNoNode);
  EXPECT_EQ(tree.match(kTestDomain, a).matched, 2U) << "4 lies inside the span";
  tree.commit(kTestDomain, a, 7, Class::user, 0, kNow);
  const std::vector<Key> fewer = {1, 2, image, image, 3};
  EXPECT_EQ(tree.match(kTestDomain, fewer).matched, 2U);
  EXPECT_EQ(tree.commit(kTestDomain, fewer, 5, Class::user, 1, kNow), kNoNode);
  EXPECT_EQ(tree.check(), "");
}

TEST(Tree, ForgetsWhatOnlyASlotHeld) {
  Tree tree = roomy();
  const auto keys = counted(100);
  tree.commit(kTestDomain, keys, 60, Class::system, 0, kNow);
  const NodeId tip = tree.commit(kTestDomain, keys, 100, Class::user, 0, kNow);
  tree.commit(kTestDomain, keys, 60, Class::system, 1, kNow);
  tree.set_slot(0, kNoNode);
  EXPECT_EQ(tree.find(tip), nullptr);
  EXPECT_EQ(tree.match(kTestDomain, keys).matched, 60U);
  tree.set_slot(1, kNoNode);
  EXPECT_EQ(tree.size(), 0U);
}

TEST(Tree, KeepsOnTheHostWhatAnImageBrings) {
  Tree tree = roomy();
  const auto keys = counted(1400);
  tree.commit(kTestDomain, keys, 600, Class::system, 0, kNow);
  const NodeId tip = tree.commit(kTestDomain, keys, 1300, Class::user, 0, kNow);
  EXPECT_EQ(absorb_all(tree, tip, keys), 1300 * kTestTokenBytes);
  EXPECT_EQ(absorb_all(tree, tip, keys), 0U) << "it has them";
  tree.set_slot(0, kNoNode);
  EXPECT_EQ(tree.match(kTestDomain, keys).matched, 1300U);
  EXPECT_EQ(tree.find(tip)->rows.size(), 2U) << "parts of 512";
  EXPECT_EQ(tree.used(Tier::host), 1300 * kTestTokenBytes);
  EXPECT_EQ(check_content(tree), "");
}

TEST(Tree, SharesThePartThatStraddlesASplit) {
  Tree tree = roomy();
  const auto keys = counted(500);
  const NodeId tip = tree.commit(kTestDomain, keys, 500, Class::user, 0, kNow);
  absorb_all(tree, tip, keys);
  const auto other = joined(counted(200), counted(50, 9000));
  tree.commit(kTestDomain, other, 250, Class::user, 1, kNow);
  EXPECT_EQ(tree.used(Tier::host), 500 * kTestTokenBytes) << "counted once";
  EXPECT_EQ(tree.find(tip)->start, 200U) << "the id stays with the lower part";
  EXPECT_EQ(check_content(tree), "");
  EXPECT_EQ(tree.check(), "");
}

TEST(Tree, AnImageThatBeginsLaterFillsOnlyWhatTheHostLacks) {
  Tree tree = roomy();
  const auto keys = counted(300);
  const NodeId head = tree.commit(kTestDomain, keys, 200, Class::system, 0, kNow);
  absorb_all(tree, head, std::span(keys).first(200));
  const NodeId tip = tree.commit(kTestDomain, keys, 300, Class::user, 0, kNow);
  Buffer bytes;
  {
    // positions 200 to 299 only, as after a removal of the head
    const Part part = test_part(keys, 0);
    const std::vector<Piece> whole = {{part, 0, 300}};
    bytes.resize(composed_bytes(test_layout(), {1, 0}, 300, nullptr));
    ASSERT_TRUE(compose_image(test_layout(), {1, 0}, whole, nullptr, bytes));
    // header 8, streams 4, cells 4, then 12 bytes per cell, 8 bytes of counts, 12 of the layer
    Buffer later(bytes.begin(), bytes.begin() + 16);
    const std::uint32_t cells = 100;
    std::memcpy(later.data() + 12, &cells, 4);
    later.insert(later.end(), bytes.begin() + 16 + 200 * 12, bytes.begin() + 16 + 300 * 12 + 20);
    later.insert(later.end(), bytes.end() - 100 * 8, bytes.end());
    bytes = later;
  }
  const auto image = Image::parse(bytes, ImageKind::plain);
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(tree.absorb(tip, *image, 200), 100 * kTestTokenBytes);
  EXPECT_EQ(check_content(tree), "");
}

TEST(Tree, EvictsByEffectiveTime) {
  Tree tree = roomy();
  const auto make = [&](Key first, Class cls, int used, int hits) {
    const auto keys = counted(40, first);
    const NodeId id = tree.commit(kTestDomain, keys, 40, cls, 0, at(used));
    absorb_all(tree, id, keys);
    for (int i = 0; i < hits; ++i) tree.touch(id, at(used), true);
    return id;
  };
  const NodeId system = make(1000, Class::system, 1000, 3);
  const NodeId user = make(2000, Class::user, 2700, 1);
  const NodeId tail = make(3000, Class::tail, 2900, 0);
  tree.set_slot(0, kNoNode);
  EXPECT_EQ(Tree::effective_time(*tree.find(system)), at(2980));
  EXPECT_EQ(Tree::effective_time(*tree.find(user)), at(3060));
  EXPECT_EQ(Tree::effective_time(*tree.find(tail)), at(2900));
  for (const NodeId next : {tail, system, user}) {
    EXPECT_EQ(tree.victim(Tier::host), next);
    tree.drop(next);
  }
  EXPECT_EQ(tree.size(), 0U);
}

TEST(Tree, AnInteriorNodeIsNoVictimHoweverCold) {
  Tree tree = roomy();
  const auto keys = counted(100);
  const NodeId head = tree.commit(kTestDomain, keys, 50, Class::tail, 0, at(1));
  const NodeId tip = tree.commit(kTestDomain, keys, 100, Class::tail, 0, at(1));
  absorb_all(tree, tip, keys);
  tree.touch(tip, at(5000), true);
  tree.set_slot(0, kNoNode);
  EXPECT_EQ(tree.victim(Tier::host), tip);
  tree.drop(tip);
  EXPECT_EQ(tree.victim(Tier::host), head);
}

TEST(Tree, EvictsFromTheBudgetDownTo80Percent) {
  Tree tree({.mode = Mode::full, .host_budget = 1000 * kTestTokenBytes});
  for (int i = 0; i < 10; ++i) {
    const auto keys = counted(100, static_cast<Key>(1000 * (i + 1)));
    const NodeId id = tree.commit(kTestDomain, keys, 100, Class::tail, 0, at(i));
    EXPECT_EQ(tree.relieve(Tier::host).bytes, 0U) << i;
    absorb_all(tree, id, keys);
  }
  const auto dropped = tree.relieve(Tier::host);
  EXPECT_EQ(dropped.nodes[static_cast<int>(Class::tail)], 3U);
  EXPECT_EQ(tree.used(Tier::host), 700 * kTestTokenBytes);
  EXPECT_EQ(tree.match(kTestDomain, counted(100, 1000)).matched, 0U) << "the oldest went";
  EXPECT_EQ(tree.check(), "");
}

TEST(Tree, KnowsWithoutEvictingWhetherRoomCanBeMade) {
  Tree tree({.mode = Mode::full, .host_budget = 400 * kTestTokenBytes});
  const auto a = counted(100, 1000), b = counted(200, 5000);
  const NodeId used = tree.commit(kTestDomain, a, 100, Class::user, 0, kNow);
  absorb_all(tree, used, a);
  tree.commit(kTestDomain, b, 100, Class::user, 1, kNow);
  const NodeId tip = tree.commit(kTestDomain, b, 200, Class::user, 1, kNow);
  absorb_all(tree, tip, b);
  EXPECT_TRUE(tree.could_make_room(400 * kTestTokenBytes, kNoNode));
  EXPECT_FALSE(tree.could_make_room(401 * kTestTokenBytes, kNoNode));
  tree.acquire(used);
  EXPECT_TRUE(tree.could_make_room(300 * kTestTokenBytes, kNoNode));
  EXPECT_FALSE(tree.could_make_room(301 * kTestTokenBytes, kNoNode));
  EXPECT_TRUE(tree.could_make_room(100 * kTestTokenBytes, tip));
  EXPECT_FALSE(tree.could_make_room(101 * kTestTokenBytes, tip));
  EXPECT_EQ(tree.used(Tier::host), 300 * kTestTokenBytes);
  tree.acquire(tip);
  EXPECT_FALSE(tree.could_make_room(101 * kTestTokenBytes, kNoNode));
}

TEST(Tree, NeverTakesMoreThanItsBudget) {
  Tree tree({.mode = Mode::full, .host_budget = 250 * kTestTokenBytes});
  const auto keys = counted(300);
  tree.commit(kTestDomain, keys, 100, Class::system, 0, kNow);
  tree.commit(kTestDomain, keys, 200, Class::user, 0, kNow);
  const NodeId tip = tree.commit(kTestDomain, keys, 300, Class::user, 0, kNow);
  EXPECT_EQ(absorb_all(tree, tip, keys), 200 * kTestTokenBytes) << "the head, as far as there is room";
  tree.set_slot(0, kNoNode);
  EXPECT_EQ(tree.match(kTestDomain, keys).matched, 200U);
}

TEST(Tree, WhatARunUsesAndWhatIsPinnedStays) {
  Tree tree({.mode = Mode::full, .host_budget = 1000 * kTestTokenBytes});
  const auto a = counted(100, 1000), b = counted(100, 2000);
  const NodeId used = tree.commit(kTestDomain, a, 100, Class::tail, 0, kNow);
  absorb_all(tree, used, a);
  const NodeId pinned = tree.commit(kTestDomain, b, 100, Class::tail, 0, kNow);
  absorb_all(tree, pinned, b);
  tree.acquire(used);
  ASSERT_TRUE(tree.pin(pinned));
  tree.set_slot(0, kNoNode);
  tree.set_budget(Tier::host, 0);
  EXPECT_EQ(tree.relieve(Tier::host).bytes, 0U);
  tree.release(used);
  tree.relieve(Tier::host);
  EXPECT_EQ(tree.find(used), nullptr);
  EXPECT_NE(tree.find(pinned), nullptr);
  EXPECT_TRUE(tree.pinned_here(pinned));
  tree.unpin(pinned);
  EXPECT_FALSE(tree.pinned_here(pinned));
  tree.relieve(Tier::host);
  EXPECT_EQ(tree.size(), 0U);
}

TEST(Tree, RefusesPinsBeyondHalfOfATier) {
  Tree tree({.mode = Mode::full, .host_budget = 1000 * kTestTokenBytes});
  const auto a = counted(400, 1000), b = counted(200, 5000);
  const NodeId first = tree.commit(kTestDomain, a, 400, Class::tail, 0, kNow);
  absorb_all(tree, first, a);
  const NodeId second = tree.commit(kTestDomain, b, 200, Class::tail, 0, kNow);
  absorb_all(tree, second, b);
  EXPECT_TRUE(tree.pin(first));
  EXPECT_EQ(tree.pin(second).error().code, "cache-pin-limit");
  EXPECT_TRUE(tree.pin(first)) << "again costs nothing";
  EXPECT_EQ(tree.pin(12345).error().code, "cache-node-unknown");
}

TEST(Tree, WritesToDiskWhatQualifiesParentsFirst) {
  Tree tree = roomy();
  const auto keys = counted(900);
  const NodeId head = tree.commit(kTestDomain, keys, 300, Class::user, 0, kNow);
  const NodeId user = tree.commit(kTestDomain, keys, 700, Class::user, 0, kNow);
  const NodeId tail = tree.commit(kTestDomain, keys, 900, Class::tail, 0, kNow);
  EXPECT_EQ(tree.next_write(), kNoNode) << "only a slot has it";
  absorb_all(tree, tail, keys);
  for (const NodeId next : {head, user}) {
    EXPECT_EQ(tree.next_write(), next);
    ASSERT_TRUE(tree.set_disk(next, record(tree, next)));
  }
  EXPECT_EQ(tree.next_write(), kNoNode) << "a tail that nobody hit";
  EXPECT_EQ(tree.next_write(true), tail);
  tree.touch(tail, kNow, true);
  EXPECT_EQ(tree.next_write(), tail);
}

TEST(Tree, AnEvictedNodeStaysReachableOnDisk) {
  Tree tree = roomy();
  const auto keys = counted(700);
  const NodeId id = tree.commit(kTestDomain, keys, 700, Class::user, 0, kNow);
  absorb_all(tree, id, keys);
  tree.set_disk(id, record(tree, id));
  tree.set_slot(0, kNoNode);
  tree.set_budget(Tier::host, 0);
  tree.relieve(Tier::host);
  ASSERT_NE(tree.find(id), nullptr);
  EXPECT_TRUE(tree.find(id)->rows.empty());
  EXPECT_EQ(tree.match(kTestDomain, keys).matched, 700U);
  // Half of a record still is one file: it goes when both halves are gone.
  const auto other = joined(counted(600), counted(10, 9000));
  tree.commit(kTestDomain, other, 610, Class::user, 1, kNow);
  EXPECT_EQ(tree.used(Tier::disk), 100U);
  EXPECT_TRUE(tree.drop(id).records.empty());
  tree.set_slot(1, kNoNode);
  const NodeId upper = tree.match(kTestDomain, keys).path.back();
  EXPECT_EQ(tree.drop(upper).records.size(), 1U);
  EXPECT_EQ(tree.size(), 0U);
}

TEST(Tree, AdoptsTheRecordsOfAnEarlierProcessParentsFirst) {
  Tree before = roomy();
  const auto keys = counted(900);
  const NodeId a = before.commit(kTestDomain, keys, 600, Class::system, 0, kNow);
  const NodeId b = before.commit(kTestDomain, keys, 900, Class::user, 0, kNow);
  const DiskRef first = record(before, a), second = record(before, b);
  Tree tree = roomy();
  EXPECT_FALSE(tree.adopt(kTestDomain, keys, second, Class::user, {}, false, kNow))
      << "its parent is unknown";
  EXPECT_TRUE(tree.adopt(kTestDomain, std::span(keys).first(600), first, Class::system, {}, false, kNow));
  EXPECT_TRUE(tree.adopt(kTestDomain, keys, second, Class::user, {}, false, kNow));
  EXPECT_EQ(tree.match(kTestDomain, keys).matched, 900U);
  EXPECT_EQ(tree.used(Tier::disk), 200U);
  tree.forget_record(first->id);
  EXPECT_EQ(tree.size(), 0U) << "without its head the rest is of no use";
  EXPECT_EQ(tree.used(Tier::disk), 0U);
}

TEST(Tree, DropsWhatOnlyOneSessionUses) {
  Tree tree = roomy();
  const auto shared = counted(100);
  const auto a = joined(shared, counted(50, 5000)), b = joined(shared, counted(50, 7000));
  const auto chat = [&](const std::vector<Key>& keys, std::uint64_t session, int slot) {
    tree.commit(kTestDomain, keys, 100, Class::system, slot, kNow);
    const NodeId id = tree.commit(kTestDomain, keys, 150, Class::user, slot, kNow);
    absorb_all(tree, id, keys);
    tree.tag(id, session);
  };
  chat(a, 1, 0);
  chat(b, 2, 1);
  const auto dropped = tree.drop_session(1);
  EXPECT_THAT(dropped.slots, ElementsAre(0));
  EXPECT_EQ(tree.match(kTestDomain, a).matched, 100U);
  EXPECT_EQ(tree.match(kTestDomain, b).matched, 150U);
  EXPECT_EQ(tree.check(), "");
}

TEST(Tree, JoinsChainsWithoutLosingRows) {
  Tree tree = roomy();
  const auto keys = counted(300);
  for (const std::uint32_t end : {100U, 200U, 300U})
    tree.commit(kTestDomain, keys, end, Class::user, 0, kNow);
  const NodeId tip = tree.match(kTestDomain, keys).path.back();
  absorb_all(tree, tip, keys);
  EXPECT_EQ(tree.merge(), 2U);
  EXPECT_EQ(tree.size(), 1U);
  EXPECT_EQ(tree.find(tip)->start, 0U);
  EXPECT_EQ(tree.check(), "");
  EXPECT_EQ(check_content(tree), "");
}

TEST(Tree, KeepsEightCheckpointsOnAPath) {
  Tree tree = roomy(Mode::hybrid);
  const auto keys = counted(2000);
  for (std::uint32_t end = 100; end <= 2000; end += 100) {
    const NodeId id = tree.commit(kTestDomain, keys, end, end <= 200 ? Class::system : Class::user, 0, kNow);
    tree.set_checkpoint(id, std::make_shared<Checkpoint>(test_checkpoint(std::span(keys).first(end))));
    tree.thin_checkpoints(id);
  }
  std::vector<std::uint32_t> ends;
  for (const NodeId id : tree.match(kTestDomain, keys).path) {
    if (tree.find(id)->checkpoint) ends.push_back(tree.find(id)->end);
  }
  EXPECT_EQ(ends.size(), 8U);
  EXPECT_THAT(ends, testing::IsSupersetOf({200U, 1800U, 1900U, 2000U}));
  EXPECT_EQ(tree.check(), "");
}

TEST(PrefixHash, DependsOnTheDomainAndEveryKey) {
  const auto keys = counted(10);
  const Digest hash = prefix_hash(kTestDomain, keys);
  EXPECT_NE(hash, prefix_hash(domain_of("a", "", "", ""), keys));
  EXPECT_NE(hash, prefix_hash(kTestDomain, counted(9)));
  // 32 zero bytes and u32 1, 2: from an independent implementation.
  EXPECT_EQ(hex(prefix_hash(kTestDomain, counted(2))),
            "e7ca17d6581d126af7e0c8574cdd8987ed93319969b54a5e2a272d585a38f3ea");
}

}  // namespace
}  // namespace gezel::kvcache
