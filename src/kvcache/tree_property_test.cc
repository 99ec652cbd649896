// Random sequences of operations. The first test compares the tree with a naive model, a map from each prefix
// to where its last row lies; the second drives everything at once, with budgets too small for all of it, and
// asks only what must always hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "kvcache/test_tree.h"

namespace gezel::kvcache {
namespace {

using Random = std::mt19937;

std::size_t below(Random& random, std::size_t limit) {
  return random() % limit;
}

// Sequences with many common heads, some with media spans.
std::vector<Key> random_prompt(Random& random) {
  const Key image = Key{1} << 63;
  std::vector<Key> keys;
  const std::size_t size = 1 + below(random, 60);
  while (keys.size() < size) {
    const std::size_t choice = below(random, 40);
    if (choice == 0) {
      keys.insert(keys.end(), 3, image | below(random, 2));
    } else {
      // Mostly the one token, so that prompts part late.
      keys.push_back(choice < 5 ? 1 + below(random, 3) : 7);
    }
  }
  return keys;
}

struct Place {
  bool host = false;
  Digest record{};
  bool disk = false;
  std::set<int> slots;
  bool any() const { return host || disk || !slots.empty(); }
};
using Model = std::map<std::vector<Key>, Place>;

// A prefix whose rows went takes all that continue it along.
void settle(Model& model) {
  std::vector<Key> dead;
  for (auto it = model.begin(); it != model.end();) {  // a prefix stands before what continues it
    const bool below_dead = !dead.empty() && common_prefix(dead, it->first) == dead.size();
    if (!below_dead && it->second.any()) {
      // Its own head must be there too.
      ++it;
      continue;
    }
    if (!below_dead) dead = it->first;
    it = model.erase(it);
  }
}

std::vector<Key> head(const std::vector<Key>& keys, std::size_t count) {
  return {keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(count)};
}

void model_slot(Model& model, int slot, const std::vector<Key>& keys) {
  for (auto& [prefix, place] : model) place.slots.erase(slot);
  for (std::size_t count = 1; count <= keys.size(); ++count) model[head(keys, count)].slots.insert(slot);
  settle(model);
}

void expect_equal(const Tree& tree, const Model& model) {
  std::size_t tokens = 0;
  tree.each([&](NodeId id, const Node& node) {
    const std::vector<Key> keys = tree.path_keys(id);
    if (!node.has_rows()) return;  // only used
    tokens += node.edge.size();
    for (std::uint32_t count = node.start + 1; count <= node.end; ++count) {
      const auto found = model.find(head(keys, count));
      ASSERT_NE(found, model.end()) << "the tree knows a prefix that was never computed or is gone";
      EXPECT_EQ(found->second.host, !node.rows.empty());
      EXPECT_EQ(found->second.disk, node.disk != nullptr);
      EXPECT_EQ(found->second.slots, std::set<int>(node.slots.begin(), node.slots.end()));
    }
  });
  EXPECT_EQ(tokens, model.size());
}

TEST(TreeProperty, EqualsAMapOfPrefixes) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    Tree tree({.mode = Mode::full, .host_budget = kGiB, .disk_budget = kGiB});
    Model model;
    std::vector<NodeId> known, held;
    std::vector<Digest> records;
    for (int step = 0; step < 300; ++step) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " step " << step);
      const auto prompt = random_prompt(random);
      const int slot = static_cast<int>(below(random, 3));
      const NodeId some = known.empty() ? kNoNode : known[below(random, known.size())];
      switch (below(random, 10)) {
        case 0:
        case 1:
        case 2: {
          const auto end = static_cast<std::uint32_t>(1 + below(random, prompt.size()));
          const NodeId id = tree.commit(kTestDomain, prompt, end, Class::user, slot, {});
          if (id == kNoNode) break;
          known.push_back(id);
          model_slot(model, slot, tree.path_keys(id));
          break;
        }
        case 3:
          tree.set_slot(slot, kNoNode);
          model_slot(model, slot, {});
          break;
        case 4:
        case 5: {
          if (tree.find(some) == nullptr) break;
          const auto keys = tree.path_keys(some);
          // Only if the path is whole, as it is for a run that is exported.
          if (!model.contains(keys)) break;
          absorb_all(tree, some, keys);
          for (std::size_t count = 1; count <= keys.size(); ++count) model[head(keys, count)].host = true;
          break;
        }
        case 6: {
          const Node* node = tree.find(some);
          if (node == nullptr || node->rows.empty() || node->disk) break;
          Digest id{};
          id[0] = std::byte(records.size() & 255);
          id[1] = std::byte(records.size() >> 8);
          records.push_back(id);
          const auto keys = tree.path_keys(some);
          const std::uint32_t start = node->start, end = node->end;
          ASSERT_TRUE(tree.set_disk(some, std::make_shared<DiskRecord>(DiskRecord{
                                              .id = id, .start = start, .end = end, .bytes = 10})));
          for (std::uint32_t count = start + 1; count <= end; ++count) {
            model[head(keys, count)].disk = true;
            model[head(keys, count)].record = id;
          }
          break;
        }
        case 7: {
          if (records.empty()) break;
          const Digest id = records[below(random, records.size())];
          tree.forget_record(id);
          for (auto& [prefix, place] : model) {
            if (place.disk && place.record == id) place.disk = false;
          }
          settle(model);
          break;
        }
        case 8:
          tree.merge();
          break;
        case 9:
          if (held.size() < 4 && tree.find(some) != nullptr) {
            tree.acquire(some);
            held.push_back(some);
          } else if (!held.empty()) {
            tree.release(held.back());
            held.pop_back();
          }
          break;
      }
      ASSERT_EQ(tree.check(), "");
      expect_equal(tree, model);
      if (step % 20 == 0) ASSERT_EQ(check_content(tree), "");
      // What is matched is the longest known prefix, but for media spans and nodes without rows.
      const auto query = random_prompt(random);
      std::size_t longest = 0;
      while (longest < query.size() && model.contains(head(query, longest + 1))) ++longest;
      const Match match = tree.match(kTestDomain, query);
      std::size_t usable = 0;
      for (const NodeId id : match.path) {
        if (tree.find(id)->has_rows()) usable = std::min<std::size_t>(match.matched, tree.find(id)->end);
      }
      EXPECT_LE(usable, longest);
      EXPECT_GE(usable + 3, longest) << "a media span has 3 positions here";
      if (testing::Test::HasFailure()) return;
    }
  }
}

