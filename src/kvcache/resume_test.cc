#include "kvcache/resume.h"

#include <gtest/gtest.h>

#include "kvcache/test_tree.h"

namespace gezel::kvcache {
namespace {

constexpr MonotonicTime kNow{std::chrono::hours(1)};

Tree roomy(Mode mode = Mode::full) {
  return Tree({.mode = mode, .host_budget = kGiB, .disk_budget = kGiB});
}

NodeId stored(Tree& tree, const std::vector<Key>& keys, std::uint32_t end, bool checkpoint = false) {
  const NodeId id = tree.commit(kTestDomain, keys, end, Class::user, 0, kNow);
  absorb_all(tree, id, std::span(keys).first(end));
  if (checkpoint)
    tree.set_checkpoint(id, std::make_shared<Checkpoint>(test_checkpoint(std::span(keys).first(end))));
  return id;
}

Resume plan(const Tree& tree, Mode mode, const std::vector<Key>& prompt, const LoadRates& rates = {}) {
  return plan_resume(tree, mode, tree.match(kTestDomain, prompt), static_cast<std::uint32_t>(prompt.size()),
                     kTestTokenBytes, rates);
}

DiskRef on_disk(Tree& tree, NodeId id, Bytes bytes, bool checkpoint = false) {
  const Node* node = tree.find(id);
  const auto record = std::make_shared<DiskRecord>(DiskRecord{.id = tree.hash_of(id),
                                                              .start = node->start,
                                                              .end = node->end,
                                                              .bytes = bytes,
                                                              .checkpoint = checkpoint});
  EXPECT_TRUE(tree.set_disk(id, record));
  return record;
}

// Nothing stays but what the disk has.
void leave_memory(Tree& tree) {
  tree.set_slot(0, kNoNode);
  tree.set_budget(Tier::host, 0);
  tree.relieve(Tier::host);
}

TEST(Resume, AlwaysComputesTheLastTokenOfAPrompt) {
  Tree tree = roomy();
  const auto prompt = counted(500);
  stored(tree, prompt, 500);
  const Resume resume = plan(tree, Mode::full, prompt);
  EXPECT_EQ(resume.tokens, 499U);
  EXPECT_EQ(resume.imported, 499U);
  const auto pieces = pieces_of(tree, resume);
  ASSERT_TRUE(pieces);
  Buffer out(composed_bytes(test_layout(), {1, 0}, 499, nullptr));
  ASSERT_TRUE(compose_image(test_layout(), {1, 0}, *pieces, nullptr, out));
  EXPECT_EQ(out, test_image(std::span(prompt).first(499)));
}

TEST(Resume, GoesOnWherePromptsPart) {
  Tree tree = roomy();
  const auto a = joined(counted(1000), counted(50, 5000));
  stored(tree, a, 1000);
  stored(tree, a, 1050);
  const auto b = joined(joined(counted(1000), counted(3, 5000)), counted(37, 9000));
  EXPECT_EQ(plan(tree, Mode::full, b).tokens, 1003U);
}

TEST(Resume, SurvivesASplitBetweenPlanAndUse) {
  Tree tree = roomy();
  const auto prompt = counted(300);
  stored(tree, prompt, 300);
  const Resume resume = plan(tree, Mode::full, prompt);
  tree.acquire(resume.node);
  tree.commit(kTestDomain, joined(counted(100), counted(50, 9000)), 150, Class::user, 1, kNow);
  const auto pieces = pieces_of(tree, resume);
  ASSERT_TRUE(pieces);
  std::uint32_t tokens = 0;
  for (const Piece& piece : *pieces) tokens += piece.tokens();
  EXPECT_EQ(tokens, 299U);
  tree.release(resume.node);
}

TEST(Resume, SaysWhyAPromptStartsCold) {
  Tree tree = roomy();
  const auto prompt = counted(100);
  EXPECT_EQ(plan(tree, Mode::full, prompt).miss, Miss::no_match);
  stored(tree, prompt, 100);
  EXPECT_EQ(plan(tree, Mode::full, joined(counted(15), counted(80, 900))).miss, Miss::short_match);
  EXPECT_EQ(plan(tree, Mode::full, joined(counted(16), counted(80, 900))).tokens, 16U);
  EXPECT_EQ(plan(tree, Mode::hybrid, prompt).miss, Miss::not_resumable) << "no checkpoint";
  EXPECT_EQ(plan(tree, Mode::none, prompt).miss, Miss::not_resumable);
}

TEST(Resume, AHybridModelGoesBackToTheEndOfANode) {
  Tree tree = roomy(Mode::hybrid);
  const auto keys = counted(1500);
  stored(tree, keys, 1000, true);
  stored(tree, keys, 1500, true);
  const auto prompt = joined(counted(1400), counted(600, 9000));
  const Resume resume = plan(tree, Mode::hybrid, prompt);
  EXPECT_EQ(resume.tokens, 1000U);
  EXPECT_EQ(resume.matched, 1400U);
  ASSERT_TRUE(resume.checkpoint);
  EXPECT_EQ(resume.checkpoint->bytes, test_checkpoint(std::span(keys).first(1000)).bytes);
  // Asked the same again it cannot leave out the last token alone.
  EXPECT_EQ(plan(tree, Mode::hybrid, keys).tokens, 1000U);
}

TEST(Resume, AWindowReachesOneTokenFurtherBack) {
  Tree tree = roomy(Mode::window);
  const auto keys = counted(1500);
  stored(tree, keys, 1000, true);
  stored(tree, keys, 1500, true);
  const Resume same = plan(tree, Mode::window, keys);
  EXPECT_EQ(same.tokens, 1499U);
  EXPECT_EQ(same.imported, 1500U);
  EXPECT_EQ(plan(tree, Mode::window, counted(1499)).tokens, 1000U);
}

TEST(Resume, RecurrentModelsNeedNoRows) {
  Tree tree = roomy(Mode::recurrent);
  const auto keys = counted(1200);
  const NodeId id = tree.commit(kTestDomain, keys, 1000, Class::user, 0, kNow);
  tree.set_checkpoint(id, std::make_shared<Checkpoint>(test_checkpoint(std::span(keys).first(1000))));
  tree.set_slot(0, kNoNode);
  const Resume resume = plan(tree, Mode::recurrent, keys);
  EXPECT_EQ(resume.tokens, 1000U);
  EXPECT_TRUE(resume.steps.empty());
}

TEST(Resume, ComputesWhatTheDiskWouldTakeLongerToBring) {
  // 2,000 tokens of 131,072 bytes, computed at 4,000 tokens a second: 500 ms.
  const auto decide = [](double disk_rate) {
    LoadRates rates;
    for (int i = 0; i < 200; ++i) {
      rates.observe_prefill(4000, 1.0);
      rates.observe_load(Tier::disk, static_cast<Bytes>(disk_rate), 1.0);
    }
    Tree tree = roomy();
    const auto keys = counted(2001);
    const NodeId id = stored(tree, keys, 2000);
    on_disk(tree, id, 2000 * 131'072);
    leave_memory(tree);
    return plan_resume(tree, Mode::full, tree.match(kTestDomain, keys), 2001, 131'072, rates);
  };
  const Resume slow = decide(500e6);
  EXPECT_EQ(slow.tokens, 0U);
  EXPECT_EQ(slow.miss, Miss::too_slow);
  const Resume fast = decide(2e9);
  EXPECT_EQ(fast.tokens, 2000U);
  EXPECT_TRUE(fast.needs_disk());
}

TEST(Resume, TakesTheHeadAloneWhenItsTailIsNotWorthLoading) {
  LoadRates rates;
  for (int i = 0; i < 200; ++i) rates.observe_load(Tier::disk, kMiB, 1.0);  // 1 MiB/s
  Tree tree = roomy();
  const auto keys = counted(1001);
  stored(tree, keys, 600);
  const NodeId tail = stored(tree, keys, 1000);
  on_disk(tree, tree.path(tail).front(), 100);
  on_disk(tree, tail, 100);
  leave_memory(tree);
  const auto read = [&](NodeId id, std::uint32_t from, std::uint32_t to) {
    tree.set_budget(Tier::host, kGiB);
    tree.set_rows(id, {{test_part(std::span(keys).first(to), from), 0, to - from}});
  };
  read(tree.path(tail).front(), 0, 600);
  const Resume resume = plan_resume(tree, Mode::full, tree.match(kTestDomain, keys), 1001, 4096, rates);
  EXPECT_EQ(resume.tokens, 600U);
  EXPECT_FALSE(resume.needs_disk());
}

TEST(Resume, SaysWhatMustBeExportedFirst) {
  Tree tree = roomy();
  const auto keys = counted(300);
  tree.commit(kTestDomain, keys, 300, Class::user, 2, kNow);
  const Resume resume = plan(tree, Mode::full, keys);
  EXPECT_TRUE(resume.needs_export());
  ASSERT_EQ(resume.steps.size(), 1U);
  EXPECT_EQ(resume.steps[0].slot, 2);
  EXPECT_FALSE(pieces_of(tree, resume));
  absorb_all(tree, resume.node, keys);
  EXPECT_TRUE(pieces_of(tree, resume));
}

TEST(Resume, TrustsAnImportOnlyWhenSizeAndPositionsAgree) {
  EXPECT_TRUE(import_succeeded(1000, 1000, 0, 99, 99, Mode::full));
  EXPECT_FALSE(import_succeeded(0, 1000, -1, -1, 99, Mode::full));
  EXPECT_FALSE(import_succeeded(1000, 1000, 0, 98, 99, Mode::full));
  EXPECT_FALSE(import_succeeded(1000, 1000, 5, 99, 99, Mode::full)) << "a head is missing";
  EXPECT_TRUE(import_succeeded(1000, 1000, 50, 99, 99, Mode::window));
}

TEST(LoadRates, FollowWhatIsMeasured) {
  LoadRates rates;
  EXPECT_DOUBLE_EQ(rates.load_ms(Tier::host, 4'000'000'000), 1000);
  EXPECT_DOUBLE_EQ(rates.load_ms(Tier::disk, 500'000'000), 1000);
  EXPECT_DOUBLE_EQ(rates.prefill_ms(1000), 1000);
  for (int i = 0; i < 50; ++i) rates.observe_prefill(100, 0.02);
  EXPECT_NEAR(rates.prefill_tokens_per_second(), 5000, 1);
  rates.observe_prefill(1, 10);
  EXPECT_NEAR(rates.prefill_tokens_per_second(), 5000, 1) << "one token says nothing";
}

}  // namespace
}  // namespace gezel::kvcache
