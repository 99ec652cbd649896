#include "service/runtime_files.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/test_folder.h"
#include "base/test_unprivileged.h"
#include "service/os.h"

namespace gezel::service {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A process that only waits, until this object goes.
class Sleeper {
 public:
  Sleeper() {
    int pipe_ends[2];
    if (::pipe(pipe_ends) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(pipe_ends[1]);
      char byte = 0;
      [[maybe_unused]] const auto got = ::read(pipe_ends[0], &byte, 1);  // until the parent closes its end
      ::_exit(0);
    }
    ::close(pipe_ends[0]);
    end_ = Fd(pipe_ends[1]);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  ~Sleeper() { finish(); }
  pid_t finish() {
    end_.reset();
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
    return std::exchange(pid_, -1);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  Fd end_;
};

class Lock : public ::testing::Test {
 protected:
  void write_lock(std::string_view text) { home.write("runtime/lock", text); }
  std::string lock_text() { return read_file(path).value_or("<absent>"); }
  std::string own() { return fmt::format("{}\n", ::getpid()); }
  unsigned mode(const fs::path& file) {
    struct stat info{};
    ::stat(file.c_str(), &info);
    return info.st_mode & 0777;
  }

  TestFolder home;
  fs::path path = home.path() / "runtime/lock";
};

TEST_F(Lock, IsTakenWhenThereIsNoneAndRemovedAtTheEnd) {
  {
    const auto lock = InstanceLock::acquire(home.path());
    ASSERT_TRUE(lock) << lock.error().message;
    EXPECT_EQ(lock_text(), own());
    EXPECT_EQ(mode(path), 0600U);
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(Lock, OfALivingProcessIsRefusedAndStaysIntact) {
  const Sleeper other;
  write_lock(fmt::format("{}\n", other.pid()));
  const auto lock = InstanceLock::acquire(home.path());
  ASSERT_FALSE(lock);
  EXPECT_EQ(lock.error().code, "already_running");
  EXPECT_THAT(lock.error().message, HasSubstr(fmt::format("pid {}", other.pid())));
  EXPECT_THAT(lock.error().message, HasSubstr("GEZEL_HOME"));
  EXPECT_EQ(lock_text(), fmt::format("{}\n", other.pid()));
}

TEST_F(Lock, OfADeadProcessIsReclaimed) {
  Sleeper other;
  write_lock(fmt::format("{}\n", other.finish()));
  ASSERT_TRUE(InstanceLock::acquire(home.path()));
}

TEST_F(Lock, OfAProcessThatGotAnOldPidIsReclaimed) {
  const Sleeper other;
  write_lock(fmt::format("{}\n", other.pid()));
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(24 * 400));
  EXPECT_TRUE(InstanceLock::acquire(home.path()));
}

TEST_F(Lock, WithoutANumberIsReclaimed) {
  for (const std::string_view text : {"", "\n", "abc\n", "-5\n", "12 34\n", "99999999999999999999\n"}) {
    write_lock(text);
    EXPECT_TRUE(InstanceLock::acquire(home.path())) << text;
  }
}

TEST_F(Lock, OfOurOwnPidFromAnEarlierCrashIsReclaimed) {
  write_lock(own());
  EXPECT_TRUE(InstanceLock::acquire(home.path()));
}

TEST_F(Lock, IsNotGivenTwiceWithinOneProcess) {
  const auto first = InstanceLock::acquire(home.path());
  ASSERT_TRUE(first);
  EXPECT_FALSE(InstanceLock::acquire(home.path()));
  EXPECT_EQ(lock_text(), own());
}

TEST_F(Lock, HeldButStillEmptyIsRefused) {
  write_lock("");
  const Fd holder(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(holder.get(), LOCK_EX | LOCK_NB), 0);
  const auto lock = InstanceLock::acquire(home.path());
  ASSERT_FALSE(lock);
  EXPECT_THAT(lock.error().message, HasSubstr("pid unknown"));
}

TEST_F(Lock, ThatIsALinkIsReplacedAndNotFollowed) {
  const fs::path victim = home.write("victim", "precious");
  fs::create_directories(path.parent_path());
  fs::create_symlink(victim, path);
  ASSERT_TRUE(InstanceLock::acquire(home.path()));
  EXPECT_EQ(read_file(victim).value(), "precious");
}

TEST_F(Lock, ThatCannotBeReplacedNamesItsPath) {
  home.write("runtime/lock/in-the-way", "x");
  const auto lock = InstanceLock::acquire(home.path());
  ASSERT_FALSE(lock);
  EXPECT_THAT(lock.error().message, HasSubstr(path.string()));
  EXPECT_THAT(lock.error().message, HasSubstr("pid -1"));
}

TEST_F(Lock, ReleaseKeepsAFileThatNamesSomebodyElse) {
  auto lock = InstanceLock::acquire(home.path());
  ASSERT_TRUE(lock);
  write_lock("1\n");
  lock->release();
  EXPECT_EQ(lock_text(), "1\n");
}

TEST_F(Lock, ReleaseRemovesAnEmptiedFile) {
  auto lock = InstanceLock::acquire(home.path());
  ASSERT_TRUE(lock);
  write_lock("");
  lock->release();
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(Lock, IsHeldFromItsTakingToItsRelease) {
  EXPECT_FALSE(InstanceLock::is_held(home.path()));
  auto lock = InstanceLock::acquire(home.path());
  ASSERT_TRUE(lock);
  EXPECT_TRUE(InstanceLock::is_held(home.path()));
  lock->release();
  EXPECT_FALSE(InstanceLock::is_held(home.path()));
}

TEST_F(Lock, IsNotHeldByAFileThatNamesALivingProcess) {
  const Sleeper other;
  write_lock(fmt::format("{}\n", other.pid()));
  EXPECT_FALSE(InstanceLock::is_held(home.path()));
}

TEST_F(Lock, MovesWithItsObject) {
  auto first = InstanceLock::acquire(home.path());
  ASSERT_TRUE(first);
  {
    const InstanceLock second = std::move(*first);
    first->release();
    EXPECT_TRUE(fs::exists(path));
  }
  EXPECT_FALSE(fs::exists(path));
}

class RuntimeFiles : public Lock {
 protected:
  std::string text(std::string_view name) {
    return read_file(home.path() / "runtime" / name).value_or("<absent>");
  }
};

TEST_F(RuntimeFiles, HoldWhatAClientNeeds) {
  ASSERT_TRUE(write_runtime_files(home.path(), 6228, "secret"));
  EXPECT_EQ(text("port"), "6228\n");
  EXPECT_EQ(text("pid"), own());
  EXPECT_EQ(text("auth-token"), "secret");
  EXPECT_EQ(text("service-role"), "user\n");
  for (const char* name : {"port", "pid", "auth-token", "service-role"})
    EXPECT_EQ(mode(home.path() / "runtime" / name), 0600U);
  const auto address = find_daemon(home.path());
  ASSERT_TRUE(address) << address.error().message;
  EXPECT_EQ(address->port, 6228);
  EXPECT_EQ(address->token, "secret");
  EXPECT_EQ(address->pid, ::getpid());
}

TEST_F(RuntimeFiles, ModesDoNotDependOnTheUmask) {
  fs::create_directories(home.path() / "runtime");
  const mode_t before = ::umask(0777);
  const auto written = write_runtime_files(home.path(), 1, "x");
  ::umask(before);
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_EQ(mode(home.path() / "runtime/auth-token"), 0600U);
  EXPECT_EQ(mode(home.path() / "runtime/port"), 0600U);
}

TEST_F(RuntimeFiles, AStartWithoutTlsRemovesTheCertificate) {
  home.write("runtime/cert.pem", "old");
  home.write("runtime/cert-fingerprint", "old");
  ASSERT_TRUE(write_runtime_files(home.path(), 1, "x"));
  EXPECT_EQ(text("cert.pem"), "<absent>");
  EXPECT_EQ(text("cert-fingerprint"), "<absent>");
}

TEST_F(RuntimeFiles, APlantedTokenFileIsReplacedNotWrittenThrough) {
  const fs::path victim = home.write("victim", "precious");
  fs::create_directories(home.path() / "runtime");
  fs::create_symlink(victim, home.path() / "runtime/auth-token");
  ASSERT_TRUE(write_runtime_files(home.path(), 1, "secret"));
  EXPECT_EQ(read_file(victim).value(), "precious");
  EXPECT_FALSE(fs::is_symlink(home.path() / "runtime/auth-token"));
}

TEST_F(RuntimeFiles, AreGoneAfterAGracefulStop) {
  ASSERT_TRUE(write_runtime_files(home.path(), 1, "x"));
  remove_runtime_files(home.path());
  EXPECT_TRUE(fs::is_empty(home.path() / "runtime"));
  EXPECT_EQ(find_daemon(home.path()).error().code, "daemon_unreachable");
}

TEST_F(RuntimeFiles, OfAKilledDaemonLeadNowhere) {
  ASSERT_TRUE(write_runtime_files(home.path(), 1, "x"));
  Sleeper other;
  home.write("runtime/pid", fmt::format("{}\n", other.finish()));
  EXPECT_EQ(find_daemon(home.path()).error().code, "daemon_unreachable");
}

TEST_F(RuntimeFiles, DamagedOnesLeadNowhere) {
  for (const std::string_view port : {"", "0\n", "70000\n", "62 28\n", "x\n"}) {
    ASSERT_TRUE(write_runtime_files(home.path(), 6228, "x"));
    home.write("runtime/port", port);
    EXPECT_FALSE(find_daemon(home.path())) << port;
  }
}

TEST(Home, IsTheVariableOrAFolderInTheUsersHome) {
  EXPECT_EQ(default_home("/srv/gezel", "/home/iris", "/home/other"), "/srv/gezel");
  EXPECT_EQ(default_home("", "/home/iris", "/home/other"), "/home/iris/.gezel");
  EXPECT_EQ(default_home(nullptr, "/home/iris", std::nullopt), "/home/iris/.gezel");
}

TEST(Home, WithoutTheVariableIsWhatTheListOfUsersSays) {
  EXPECT_EQ(default_home(nullptr, nullptr, "/home/iris"), "/home/iris/.gezel");
  EXPECT_EQ(default_home("", "", "/home/iris"), "/home/iris/.gezel");
}

TEST(Home, ThatNobodyKnowsIsAnErrorWithItsRemedy) {
  for (const char* unset : {static_cast<const char*>(nullptr), ""}) {
    const auto home = default_home(unset, unset, std::nullopt);
    ASSERT_FALSE(home);
    EXPECT_EQ(home.error().code, "no_home");
    EXPECT_THAT(home.error().message, HasSubstr("GEZEL_HOME"));
  }
}

TEST(Home, OfThisUserIsInTheListOfUsers) {
  const passwd* entry = ::getpwuid(::geteuid());
  EXPECT_EQ(user_folder(), entry == nullptr ? std::nullopt : std::optional<std::string>(entry->pw_dir));
}

class UnreadableHome : public Lock {
 protected:
  // Nobody may look into `folder` of the home, not even its owner.
  void close(const fs::path& folder) { fs::permissions(closed_ = folder, fs::perms::none); }
  ~UnreadableHome() override {
    std::error_code ignored;
    fs::permissions(closed_, fs::perms::owner_all, ignored);
  }
  fs::path closed_;
};

TEST_F(UnreadableHome, IsNamedWithReasonAndRemedy) {
  close(home.path());
  const Unprivileged me(home.path());
  const auto checked = check_home(home.path());
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, "home_unreadable");
  EXPECT_THAT(checked.error().message,
              StartsWith(fmt::format("cannot read {}: permission denied; ", home.path().string())));
  EXPECT_THAT(checked.error().message, HasSubstr("GEZEL_HOME"));
}

TEST_F(UnreadableHome, IsNoDaemonThatDoesNotRun) {
  ASSERT_TRUE(write_runtime_files(home.path(), 1, "x"));
  close(home.path() / "runtime");
  const Unprivileged me(home.path());
  const auto daemon = find_daemon(home.path());
  ASSERT_FALSE(daemon);
  EXPECT_EQ(daemon.error().code, "home_unreadable");
  EXPECT_THAT(daemon.error().message, HasSubstr((home.path() / "runtime").string()));
}

TEST_F(RuntimeFiles, WhatACrashLeftOfOthersIsRemovedOnceItIsOld) {
  const fs::path old = home.write("runtime/.port.tmp-4711-0", "half"),
                 fresh = home.write(".config.json.tmp-Ab12xY", "half");
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(2));
  remove_leftovers(home.path());
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(fresh)) << "somebody may be writing it";
}

TEST_F(RuntimeFiles, AHomeThatDoesNotExistYetCanBeRead) {
  EXPECT_TRUE(check_home(home.path() / "later"));
}

TEST_F(RuntimeFiles, AFileInPlaceOfTheHomeIsNamed) {
  const fs::path file = home.write("file", "x");
  const auto checked = check_home(file);
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message,
              StartsWith(fmt::format("cannot read {}: not a directory", file.string())));
}

}  // namespace
}  // namespace gezel::service
