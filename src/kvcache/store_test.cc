#include "kvcache/store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <fstream>
#include <random>

#include "base/test_folder.h"
#include "base/test_unprivileged.h"
#include "kvcache/test_record.h"

namespace gezel::kvcache {
namespace {

constexpr MonotonicTime kNow{std::chrono::hours(1000)};

class StoreTest : public testing::Test {
 protected:
  Store store(int fingerprint = 1) {
    return Store({.root = folder_.path() / "kv",
                  .fingerprint = digest(fingerprint),
                  .free_bytes = [this](const fs::path&) { return free_; }},
                 clock_);
  }
  std::vector<std::byte> bytes_of(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
  }
  void overwrite(const fs::path& path, std::span<const std::byte> bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  static unsigned mode_of(const fs::path& path) {
    struct stat info{};
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
    return info.st_mode & 07777;
  }

  TestFolder folder_;
  ManualClock clock_;
  std::optional<Bytes> free_ = 100 * kGiB;
  const std::vector<Key> path_ = counted(150);
  const std::span<const Key> keys_ = std::span(path_).subspan(50);
  const Digest own_ = prefix_hash(kTestDomain, path_);
};

TEST_F(StoreTest, GivesBackWhatWasWritten) {
  Store files = store();
  const auto checkpoint = std::make_shared<const Checkpoint>(test_checkpoint(path_));
  const EncodedRecord record = encoded(path_, 50, checkpoint);
  ASSERT_TRUE(files.write(record)) << files.last_trouble();
  const auto loaded = files.load(own_, keys_, test_layout());
  ASSERT_TRUE(loaded) << files.last_trouble();
  EXPECT_TRUE(loaded->complete);
  ASSERT_EQ(loaded->parts.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(loaded->parts[i]->bytes, part_of(record, i)->bytes);
  ASSERT_TRUE(loaded->checkpoint);
  EXPECT_EQ(loaded->checkpoint->bytes, checkpoint->bytes);
}

TEST_F(StoreTest, APinReachesTheRecordThatIsThereAlready) {
  Store files = store();
  EXPECT_FALSE(files.set_pinned(own_, true)) << "there is none";
  ASSERT_TRUE(files.write(encoded(path_, 50)));
  ASSERT_TRUE(files.set_pinned(own_, true)) << files.last_trouble();
  Store later = store();
  const auto entry = later.next_of_index();
  ASSERT_TRUE(entry);
  EXPECT_TRUE(entry->header.pinned);
  ASSERT_TRUE(later.load(own_, keys_, test_layout()));
  EXPECT_EQ(later.statistics().corrupt, 0U);
}

TEST_F(StoreTest, FilesAreForTheirOwnerAlone) {
  Store files = store();
  ASSERT_TRUE(files.write(encoded(path_, 50)));
  const fs::path file = files.file_of(own_);
  EXPECT_EQ(mode_of(file), 0600U);
  for (fs::path folder = file.parent_path(); folder != folder_.path(); folder = folder.parent_path())
    EXPECT_EQ(mode_of(folder), 0700U) << folder;
  EXPECT_EQ(file.filename().string().size(), 36U);
  EXPECT_EQ(file.parent_path().filename().string(), hex(own_).substr(0, 2));
  EXPECT_EQ(file.parent_path().parent_path().filename().string().size(), 24U);
}

TEST_F(StoreTest, AnyFlippedByteIsAMissAndTheFileGoes) {
  Store files = store();
  const fs::path file = files.file_of(own_);
  ASSERT_TRUE(files.write(encoded(path_, 50)));
  const auto good = bytes_of(file);
  const auto header = parse_record_header(std::span(good).first(*record_header_bytes(good)));
  ASSERT_TRUE(header);
  std::mt19937 random(1);
  for (std::size_t at = 0; at < good.size(); at += 1 + random() % 7) {
    bool padding = at >= header->header_bytes;
    for (std::size_t i = 0; i < header->parts.size(); ++i)
      padding = padding && (at < header->offset(i) || at >= header->offset(i) + header->parts[i].bytes);
    if (padding) continue;
    auto bad = good;
    bad[at] ^= std::byte{0x10};
    overwrite(file, bad);
    const auto loaded = files.load(own_, keys_, test_layout());
    ASSERT_TRUE(!loaded || !loaded->complete) << at;
    ASSERT_FALSE(fs::exists(file)) << at;
  }
  EXPECT_GT(files.statistics().corrupt, 100U);
}

TEST_F(StoreTest, ATruncatedFileIsAMissAndGoes) {
  Store files = store();
  const fs::path file = files.file_of(own_);
  ASSERT_TRUE(files.write(encoded(path_, 50)));
  const auto good = bytes_of(file);
  for (std::size_t size = 0; size < good.size(); size += 37) {
    overwrite(file, std::span(good).first(size));
    ASSERT_FALSE(files.load(own_, keys_, test_layout()));
    ASSERT_FALSE(fs::exists(file)) << size;
  }
}

TEST_F(StoreTest, TheLeadingPartsOfADamagedRecordAreStillGood) {
  Store files = store();
  const fs::path file = files.file_of(own_);
  ASSERT_TRUE(files.write(encoded(path_, 50)));
  auto bytes = bytes_of(file);
  bytes.back() ^= std::byte{1};
  overwrite(file, bytes);
  const auto loaded = files.load(own_, keys_, test_layout());
  ASSERT_TRUE(loaded);
  EXPECT_FALSE(loaded->complete);
  EXPECT_EQ(loaded->parts.size(), 2U);
  EXPECT_EQ(files.statistics().corrupt, 1U);
}

TEST_F(StoreTest, AnotherFingerprintIsNeverRead) {
  Store files = store(1), others = store(2);
  ASSERT_TRUE(files.write(encoded(path_, 50)));
  EXPECT_FALSE(others.load(own_, keys_, test_layout()));
  // Even if the file lies in the wrong folder.
  fs::create_directories(others.file_of(own_).parent_path());
  fs::copy_file(files.file_of(own_), others.file_of(own_));
  EXPECT_FALSE(others.load(own_, keys_, test_layout()));
  EXPECT_FALSE(others.next_of_index());
  EXPECT_TRUE(fs::exists(others.file_of(own_))) << "not ours to delete";
}

TEST_F(StoreTest, OtherTokensUnderTheSameHashAreAMiss) {
  Store files = store();
  ASSERT_TRUE(files.write(encoded(path_, 50)));
  auto keys = counted(150);
  keys[120] = 99999;
  EXPECT_FALSE(files.load(own_, std::span(keys).subspan(50), test_layout()));
  EXPECT_TRUE(files.load(own_, keys_, test_layout()));
}

TEST_F(StoreTest, RowsOfAnotherSizeAreAMiss) {
  Store files = store();
  ASSERT_TRUE(files.write(encoded(path_, 50)));
  ImageLayout layout = test_layout();
  layout.rows.keys[0].row_bytes = 16;
  const auto loaded = files.load(own_, keys_, layout);
  EXPECT_TRUE(!loaded || (loaded->parts.empty() && !loaded->complete));
}

TEST_F(StoreTest, ADiskThatFillsUpCostsTheRecordOnly) {
  Store files = store();
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{}, small{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  small = limit;
  small.rlim_cur = 1000;
  ::setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_FALSE(files.write(encoded(path_, 50)));
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, before);
  EXPECT_EQ(files.statistics().write_errors, 1U);
  EXPECT_FALSE(files.load(own_, keys_, test_layout()));
  EXPECT_TRUE(fs::is_empty(files.file_of(own_).parent_path())) << "nothing half written stays";
  EXPECT_FALSE(files.write(encoded(path_, 50))) << "not tried again at once";
  clock_.advance(Millis(60'000));
  EXPECT_TRUE(files.write(encoded(path_, 50)));
}

TEST_F(StoreTest, LeavesOneGibibyteFree) {
  Store files = store();
  free_ = kGiB + encoded(path_, 50).bytes() - 1;
  EXPECT_FALSE(files.write(encoded(path_, 50)));
  EXPECT_EQ(files.statistics().no_space, 1U);
  clock_.advance(Millis(60'000));
  free_.reset();
  EXPECT_FALSE(files.write(encoded(path_, 50))) << "unknown is not enough";
  clock_.advance(Millis(60'000));
  free_ = kGiB + encoded(path_, 50).bytes();
  EXPECT_TRUE(files.write(encoded(path_, 50)));
}

TEST_F(StoreTest, ARootThatCannotBeUsedCostsSpeedOnly) {
  folder_.write("kv", "a file where the folder should be");
  Store files = store();
  EXPECT_FALSE(files.write(encoded(path_, 50)));
  EXPECT_FALSE(files.load(own_, keys_, test_layout()));
  EXPECT_FALSE(files.next_of_index());
  EXPECT_EQ(files.statistics().write_errors, 1U);
}

TEST_F(StoreTest, AVanishedFileIsAMiss) {
  Store files = store();
  ASSERT_TRUE(files.write(encoded(path_, 50)));
  EXPECT_TRUE(files.remove(own_));
  EXPECT_FALSE(files.load(own_, keys_, test_layout()));
  EXPECT_EQ(files.statistics().vanished, 1U);
}

TEST_F(StoreTest, FollowsNoLinks) {
  Store files = store();
  ASSERT_TRUE(files.write(encoded(path_, 50)));
  const fs::path file = files.file_of(own_), elsewhere = folder_.path() / "elsewhere";
  fs::rename(file, elsewhere);
  fs::create_symlink(elsewhere, file);
  EXPECT_FALSE(files.load(own_, keys_, test_layout()));
}

TEST_F(StoreTest, RemovesTemporaryFilesOfACrashAfterAnHour) {
  const fs::path shelf = store().file_of(own_).parent_path();
  fs::create_directories(shelf);
  const auto make = [&](const char* name, int age_s) {
    std::ofstream(shelf / name) << "half";
    const auto when =
        std::chrono::duration_cast<std::chrono::seconds>(clock_.wall_now().time_since_epoch()).count();
    const timespec times[2] = {{when - age_s, 0}, {when - age_s, 0}};
    ::utimensat(AT_FDCWD, (shelf / name).c_str(), times, 0);
  };
  make(".tmp-1-0", 3700);
  make(".tmp-1-1", 3500);
  store();
  EXPECT_FALSE(fs::exists(shelf / ".tmp-1-0"));
  EXPECT_TRUE(fs::exists(shelf / ".tmp-1-1"));
}

TEST_F(StoreTest, TheIndexBringsATreeBack) {
  {
    Store files = store();
    ASSERT_TRUE(files.write(encoded(path_, 50)));
    ASSERT_TRUE(files.write(encoded(counted(50), 0)));
    ASSERT_TRUE(
        files.write(encoded(joined(counted(77, 500), counted(20)), 77)));  // its parent was never written
    overwrite(files.file_of(digest(200)), {});
    fs::create_directories(files.file_of(digest(201)).parent_path());
    overwrite(files.file_of(digest(201)), std::as_bytes(std::span("GKVS", 4)));
  }
  Store files = store();
  std::vector<IndexEntry> entries;
  while (auto entry = files.next_of_index()) entries.push_back(std::move(*entry));
  EXPECT_EQ(entries.size(), 3U);
  EXPECT_EQ(files.statistics().corrupt, 1U);
  EXPECT_FALSE(fs::exists(files.file_of(digest(201))));
  Tree tree({.mode = Mode::full, .host_budget = kMiB, .disk_budget = kMiB});
  const auto found = adopt_index(tree, kTestDomain, std::move(entries), kNow, clock_.wall_now());
  EXPECT_EQ(found.left.size(), 1U);
  EXPECT_TRUE(found.useless.empty());
  EXPECT_EQ(tree.match(kTestDomain, path_).matched, 150U);
  EXPECT_EQ(tree.check(), "");
  const NodeId tip = tree.match(kTestDomain, path_).path.back();
  const auto loaded = files.load(tree.find(tip)->disk->id, keys_, test_layout());
  ASSERT_TRUE(loaded);
  std::vector<Piece> rows;
  for (const Part& part : loaded->parts) rows.push_back({part, 0, part->tokens});
  EXPECT_TRUE(tree.set_rows(tip, rows));
  EXPECT_EQ(check_content(tree), "");
}

TEST_F(StoreTest, ANodeGoesToDiskAndComesBack) {
  for (const Mode mode : {Mode::full, Mode::hybrid, Mode::recurrent}) {
    Tree tree({.mode = mode, .host_budget = kMiB, .disk_budget = kMiB});
    const auto keys = counted(150, static_cast<Key>(mode) * 1000 + 1);
    const NodeId id = tree.commit(kTestDomain, keys, 150, Class::user, 0, kNow);
    absorb_all(tree, id, keys);
    if (needs_checkpoint(mode)) tree.set_checkpoint(id, std::make_shared<Checkpoint>(test_checkpoint(keys)));
    Store files = store();
    const Node* node = tree.find(id);
    const auto record =
        encode_record(record_header(tree, id, digest(1), mode), test_layout(), node->rows, node->checkpoint);
    ASSERT_TRUE(record) << record.error().message;
    ASSERT_TRUE(files.write(*record));
    ASSERT_TRUE(tree.set_disk(id, disk_ref(*record)));
    EXPECT_EQ(tree.used(Tier::disk), fs::file_size(files.file_of(record->header.own)));
    tree.set_slot(0, kNoNode);
    tree.set_budget(Tier::host, 0);
    tree.relieve(Tier::host);
    ASSERT_FALSE(tree.find(id)->has_host());
    // The node is split while the record is read.
    if (keeps_rows(mode))
      tree.commit(kTestDomain, joined(head_of(keys, 90), counted(9, 70000)), 99, Class::user, 1, kNow);
    tree.set_budget(Tier::host, kMiB);
    auto loaded = files.load(record->header.own, keys, test_layout());
    ASSERT_TRUE(loaded);
    EXPECT_GT(tree.restore(record->header.own, loaded->parts, std::move(loaded->checkpoint)), 0U);
    EXPECT_TRUE(tree.find(id)->has_host());
    EXPECT_EQ(tree.find(id)->checkpoint != nullptr, needs_checkpoint(mode));
    EXPECT_EQ(check_content(tree), "");
    EXPECT_EQ(tree.check(), "");
  }
}

TEST_F(StoreTest, ADamagedRecordLeavesItsGoodPartsToTheTree) {
  Tree tree({.mode = Mode::full, .host_budget = kMiB, .disk_budget = kMiB});
  const auto keys = counted(100);
  const EncodedRecord record = encoded(keys, 0);  // 40, 30 and 30 tokens
  ASSERT_TRUE(tree.adopt(kTestDomain, keys, disk_ref(record), Class::user, {}, false, kNow));
  const std::vector<Part> good = {part_of(record, 0), part_of(record, 1)};
  EXPECT_GT(tree.restore(record.header.own, good, std::nullopt), 0U);
  tree.forget_record(record.header.own);
  EXPECT_EQ(tree.match(kTestDomain, keys).matched, 70U);
  EXPECT_EQ(tree.used(Tier::disk), 0U);
  EXPECT_EQ(check_content(tree), "");
  EXPECT_EQ(tree.check(), "");
}

TEST_F(StoreTest, ARecordThatHangsInsideAnotherIsFoundAgain) {
  const auto trunk = counted(150), branch = joined(counted(70), counted(30, 500));
  const auto twig = joined(branch, counted(30, 700));
  std::vector<IndexEntry> entries;
  for (const RecordHeader& header : {header_of(twig, 100), header_of(branch, 70), header_of(trunk, 0)})
    entries.push_back({.header = header, .bytes = 10});
  Tree tree({.mode = Mode::full, .host_budget = kMiB, .disk_budget = kMiB});
  const auto found = adopt_index(tree, kTestDomain, entries, kNow, clock_.wall_now());
  EXPECT_TRUE(found.left.empty() && found.useless.empty());
  EXPECT_EQ(tree.match(kTestDomain, trunk).matched, 150U);
  EXPECT_EQ(tree.match(kTestDomain, twig).matched, 130U);
  EXPECT_EQ(tree.check(), "");
}

TEST_F(StoreTest, PruningTakesTheEndOfAPromptBeforeItsHead) {
  Store files = store();
  const EncodedRecord head = encoded(counted(50), 0), tail = encoded(path_, 50);
  ASSERT_TRUE(files.write(head));
  ASSERT_TRUE(files.write(tail));
  const Digest used[] = {own_, head.header.own};
  files.touch(used);
  EXPECT_EQ(prune_records(folder_.path() / "kv", head.bytes() + 1).removed, 1U);
  EXPECT_TRUE(fs::exists(files.file_of(head.header.own)));
  EXPECT_FALSE(fs::exists(files.file_of(own_)));
}

TEST_F(StoreTest, ForgettingASessionRemovesWhatOnlyItHasInEveryFolder) {
  constexpr std::uint64_t kSession = 5;
  std::vector<fs::path> gone, stay;
  int number = 0;
  for (const int fingerprint : {1, 2}) {
    Store files = store(fingerprint);
    const auto write = [&](std::vector<std::uint64_t> tags, bool shared, bool pinned) {
      auto header = header_of(counted(40 + ++number), 0);
      header.fingerprint = digest(fingerprint);
      header.tags = std::move(tags);
      header.shared = shared;
      header.pinned = pinned;
      const std::vector<Piece> rows{{test_part(counted(40 + number), 0), 0, header.end}};
      const auto record = encode_record(header, test_layout(), rows, nullptr);
      EXPECT_TRUE(record && files.write(*record));
      return files.file_of(header.own);
    };
    gone.push_back(write({kSession}, false, false));
    stay.push_back(write({kSession, 6}, false, false));
    stay.push_back(write({6}, false, false));
    stay.push_back(write({}, false, false));
    stay.push_back(write({kSession}, true, false));
    stay.push_back(write({kSession}, false, true));
  }
  const auto removed = forget_session_records(folder_.path() / "kv", kSession);
  ASSERT_TRUE(removed) << removed.error().message;
  EXPECT_EQ(*removed, 2U);
  for (const auto& path : gone) EXPECT_FALSE(fs::exists(path)) << path;
  for (const auto& path : stay) EXPECT_TRUE(fs::exists(path)) << path;
}

TEST_F(StoreTest, ForgettingASessionSaysWhenSomethingStays) {
  auto header = header_of(path_, 50);
  Store files = store();
  ASSERT_TRUE(files.write(encoded(path_, 50)));
  const fs::path folder = files.file_of(header.own).parent_path();
  EXPECT_EQ(forget_session_records(folder_.path() / "kv", 11).value_or(9), 0U) << "two have it";
  EXPECT_EQ(forget_session_records(folder_.path() / "nothing", 11).value_or(9), 0U);
  header.tags = {11};
  const std::vector<Piece> rows{{test_part(path_, 50), 0, header.end - header.start}};
  const auto record = encode_record(header, test_layout(), rows, nullptr);
  ASSERT_TRUE(record && files.write(*record));
  fs::permissions(folder, fs::perms::owner_read | fs::perms::owner_exec);
  {
    const Unprivileged user(folder_.path());
    EXPECT_FALSE(forget_session_records(folder_.path() / "kv", 11));
  }
  fs::permissions(folder, fs::perms::owner_all);
}

class PruneTest : public testing::Test {
 protected:
  fs::path file(const std::string& name, std::size_t size, int mtime) {
    const fs::path path = folder_.write(name, std::string(size, 'x'));
    const timespec times[2] = {{mtime, 0}, {mtime, 0}};
    ::utimensat(AT_FDCWD, path.c_str(), times, 0);
    return path;
  }
  TestFolder folder_;
  const std::string a_ = std::string(24, 'a') + "/0f/", b_ = std::string(24, 'b') + "/1f/";
};

TEST_F(PruneTest, RemovesTheOldestUntilTheBudgetHolds) {
  const fs::path first = file(a_ + std::string(32, '1') + ".gkv", 300, 10);
  const fs::path second = file(b_ + std::string(32, '2') + ".gkv", 200, 20);
  const fs::path third = file(a_ + std::string(32, '3') + ".gkv", 400, 30);
  const PruneReport report = prune_records(folder_.path(), 500);
  EXPECT_EQ(report.before, 900U);
  EXPECT_EQ(report.after, 400U);
  EXPECT_EQ(report.removed, 2U);
  EXPECT_FALSE(fs::exists(first));
  EXPECT_FALSE(fs::exists(folder_.path() / std::string(24, 'b'))) << "its last record went";
  EXPECT_TRUE(fs::exists(third));
  EXPECT_EQ(prune_records(folder_.path(), 0).removed, 0U) << "0 is no limit";
}

TEST_F(PruneTest, TouchesNothingThatIsNotARecord) {
  const fs::path notes = file(a_ + "notes.txt", 500, 1);
  const fs::path outside = file("outside/0f/" + std::string(32, '1') + ".gkv", 500, 1);
  fs::create_directory_symlink(folder_.path() / "outside", folder_.path() / std::string(24, 'c'));
  file(a_ + std::string(32, '2') + ".gkv", 10, 5);
  const PruneReport report = prune_records(folder_.path(), 1);
  EXPECT_EQ(report.before, 10U);
  EXPECT_EQ(report.removed, 1U);
  EXPECT_TRUE(fs::exists(notes));
  EXPECT_TRUE(fs::exists(outside));
}

}  // namespace
}  // namespace gezel::kvcache