struct OnDisk {
  DiskRef record;
  std::vector<Key> keys;
};

TEST(TreeProperty, KeepsItsInvariantsUnderEverythingAtOnce) {
  std::set<std::vector<Key>> fed;
  for (unsigned seed = 1; seed <= 24; ++seed) {
    Random random(seed);
    const Mode mode = static_cast<Mode>(seed % 4);
    const TreeOptions options{.mode = mode, .host_budget = 150 * kTestTokenBytes, .disk_budget = 2000};
    Tree tree(options);
    std::vector<NodeId> known, held, pinned;
    std::map<Digest, OnDisk> disk;
    const auto files_go = [&](const std::vector<Digest>& records) {
      for (const Digest& id : records) disk.erase(id);
    };
    for (int step = 0; step < 500; ++step) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << " step " << step);
      const MonotonicTime now{std::chrono::seconds(step)};
      const auto prompt = random_prompt(random);
      const NodeId some = known.empty() ? kNoNode : known[below(random, known.size())];
      const int slot = static_cast<int>(below(random, 3));
      switch (below(random, 17)) {
        case 0:
        case 1:
        case 2: {
          const auto end = static_cast<std::uint32_t>(1 + below(random, prompt.size()));
          fed.insert(prompt);
          const NodeId id =
              tree.commit(kTestDomain, prompt, end, static_cast<Class>(below(random, 3)), slot, now);
          if (id == kNoNode) break;
          known.push_back(id);
          tree.tag(id, below(random, 12));
          break;
        }
        case 3:
        case 4:
        case 5: {
          if (tree.find(some) == nullptr) break;
          const auto keys = tree.path_keys(some);
          absorb_all(tree, some, keys);
          if (needs_checkpoint(mode)) {
            auto checkpoint = std::make_shared<Checkpoint>(test_checkpoint(keys));
            if (tree.make_room(Tier::host, checkpoint->bytes.size())) tree.set_checkpoint(some, checkpoint);
          }
          break;
        }
        case 6:
          tree.set_slot(slot, below(random, 3) == 0 ? some : kNoNode);
          break;
        case 7: {
          const NodeId id = tree.next_write(below(random, 2) == 0);
          const Node* node = tree.find(id);
          if (node == nullptr) break;
          const Digest hash = tree.hash_of(id);
          const auto record =
              std::make_shared<DiskRecord>(DiskRecord{.id = hash,
                                                      .start = keeps_rows(mode) ? node->start : 0,
                                                      .end = node->end,
                                                      .bytes = 50 + node->edge.size(),
                                                      .checkpoint = node->checkpoint != nullptr});
          ASSERT_TRUE(tree.set_disk(id, record));
          disk[hash] = {record, tree.path_keys(id)};
          break;
        }
        case 16: {
          const Node* node = tree.find(some);
          if (node == nullptr || !node->disk || !disk.contains(node->disk->id)) break;
          const OnDisk entry = disk.at(node->disk->id);
          const DiskRecord& record = *entry.record;
          std::vector<Part> parts;
          for (std::uint32_t at = record.start; keeps_rows(mode) && at < record.end; at += 7)
            parts.push_back(test_part(std::span(entry.keys).first(std::min(at + 7, record.end)), at));
          const bool damaged = below(random, 4) == 0;
          if (damaged && !parts.empty()) parts.pop_back();
          std::optional<Checkpoint> checkpoint;
          if (record.checkpoint && !damaged) checkpoint = test_checkpoint(entry.keys);
          tree.restore(record.id, parts, std::move(checkpoint));
          if (damaged) {
            disk.erase(record.id);
            tree.forget_record(record.id);
          }
          break;
        }
        case 8:
          files_go(tree.relieve(Tier::host, [&](NodeId) { return random() % 2 == 0; }).records);
          files_go(tree.relieve(Tier::disk).records);
          break;
        case 9: {
          Tree::Dropped dropped;
          tree.make_room(below(random, 2) == 0 ? Tier::host : Tier::disk, below(random, 1000), &dropped);
          files_go(dropped.records);
          break;
        }
        case 10:
          files_go(tree.drop(some).records);
          break;
        case 11:
          files_go(tree.drop_session(below(random, 12)).records);
          break;
        case 12:
          if (held.size() < 3 && tree.find(some) != nullptr) {
            tree.acquire(some);
            held.push_back(some);
          } else if (!held.empty()) {
            tree.release(held.back());
            held.pop_back();
          }
          break;
        case 13:
          if (pinned.size() < 2 && tree.pin(some)) {
            pinned.push_back(some);
          } else if (!pinned.empty()) {
            tree.unpin(pinned.back());
            pinned.pop_back();
          }
          break;
        case 14:
          if (below(random, 2) == 0) {
            tree.merge();
          } else {
            tree.thin_checkpoints(some);
            tree.touch(some, now, true);
          }
          break;
        case 15: {
          if (below(random, 4) > 0) break;
          // A restart: what the disk has comes back, parents first.
          tree = Tree(options);
          known.clear(), held.clear(), pinned.clear();
          std::vector<OnDisk> records;
          for (const auto& [id, entry] : disk) records.push_back(entry);
          std::sort(records.begin(), records.end(),
                    [](const OnDisk& a, const OnDisk& b) { return a.record->end < b.record->end; });
          for (const OnDisk& entry : records)
            tree.adopt(kTestDomain, entry.keys, entry.record, Class::user, {}, false, now);
          break;
        }
      }
      ASSERT_EQ(tree.check(), "");
      ASSERT_LE(tree.used(Tier::host), options.host_budget);
      for (const NodeId id : held) ASSERT_NE(tree.find(id), nullptr) << "I8";
      for (const NodeId id : pinned) ASSERT_NE(tree.find(id), nullptr) << "I8";
      if (step % 10 == 0) {
        ASSERT_EQ(check_content(tree), "");
        tree.each([&](NodeId id, const Node&) {
          const auto keys = tree.path_keys(id);
          const bool was_fed = std::any_of(fed.begin(), fed.end(), [&](const auto& prompt) {
            return common_prefix(prompt, keys) == keys.size();
          });
          EXPECT_TRUE(was_fed) << "I6";
        });
      }
      const Match match = tree.match(kTestDomain, prompt);
      std::vector<Key> keys;
      for (const NodeId id : match.path)
        keys.insert(keys.end(), tree.find(id)->edge.begin(), tree.find(id)->edge.end());
      EXPECT_GE(common_prefix(keys, prompt), match.matched);
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace gezel::kvcache
