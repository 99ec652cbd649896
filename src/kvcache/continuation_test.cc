// What followed a text before, looked up with a place that is remembered from step to step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "kvcache/test_tree.h"

namespace gezel::kvcache {
namespace {

using Tokens = std::vector<std::int32_t>;
using Random = std::mt19937;

constexpr MonotonicTime at(int second) {
  return MonotonicTime(std::chrono::seconds(second));
}

Tokens counted_tokens(std::int32_t count, std::int32_t from = 1) {
  Tokens out;
  for (std::int32_t i = 0; i < count; ++i) out.push_back(from + i);
  return out;
}

Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class Continuation : public testing::Test {
 protected:
  NodeId commit(const Tokens& tokens, int slot, int second, std::size_t count = 0) {
    const auto keys = token_keys(tokens);
    return tree_.commit(kTestDomain, keys, static_cast<std::uint32_t>(count == 0 ? keys.size() : count),
                        Class::tail, slot, at(second));
  }
  std::vector<Key> next(const Tokens& tokens, std::size_t limit, TreePlace& place) {
    return tree_.continuation(kTestDomain, tokens, limit, place);
  }
  // Without a memory of earlier calls.
  std::vector<Key> next(const Tokens& tokens, std::size_t limit) {
    TreePlace place;
    return next(tokens, limit, place);
  }

  Tree tree_{{.mode = Mode::full, .host_budget = kGiB, .disk_budget = kGiB}};
  const Tokens head_ = counted_tokens(50);
};

TEST_F(Continuation, IsTheBranchThatWasUsedLast) {
  commit(head_ + counted_tokens(20, 500), 0, 10);
  commit(head_ + counted_tokens(20, 700), 1, 20);
  EXPECT_EQ(next(counted_tokens(49), 4), (std::vector<Key>{50, 700, 701, 702}));
}

TEST_F(Continuation, IsNothingAtTheEndOfWhatIsKnown) {
  const auto whole = head_ + counted_tokens(20, 700);
  commit(whole, 0, 10);
  EXPECT_TRUE(next(whole, 4).empty());
}

TEST_F(Continuation, IsNothingForATextThatHasLeftTheTree) {
  commit(head_ + counted_tokens(20, 500), 0, 10);
  EXPECT_TRUE(next(head_ + Tokens{500, 501, 9}, 4).empty()) << "inside an edge";
  EXPECT_TRUE(next(head_ + Tokens{9}, 4).empty());
  commit(head_, 1, 10);
  EXPECT_TRUE(next(head_ + Tokens{9}, 4).empty()) << "at the end of a node";
}

TEST_F(Continuation, LooksOnlyAtNewTokens) {
  commit(head_ + counted_tokens(20, 500), 0, 10);
  TreePlace place;
  next(head_, 4, place);
  // Tokens that were looked at are not looked at again, so nobody notices that they are others now.
  const auto changed = counted_tokens(50, 9'000) + counted_tokens(3, 500);
  EXPECT_EQ(next(changed, 2, place), (std::vector<Key>{503, 504}));
  EXPECT_EQ(place.matched, 53U);
}

TEST_F(Continuation, FindsWhatWasAddedWhereItsTextLeftTheTree) {
  commit(head_, 0, 10);
  TreePlace place;
  auto text = head_ + counted_tokens(5, 500);
  EXPECT_TRUE(next(text, 4, place).empty());
  commit(head_ + counted_tokens(20, 500), 1, 20);  // another run with the same text
  EXPECT_EQ(next(text, 2, place), (std::vector<Key>{505, 506}));
}

TEST_F(Continuation, StaysRightWhenItsNodeIsSplitAboveIt) {
  const auto whole = head_ + counted_tokens(20, 500);
  commit(whole, 0, 10);
  TreePlace place;
  next(head_ + counted_tokens(10, 500), 4, place);
  commit(counted_tokens(30) + counted_tokens(5, 900), 1, 20);
  EXPECT_EQ(next(head_ + counted_tokens(11, 500), 2, place), (std::vector<Key>{511, 512}));
}

TEST_F(Continuation, StaysRightWhenItsNodeIsSplitBelowIt) {
  commit(head_ + counted_tokens(20, 500), 0, 10);
  TreePlace place;
  next(counted_tokens(30), 4, place);
  commit(head_ + counted_tokens(10, 500) + counted_tokens(5, 900), 1, 20);
  EXPECT_EQ(next(counted_tokens(31), 2, place), (std::vector<Key>{32, 33}));
  EXPECT_EQ(tree_.find(place.node)->end, 60U);
}

TEST_F(Continuation, BeginsAnewWhenItsNodeWasEvicted) {
  const auto whole = head_ + counted_tokens(20, 500);
  const NodeId id = commit(whole, 0, 10);
  TreePlace place;
  next(head_, 4, place);
  tree_.drop(id);
  tree_.set_slot(0, kNoNode);
  EXPECT_TRUE(next(head_, 4, place).empty());
  EXPECT_EQ(place.matched, 0U);
  commit(whole, 0, 20);
  EXPECT_EQ(next(head_, 2, place), (std::vector<Key>{500, 501}));
}

TEST_F(Continuation, WhereATextLeavesTheTreeWhatLiesBehindCanBeSeen) {
  commit(head_ + counted_tokens(20, 500), 0, 10);
  EXPECT_EQ(tree_.behind_match(kTestDomain, token_keys(head_ + Tokens{500, 9}), 2),
            (std::vector<Key>{501, 502}));
  EXPECT_EQ(tree_.behind_match(kTestDomain, token_keys(Tokens{9}), 2), (std::vector<Key>{1, 2}));
}

// Few different tokens, so that texts share beginnings and part late.
Tokens random_text(Random& random, std::size_t most) {
  Tokens text(1 + random() % most);
  for (auto& token : text) token = random() % 8 == 0 ? static_cast<std::int32_t>(1 + random() % 3) : 7;
  return text;
}

TEST(ContinuationProperty, ARememberedPlaceFindsWhatAWholeWalkFinds) {
  std::size_t found = 0;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    Random random(seed);
    Tree tree({.mode = Mode::full, .host_budget = 400 * kTestTokenBytes, .disk_budget = kGiB});
    struct Text {
      Tokens tokens;
      TreePlace place;
    };
    std::vector<Text> texts(4);
    std::vector<NodeId> known;
    for (int step = 0; step < 600; ++step) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " step " << step);
      switch (random() % 6) {
        case 0:
        case 1: {
          const auto keys = token_keys(random_text(random, 60));
          const NodeId id = tree.commit(kTestDomain, keys, static_cast<std::uint32_t>(keys.size()),
                                        Class::tail, static_cast<int>(random() % 3), at(step));
          known.push_back(id);
          if (random() % 2 == 0) absorb_all(tree, id, keys);
          break;
        }
        case 2:
          tree.merge();
          break;
        case 3:
          if (!known.empty()) tree.drop(known[random() % known.size()]);
          break;
        case 4:
          tree.relieve(Tier::host);
          break;
        case 5:
          tree.set_slot(static_cast<int>(random() % 3), kNoNode);
          break;
      }
      Text& text = texts[random() % texts.size()];
      if (text.tokens.empty() || text.tokens.size() > 80) text = {random_text(random, 20), {}};
      // Mostly as somebody went on before, with a token of its own now and then.
      TreePlace anew;
      const auto before = tree.continuation(kTestDomain, text.tokens, 8, anew);
      const std::size_t more = random() % 4;
      for (std::size_t i = 0; i < more; ++i) {
        const bool along = i < before.size() && random() % 8 != 0;
        text.tokens.push_back(along ? static_cast<std::int32_t>(before[i]) : 7);
      }
      const auto remembered = tree.continuation(kTestDomain, text.tokens, 8, text.place);
      const auto match = tree.match(kTestDomain, token_keys(text.tokens));
      ASSERT_EQ(text.place.matched, match.matched);
      ASSERT_EQ(text.place.node, match.path.empty() ? kNoNode : match.path.back());
      anew = {};
      ASSERT_EQ(remembered, tree.continuation(kTestDomain, text.tokens, 8, anew));
      found += remembered.size();
      ASSERT_EQ(tree.check(), "");
    }
  }
  EXPECT_GT(found, 1'000U) << "the texts must meet the tree";
}

}  // namespace
}  // namespace gezel::kvcache
