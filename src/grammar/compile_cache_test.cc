#include "grammar/compile_cache.h"

#include <gmock/gmock.h>

#include <thread>

#include "grammar/test_support.h"

namespace gezel::grammar {
namespace {

using testing::accepts;
using testing::must;

ConstraintSpec word(const std::string& text) {
  return {ConstraintKind::lark, "start: \"" + text + "\"\n", false};
}

TEST(CompileCache, CompilesOnceAndGivesFreshMatchers) {
  CompileCache cache;
  auto first = must(cache.get(word("ab"), Vocabulary::of_bytes()));
  ASSERT_TRUE(first.consume('a'));
  const auto second = must(cache.get(word("ab"), Vocabulary::of_bytes()));
  EXPECT_TRUE(accepts(second, "ab"));
  EXPECT_EQ(cache.stats().misses, 1U);
  EXPECT_EQ(cache.stats().hits, 1U);
  EXPECT_EQ(cache.stats().bytes, CompileCache::estimate(word("ab")));
}

TEST(CompileCache, KindSpaceTextAndVocabularyAreTheKey) {
  CompileCache cache;
  auto spec = word("ab");
  EXPECT_TRUE(cache.get(spec, Vocabulary::of_bytes()));
  spec.leading_space = true;
  EXPECT_TRUE(accepts(must(cache.get(spec, Vocabulary::of_bytes())), " ab"));
  EXPECT_TRUE(cache.get(word("ac"), Vocabulary::of_bytes()));
  EXPECT_EQ(cache.stats().entries, 3U);
}

TEST(CompileCache, ForgetsTheLeastRecentlyUsed) {
  CompileCache cache({.entries = 2});
  EXPECT_TRUE(cache.get(word("a"), Vocabulary::of_bytes()));
  EXPECT_TRUE(cache.get(word("b"), Vocabulary::of_bytes()));
  EXPECT_TRUE(cache.get(word("a"), Vocabulary::of_bytes()));
  EXPECT_TRUE(cache.get(word("c"), Vocabulary::of_bytes()));
  EXPECT_EQ(cache.stats().entries, 2U);
  EXPECT_TRUE(cache.get(word("a"), Vocabulary::of_bytes()));
  EXPECT_EQ(cache.stats().misses, 3U);
  EXPECT_TRUE(cache.get(word("b"), Vocabulary::of_bytes()));
  EXPECT_EQ(cache.stats().misses, 4U);
}

TEST(CompileCache, StaysWithinItsBytes) {
  const auto one = CompileCache::estimate(word("a"));
  CompileCache cache({.entries = 100, .bytes = 2 * one + one / 2});
  for (const auto* text : {"a", "b", "c", "d"}) EXPECT_TRUE(cache.get(word(text), Vocabulary::of_bytes()));
  EXPECT_EQ(cache.stats().entries, 2U);
  EXPECT_EQ(cache.stats().bytes, 2 * one);
}

TEST(CompileCache, WhatDoesNotCompileIsNotKept) {
  CompileCache cache;
  const ConstraintSpec broken{ConstraintKind::lark, "start: missing\n", false};
  EXPECT_EQ(cache.get(broken, Vocabulary::of_bytes()).error().code, "constraint-unusable");
  EXPECT_EQ(cache.stats().entries, 0U);
  EXPECT_FALSE(cache.get(broken, Vocabulary::of_bytes()));
}

TEST(CompileCache, ThreadsShareOneCompilation) {
  CompileCache cache;
  std::vector<std::thread> threads;
  std::vector<int> right(8);
  for (std::size_t i = 0; i < right.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 10; ++round) {
        const auto matcher = cache.get(word(round % 2 == 0 ? "ab" : "cd"), Vocabulary::of_bytes());
        right[i] += matcher && accepts(*matcher, round % 2 == 0 ? "ab" : "cd") ? 1 : 0;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(right, ::testing::Each(10));
  EXPECT_EQ(cache.stats().misses, 2U);
}

}  // namespace
}  // namespace gezel::grammar
