// What is kept on disk: incidents, quarantine, log files, pid files.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <latch>
#include <thread>

#include "base/json.h"
#include "base/test_folder.h"
#include "engine/incidents.h"
#include "engine/orphans.h"
#include "engine/quarantine.h"
#include "engine/rolling_log.h"

namespace gezel::engine {
namespace {

class Records : public testing::Test {
 protected:
  ExitSnapshot crash(int signal, bool reached_ready = false) const {
    ExitSnapshot s;
    s.pid = 7;
    s.status = ExitStatus{0, signal};
    s.reached_ready = reached_ready;
    s.exited_at = clock.wall_now();
    conclude(s);
    return s;
  }
  std::string text(const fs::path& path) const { return read_file(path).value_or(""); }

  TestFolder here;
  const fs::path& folder = here.path();
  ManualClock clock;
};

using Quarantined = Records;
const LaunchIdentity kModelA{"cpu", "1000:5", "a", "77:1"};
const LaunchIdentity kModelB{"cpu", "1000:5", "b", "88:1"};

TEST_F(Quarantined, ThreeCrashesBeforeReadyPutOneModelOut) {
  Quarantine quarantine(folder, clock);
  for (int i = 0; i < 2; ++i) {
    quarantine.record_exit(kModelA, crash(SIGSEGV));
    EXPECT_FALSE(quarantine.reason(kModelA));
    clock.advance(Millis(900'000));
  }
  quarantine.record_exit(kModelA, crash(SIGSEGV));
  ASSERT_TRUE(quarantine.reason(kModelA));
  EXPECT_NE(quarantine.reason(kModelA)->find("Segmentation"), std::string::npos);
  EXPECT_FALSE(quarantine.reason(kModelB));
}

TEST_F(Quarantined, Case10_ReadyClearsTheStrikes) {
  Quarantine quarantine(folder, clock);
  for (int i = 0; i < 2; ++i) {
    quarantine.record_exit(kModelA, crash(SIGSEGV));
    clock.advance(Millis(900'000));
  }
  quarantine.record_ready(kModelA);
  quarantine.record_exit(kModelA, crash(SIGSEGV));
  EXPECT_FALSE(quarantine.reason(kModelA));
}

TEST_F(Quarantined, ThreeCrashesWithinTenMinutesCountAlthoughItWasReady) {
  Quarantine quarantine(folder, clock);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(quarantine.reason(kModelA));
    quarantine.record_ready(kModelA);
    quarantine.record_exit(kModelA, crash(SIGSEGV, true));
    clock.advance(Millis(200'000));
  }
  EXPECT_TRUE(quarantine.reason(kModelA));
}

TEST_F(Quarantined, CrashesFarApartDoNotCount) {
  Quarantine quarantine(folder, clock);
  for (int i = 0; i < 10; ++i) {
    quarantine.record_ready(kModelA);
    quarantine.record_exit(kModelA, crash(SIGSEGV, true));
    clock.advance(Millis(301'000));
  }
  EXPECT_FALSE(quarantine.reason(kModelA));
}

TEST_F(Quarantined, AKillFromOutsideIsNoStrike) {
  Quarantine quarantine(folder, clock);
  for (int i = 0; i < 10; ++i) quarantine.record_exit(kModelA, crash(SIGKILL));
  EXPECT_FALSE(quarantine.reason(kModelA));
}

TEST_F(Quarantined, Case9_AnIllegalInstructionPutsTheBuildOutAtOnceAndAReplacedBuildBeginsClean) {
  Quarantine quarantine(folder, clock);
  quarantine.record_exit(kModelA, crash(SIGILL));
  EXPECT_TRUE(quarantine.reason(kModelB));
  auto rebuilt = kModelB;
  rebuilt.binary = "1008:9";
  EXPECT_FALSE(quarantine.reason(rebuilt));
}

TEST_F(Quarantined, TwoStruckModelsWithoutASuccessPutTheBuildOut) {
  Quarantine quarantine(folder, clock);
  for (int i = 0; i < 3; ++i) quarantine.record_exit(kModelA, crash(SIGSEGV));
  for (int i = 0; i < 3; ++i) quarantine.record_exit(kModelB, crash(SIGSEGV));
  EXPECT_TRUE(quarantine.reason({"cpu", "1000:5", "c", "99:1"}));
}

TEST_F(Quarantined, ASuccessInBetweenSavesTheBuild) {
  Quarantine quarantine(folder, clock);
  const LaunchIdentity model_c{"cpu", "1000:5", "c", "99:1"};
  for (int i = 0; i < 3; ++i) quarantine.record_exit(kModelA, crash(SIGSEGV));
  quarantine.record_ready(model_c);
  for (int i = 0; i < 3; ++i) quarantine.record_exit(kModelB, crash(SIGSEGV));
  EXPECT_FALSE(quarantine.reason(model_c));
}

TEST_F(Quarantined, AChangedFileOrAClearLiftsIt) {
  Quarantine quarantine(folder, clock);
  for (int i = 0; i < 3; ++i) quarantine.record_exit(kModelA, crash(SIGSEGV));
  auto changed = kModelA;
  changed.model = "77:2";
  EXPECT_FALSE(quarantine.reason(changed));
  EXPECT_EQ(quarantine.clear("b"), 0U);
  EXPECT_EQ(quarantine.clear("a"), 1U);
  EXPECT_FALSE(quarantine.reason(kModelA));
}

TEST_F(Quarantined, Case11_AReplacedBuildTriesAModelAgainAndTheOldOneDoesNot) {
  Quarantine quarantine(folder, clock);
  for (int i = 0; i < 3; ++i) quarantine.record_exit(kModelA, crash(SIGSEGV));
  auto replaced = kModelA;
  replaced.binary = "1008:9";
  EXPECT_FALSE(quarantine.reason(replaced));
  EXPECT_TRUE(quarantine.reason(kModelA));
}

TEST_F(Quarantined, DamagedFilesCountAsEmpty) {
  Quarantine quarantine(folder, clock);
  for (const auto* content :
       {"", "[]", "{\"schemaVersion\":2,\"entries\":[{}]}", "{\"schemaVersion\":1,\"entries\":[7,{}]}"}) {
    ASSERT_TRUE(write_file_atomic(folder / "unusable.json", content));
    ASSERT_TRUE(write_file_atomic(folder / "strikes.json", content));
    EXPECT_FALSE(quarantine.reason(kModelA)) << content;
    quarantine.record_ready(kModelA);
  }
}

TEST_F(Records, AnIncidentIsOneLineOnDiskWhenAppendReturns) {
  IncidentLog incidents(folder / "logs");
  incidents.append(crash(SIGSEGV));
  incidents.append(crash(SIGABRT));
  const auto content = text(incidents.path());
  EXPECT_EQ(std::ranges::count(content, '\n'), 2);
  const auto first = parse_json(content.substr(0, content.find('\n')));
  ASSERT_TRUE(first);
  EXPECT_EQ(int_or(first->get_object(), "signal", 0), SIGSEGV);
}

TEST_F(Records, LogFilesRollBySizeAndDay) {
  RollingLog log(folder, "gezel-engine", 100);
  const std::string line(60, 'x');
  const auto now = clock.wall_now();
  for (int i = 0; i < 3; ++i) log.write(line, now);
  log.write(line, now + std::chrono::days(1));
  EXPECT_EQ(text(folder / "gezel-engine-2023-11-14.log"), line);
  EXPECT_EQ(text(folder / "gezel-engine-2023-11-14-1.log"), line);
  EXPECT_EQ(text(folder / "gezel-engine-2023-11-14-2.log"), line);
  EXPECT_EQ(text(folder / "gezel-engine-2023-11-15.log"), line);
}

TEST_F(Records, LogFilesOfAWeekAgoAreDeletedWhenADayBegins) {
  ASSERT_TRUE(write_file_atomic(folder / "gezel-engine-2001-01-01.log", "old"));
  ASSERT_TRUE(write_file_atomic(folder / "other-2001-01-01.log", "not ours"));
  RollingLog log(folder, "gezel-engine");
  log.write("x\n", std::chrono::system_clock::now() + std::chrono::days(8));
  EXPECT_FALSE(fs::exists(folder / "gezel-engine-2001-01-01.log"));
  EXPECT_TRUE(fs::exists(folder / "other-2001-01-01.log"));
}

TEST_F(Records, ALogThatCannotBeWrittenStopsQuietly) {
  ASSERT_TRUE(write_file_atomic(folder / "file", ""));
  RollingLog log(folder / "file" / "logs", "gezel-engine");
  log.write("x\n", clock.wall_now());
  EXPECT_TRUE(log.broken());
}

// A process table in memory.
struct FakeTable {
  std::map<std::int64_t, ProcessFacts> alive;
  std::vector<std::int64_t> killed;
  int slept = 0;
  ProcessTable table() {
    return {
        [this](std::int64_t pid) { return alive.contains(pid) ? std::optional(alive[pid]) : std::nullopt; },
        [this](std::int64_t pid) { killed.push_back(pid); },
        [this](Millis) {
          if (++slept == 2) alive.clear();
        }};
  }
};

TEST_F(Records, Case21_AnOrphanIsKilledAndWaitedFor) {
  FakeTable fake;
  fake.alive[4711] = {123, "/opt/gezel-engine"};
  {
    // A daemon that dies leaves the file behind.
    PidFile file(folder, "embedded", "m", 4711, fake.table());
    fs::copy(folder / "runtime", folder / "saved");
  }
  fs::remove_all(folder / "runtime");
  fs::rename(folder / "saved", folder / "runtime");
  EXPECT_EQ(reap_orphans(folder, fake.table()), 1);
  EXPECT_EQ(fake.killed, std::vector<std::int64_t>{4711});
  EXPECT_EQ(fake.slept, 2);
  EXPECT_TRUE(fs::is_empty(folder / "runtime"));
}

TEST_F(Records, Case22_AReusedPidIsLeftAlone) {
  for (const ProcessFacts& other :
       {ProcessFacts{124, "/opt/gezel-engine"}, ProcessFacts{123, "/usr/bin/vim"}}) {
    FakeTable fake;
    fake.alive[4711] = {123, "/opt/gezel-engine"};
    auto file = std::make_unique<PidFile>(folder, "embedded", "m", 4711, fake.table());
    fake.alive[4711] = other;
    EXPECT_EQ(reap_orphans(folder, fake.table()), 0);
    EXPECT_TRUE(fake.killed.empty());
  }
}

TEST_F(Records, DamagedPidFilesAndThoseOfTheDaemonAreHarmless) {
  fs::create_directory(folder / "runtime");
  ASSERT_TRUE(write_file_atomic(folder / "runtime" / "embedded-1.pid", "nonsense"));
  ASSERT_TRUE(write_file_atomic(folder / "runtime" / "embedded-2.pid", "{\"pid\":-1}"));
  ASSERT_TRUE(write_file_atomic(folder / "runtime" / "pid", "1\n"));
  FakeTable fake;
  EXPECT_EQ(reap_orphans(folder, fake.table()), 0);
  EXPECT_TRUE(fs::exists(folder / "runtime" / "pid"));
  EXPECT_EQ(reap_orphans(folder / "nowhere", fake.table()), 0);
}

TEST(ProcessFactsOfOurselves, NameThisProgram) {
  const auto facts = process_facts(::getpid());
  ASSERT_TRUE(facts);
  EXPECT_GT(facts->start_time, 0U);
  EXPECT_EQ(facts->program, fs::read_symlink("/proc/self/exe"));
  EXPECT_FALSE(process_facts(0x7fffffff));
}

// Runs `in_child` in a process of its own and tells what it returned.
template <class Call>
int in_child(Call call) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(call());
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Process, EveryThreadGetsTheNiceValue) {
  const int answer = in_child([] {
    std::latch started(1), done(1);
    std::atomic<int> seen{-1};
    std::thread other([&] {
      started.count_down();
      done.wait();
      seen = ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()));
    });
    started.wait();
    const bool set = set_nice(::getpid(), 7);
    done.count_down();
    other.join();
    return set && seen == 7 && nice_of(::getpid()) == 7 ? 0 : 1;
  });
  EXPECT_EQ(answer, 0);
}

TEST(Process, ARefusalToRaiseThePriorityIsSaid) {
  const int answer = in_child([] {
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_NICE, &none);
    if (::getuid() == 0 && ::setuid(65'534) != 0) return 2;
    if (!set_nice(::getpid(), 5)) return 3;
    return !set_nice(::getpid(), 0) && nice_of(::getpid()) == 5 ? 0 : 1;
  });
  EXPECT_EQ(answer, 0);
}

TEST(Process, AGoneProcessNeedsNoNiceValue) {
  EXPECT_TRUE(set_nice(0x7fffffff, 5));
}

}  // namespace
}  // namespace gezel::engine
