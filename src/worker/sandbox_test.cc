// Each test locks a child process down and lets it try to break out; the child reports errno of every
// attempt.
#include "worker/sandbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

#include "base/process.h"
#include "base/test_folder.h"
#include "llama/llama.h"
#include "system/process_usage.h"

namespace gezel::worker {
namespace {

namespace fs = std::filesystem;

// Of a call that answers -1 or null for failure.
int outcome(long result) {
  return result == -1 ? errno : 0;
}

// A model, a neighbour that is none of the worker's business, a cache folder and a server that listens.
struct World {
  World() {
    model = (folder / "model.gguf").string();
    secret = (folder / "secret.txt").string();
    cache = (folder / "cache").string();
    std::ofstream(model) << "weights";
    std::ofstream(secret) << "secret";
    fs::create_directory(cache);
  }
  TestFolder here;
  const fs::path& folder = here.path();
  std::string model, secret, cache;
};

using Report = std::map<std::string, int>;
using Attempt = std::pair<const char*, std::function<int()>>;

// Runs `body` in a child and gathers what it puts into the report; a child that dies leaves "exit" other than
// 0.
Report in_child(const std::function<void(Report&)>& body) {
  int pipe_ends[2];
  EXPECT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(pipe_ends[0]);
    Report report;
    body(report);
    std::string text;
    for (const auto& [name, value] : report) text += name + "\t" + std::to_string(value) + "\n";
    const bool written = write(pipe_ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    _exit(written ? 0 : 1);
  }
  close(pipe_ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t size; (size = read(pipe_ends[0], buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(size));
  }
  close(pipe_ends[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  Report report;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto tab = line.find('\t');
    report[line.substr(0, tab)] = std::stoi(line.substr(tab + 1));
  }
  report["exit"] = status;
  return report;
}

int try_open(const std::string& path, int flags) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC, 0600);
  const int result = outcome(fd);
  if (fd >= 0) close(fd);
  return result;
}

// What must fail for lack of files: EACCES from Landlock.
std::vector<Attempt> file_attempts(const World& world) {
  return {
      {"read secret", [&] { return try_open(world.secret, O_RDONLY); }},
      {"write secret", [&] { return try_open(world.secret, O_WRONLY); }},
      {"truncate secret", [&] { return try_open(world.secret, O_WRONLY | O_TRUNC); }},
      {"write model", [&] { return try_open(world.model, O_RDWR); }},
      {"create beside the model", [&] { return try_open(world.folder / "new", O_WRONLY | O_CREAT); }},
      {"create in /tmp", [] { return try_open("/tmp/sandbox-test-new", O_WRONLY | O_CREAT); }},
      {"read passwd", [] { return try_open("/etc/passwd", O_RDONLY); }},
      {"read by /proc/self/root", [] { return try_open("/proc/self/root/etc/passwd", O_RDONLY); }},
      {"write own memory", [] { return try_open("/proc/self/mem", O_RDWR); }},
      {"read environment", [] { return try_open("/proc/self/environ", O_RDONLY); }},
      {"list folder", [&] { return try_open(world.folder, O_RDONLY | O_DIRECTORY); }},
      {"list root", [] { return try_open("/", O_RDONLY | O_DIRECTORY); }},
      {"open device",
       [] { return try_open("/dev/tty", O_RDWR) == ENXIO ? 0 : try_open("/dev/zero", O_RDWR); }},
      {"make folder", [&] { return outcome(mkdir((world.folder / "d").c_str(), 0700)); }},
      {"remove secret", [&] { return outcome(unlink(world.secret.c_str())); }},
      {"remove model", [&] { return outcome(unlink(world.model.c_str())); }},
      {"link secret into cache",
       [&] { return outcome(symlink(world.secret.c_str(), (world.cache + "/s").c_str())); }},
      {"pipe in cache", [&] { return outcome(mkfifo((world.cache + "/fifo").c_str(), 0600)); }},
  };
}

sockaddr_un unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

template <class Address>
int try_connect(int fd, const Address& address) {
  return outcome(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address));
}
template <class Address>
int try_bind(int fd, const Address& address) {
  return outcome(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address));
}

// Sockets that were open before the lock-down, and what the parent listens on.
struct Sockets {
  Sockets(const World& world)
      : tcp(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
        udp(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)),
        local(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)),
        tcp_server(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
        local_server(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)),
        local_path((world.folder / "server").string()) {
    EXPECT_EQ(try_bind(tcp_server.get(), loopback(0)), 0);
    EXPECT_EQ(listen(tcp_server.get(), 1), 0);
    EXPECT_EQ(try_bind(local_server.get(), unix_address(local_path)), 0);
    EXPECT_EQ(listen(local_server.get(), 1), 0);
    sockaddr_in bound{};
    socklen_t size = sizeof bound;
    getsockname(tcp_server.get(), reinterpret_cast<sockaddr*>(&bound), &size);
    port = ntohs(bound.sin_port);
  }
  Fd tcp, udp, local, tcp_server, local_server;
  std::string local_path;
  int port = 0;
};

int try_fork(const std::function<long()>& call) {
  const long pid = call();
  if (pid == 0) _exit(0);
  const int result = outcome(pid);
  if (pid > 0) waitpid(static_cast<pid_t>(pid), nullptr, 0);
  return result;
}

int try_exec(const char* program) {
  char* const no_arguments[] = {const_cast<char*>(program), nullptr};
  return outcome(execv(program, no_arguments));
}

// What must fail for lack of system calls: EPERM, or ENOSYS where libraries are to fall back.
std::vector<Attempt> syscall_attempts(const World& world, const Sockets& sockets) {
  return {
      {"tcp socket", [] { return outcome(socket(AF_INET, SOCK_STREAM, 0)); }},
      {"tcp6 socket", [] { return outcome(socket(AF_INET6, SOCK_STREAM, 0)); }},
      {"udp socket", [] { return outcome(socket(AF_INET, SOCK_DGRAM, 0)); }},
      {"unix socket", [] { return outcome(socket(AF_UNIX, SOCK_STREAM, 0)); }},
      {"netlink socket", [] { return outcome(socket(AF_NETLINK, SOCK_RAW, 0)); }},
      {"packet socket", [] { return outcome(socket(AF_PACKET, SOCK_RAW, 0)); }},
      {"vsock socket", [] { return outcome(socket(AF_VSOCK, SOCK_STREAM, 0)); }},
      {"connect tcp", [&] { return try_connect(sockets.tcp.get(), loopback(sockets.port)); }},
      {"connect udp", [&] { return try_connect(sockets.udp.get(), loopback(sockets.port)); }},
      {"connect unix", [&] { return try_connect(sockets.local.get(), unix_address(sockets.local_path)); }},
      {"bind tcp", [&] { return try_bind(sockets.tcp.get(), loopback(0)); }},
      {"listen", [&] { return outcome(listen(sockets.local.get(), 1)); }},
      {"accept", [&] { return outcome(accept4(sockets.tcp_server.get(), nullptr, nullptr, SOCK_NONBLOCK)); }},
      {"exec", [] { return try_exec("/bin/true"); }},
      {"exec model", [&] { return try_exec(world.model.c_str()); }},
      {"execveat", [] { return outcome(syscall(SYS_execveat, AT_FDCWD, "/bin/true", nullptr, nullptr, 0)); }},
      {"fork", [] { return try_fork([] { return static_cast<long>(fork()); }); }},
      {"clone", [] { return try_fork([] { return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }); }},
      {"clone into a namespace",
       [] { return try_fork([] { return syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0); }); }},
      {"clone3", [] { return outcome(syscall(SYS_clone3, nullptr, 0)); }},
#if defined(__x86_64__)
      {"raw fork", [] { return try_fork([] { return syscall(SYS_fork); }); }},
#endif
      {"ptrace", [] { return outcome(syscall(SYS_ptrace, 16 /* attach */, getppid(), 0, 0)); }},
      {"read parent's memory",
       [] { return outcome(syscall(SYS_process_vm_readv, getppid(), nullptr, 0, nullptr, 0, 0)); }},
      {"signal the parent", [] { return outcome(kill(getppid(), 0)); }},
      {"signal everybody", [] { return outcome(kill(-1, 0)); }},
      {"pidfd of the parent", [] { return outcome(syscall(434, getppid(), 0)); }},
      {"limits of the parent",
       [] { return outcome(syscall(SYS_prlimit64, getppid(), 7, nullptr, nullptr)); }},
      {"descriptor owner", [&] { return outcome(fcntl(sockets.tcp.get(), F_SETOWN, getppid())); }},
      {"unshare", [] { return outcome(unshare(CLONE_NEWUSER)); }},
      {"mount", [] { return outcome(syscall(SYS_mount, "none", "/", "tmpfs", 0, nullptr)); }},
      {"fsopen", [] { return outcome(syscall(430, "tmpfs", 0)); }},
      {"chroot", [] { return outcome(chroot("/")); }},
      {"file handle", [] { return outcome(syscall(SYS_open_by_handle_at, AT_FDCWD, nullptr, 0)); }},
      {"bpf", [] { return outcome(syscall(SYS_bpf, 0, nullptr, 0)); }},
      {"io_uring", [] { return outcome(syscall(425, 1, nullptr)); }},
      {"userfaultfd", [] { return outcome(syscall(SYS_userfaultfd, 0)); }},
      {"perf", [] { return outcome(syscall(SYS_perf_event_open, nullptr, 0, 0, 0, 0)); }},
      {"keyctl", [] { return outcome(syscall(SYS_keyctl, 0, 0, 0, 0, 0)); }},
      {"module", [] { return outcome(syscall(SYS_finit_module, 0, "", 0)); }},
      {"chmod", [&] { return outcome(chmod(world.secret.c_str(), 0777)); }},
      {"chown", [&] { return outcome(chown(world.secret.c_str(), 0, 0)); }},
      {"touch", [&] { return outcome(utimensat(AT_FDCWD, world.secret.c_str(), nullptr, 0)); }},
      {"shared memory", [] { return outcome(syscall(SYS_shmget, 1, 4096, 01600)); }},
      {"type into a terminal", [] { return outcome(ioctl(0, TIOCSTI, "x")); }},
      {"untie from the daemon", [] { return outcome(prctl(PR_SET_PDEATHSIG, 0)); }},
      {"openat2", [] { return outcome(syscall(437, AT_FDCWD, "/", nullptr, 0)); }},
      {"a system call of the future", [] { return outcome(syscall(1000)); }},
  };
}

const std::map<std::string, int>& expected_errors() {
  static const std::map<std::string, int> kOther = {
      {"clone3", ENOSYS}, {"openat2", ENOSYS}, {"a system call of the future", ENOSYS}};
  return kOther;
}

void run(const std::vector<Attempt>& attempts, const std::string& who, Report& report) {
  for (const auto& [name, attempt] : attempts) report[who + name] = attempt();
}

void expect_files_denied(const World& world, const std::string& who, const Report& report) {
  for (const auto& [name, attempt] : file_attempts(world)) {
    const int error = report.contains(who + name) ? report.at(who + name) : -1;
    EXPECT_TRUE(error == EACCES || error == EPERM) << who << name << ": " << error;
  }
}

void expect_syscalls_denied(const World& world, const Sockets& sockets, const std::string& who,
                            const Report& report) {
  for (const auto& [name, attempt] : syscall_attempts(world, sockets)) {
    const auto other = expected_errors().find(name);
    const int error = report.contains(who + name) ? report.at(who + name) : -1;
    EXPECT_EQ(error, other == expected_errors().end() ? EPERM : other->second) << who << name;
  }
}

// A thread of a pool: it waits for work, either asleep or, as OpenMP's do, spinning.
class PoolThread {
 public:
  explicit PoolThread(bool spins) : spins_(spins), thread_([this] { work(); }) {
    while (!running_) std::this_thread::yield();
  }
  void run_and_join(std::function<void()> job) {
    {
      const std::lock_guard lock(mutex_);
      job_ = std::move(job);
      ready_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

 private:
  void work() {
    running_ = true;
    if (spins_) {
      while (!ready_) std::this_thread::yield();
    }
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return ready_.load(); });
    job_();
  }

  const bool spins_;
  std::atomic<bool> running_ = false, ready_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::function<void()> job_;
  std::thread thread_;
};

TEST(Sandbox, FilesCanBeReachedBeforeTheLockDown) {
  const World world;
  const Report report = in_child([&](Report& r) {
    r["read secret"] = try_open(world.secret, O_RDONLY);
    r["read passwd"] = try_open("/etc/passwd", O_RDONLY);
  });
  EXPECT_EQ(report.at("read secret"), 0);
  EXPECT_EQ(report.at("read passwd"), 0);
}

TEST(Sandbox, OnlyTheModelsFilesCanBeRead) {
  const World world;
  const Report report = in_child([&](Report& r) {
    r["step"] = restrict_files({world.model}, "").has_value() ? 0 : 1;
    r["read model"] = try_open(world.model, O_RDONLY);
    r["read cpuinfo"] = try_open("/proc/cpuinfo", O_RDONLY);
    r["create in cache"] = try_open(world.cache + "/x", O_WRONLY | O_CREAT);
    run(file_attempts(world), "", r);
  });
  EXPECT_EQ(report.at("exit"), 0);
  EXPECT_EQ(report.at("step"), 0);
  EXPECT_EQ(report.at("read model"), 0);
  EXPECT_EQ(report.at("read cpuinfo"), 0);
  EXPECT_EQ(report.at("create in cache"), EACCES);
  expect_files_denied(world, "", report);
}

TEST(Sandbox, TheCacheFolderCanBeWritten) {
  const World world;
  const Report report = in_child([&](Report& r) {
    r["step 1"] = restrict_files({world.model}, world.cache).has_value() ? 0 : 1;
    r["step 2"] = restrict_syscalls().has_value() ? 0 : 1;
    const std::string folder = world.cache + "/sub", file = folder + "/a", other = world.cache + "/b";
    r["make folder in cache"] = outcome(mkdir(folder.c_str(), 0700));
    const int fd = open(file.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    r["create"] = outcome(fd);
    r["write"] = outcome(write(fd, "data", 4));
    r["mode"] = outcome(fchmod(fd, 0640));
    r["shorten"] = outcome(ftruncate(fd, 2));
    r["sync"] = outcome(fsync(fd));
    r["touch open file"] = outcome(futimens(fd, nullptr));
    r["rename"] = outcome(rename(file.c_str(), other.c_str()));
    r["read back"] = try_open(other, O_RDONLY);
    r["list"] = try_open(world.cache, O_RDONLY | O_DIRECTORY);
    r["remove"] = outcome(unlink(other.c_str()));
    r["remove folder"] = outcome(rmdir(folder.c_str()));
    run(file_attempts(world), "denied ", r);
  });
  for (const auto& [name, error] : report) {
    if (!name.starts_with("denied ")) {
      EXPECT_EQ(error, 0) << name;
    }
  }
  expect_files_denied(world, "denied ", report);
}

TEST(Sandbox, NoThreadBreaksOut) {
  const World world;
  const Sockets sockets(world);
  const Report report = in_child([&](Report& r) {
    r["step 1"] = restrict_files({world.model}, world.cache).has_value() ? 0 : 1;
    // A worker's pools start between the two steps.
    PoolThread pool(false), openmp(true);
    r["step 2"] = restrict_syscalls().has_value() ? 0 : 1;
    const auto everything = [&](const std::string& who) {
      run(file_attempts(world), who, r);
      run(syscall_attempts(world, sockets), who, r);
      r[who + "read model"] = try_open(world.model, O_RDONLY);
    };
    everything("main: ");
    pool.run_and_join([&] { everything("pool: "); });
    openmp.run_and_join([&] { everything("openmp: "); });
    std::thread([&] { everything("late: "); }).join();
  });
  EXPECT_EQ(report.at("exit"), 0);
  EXPECT_EQ(report.at("step 1"), 0);
  EXPECT_EQ(report.at("step 2"), 0);
  for (const char* who : {"main: ", "pool: ", "openmp: ", "late: "}) {
    expect_files_denied(world, who, report);
    expect_syscalls_denied(world, sockets, who, report);
    EXPECT_EQ(report.at(std::string(who) + "read model"), 0);
  }
  EXPECT_TRUE(fs::exists(world.secret));
}

TEST(Sandbox, WhatAWorkerNeedsKeepsWorking) {
  const World world;
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const Fd ours(ends[0]), theirs(ends[1]);
  ASSERT_EQ(write(ours.get(), "ping", 4), 4);
  const Report report = in_child([&](Report& r) {
    const system::ProcessUsage usage;
    r["step 1"] = restrict_files({world.model}, world.cache).has_value() ? 0 : 1;
    r["step 2"] = restrict_syscalls().has_value() ? 0 : 1;
    char buffer[4];
    r["receive"] = outcome(recv(theirs.get(), buffer, sizeof buffer, 0));
    r["send"] = outcome(send(theirs.get(), "pong", 4, MSG_NOSIGNAL));
    r["own size"] = usage.resident_bytes() > 0 ? 0 : 1;
    r["own descriptors"] = usage.open_descriptors() > 0 ? 0 : 1;
    const int fd = open(world.model.c_str(), O_RDONLY | O_CLOEXEC);
    void* mapped = mmap(nullptr, 7, PROT_READ, MAP_PRIVATE, fd, 0);
    r["map model"] = mapped == MAP_FAILED ? errno : 0;
    r["mapped bytes"] =
        mapped != MAP_FAILED && std::string_view(static_cast<char*>(mapped), 7) == "weights" ? 0 : 1;
    r["affinity"] = [] {
      cpu_set_t set;
      return outcome(sched_getaffinity(0, sizeof set, &set)) +
             outcome(sched_setaffinity(0, sizeof set, &set));
    }();
    int pipe_ends[2];
    r["pipe"] = outcome(pipe2(pipe_ends, O_CLOEXEC));
    r["signal itself"] = outcome(kill(getpid(), 0));
    std::signal(SIGUSR1, SIG_IGN);
    r["raise"] = outcome(raise(SIGUSR1));
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([] {});
    for (auto& thread : threads) thread.join();
    r["threads"] = 0;
  });
  for (const auto& [name, error] : report) EXPECT_EQ(error, 0) << name;
}

// The real thing: libllama opens, maps and runs a model, and OpenMP starts its pool, all inside. The filter
// may come before the model is loaded or while the pool runs.
void load_and_decode(bool filter_first, Report& r) {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const fs::path base = cache && *cache ? cache : fs::path(std::getenv("HOME")) / ".cache";
  const fs::path path = base / "gezel-inference" / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf";
  r["step 1"] = restrict_files({path.string()}, "").has_value() ? 0 : 1;
  if (filter_first) r["step 2"] = restrict_syscalls().has_value() ? 0 : 1;
  llama::initialize();
  auto model = llama::Model::load({.path = path.string()});
  r["load"] = model.has_value() ? 0 : 1;
  if (!model) return;
  auto context = llama::Context::create(**model, {.slots = 2, .context_per_slot = 256, .threads = 2});
  r["context"] = context.has_value() ? 0 : 1;
  if (!context) return;
  const llama::Token token = (*model)->vocab().eos();
  const llama::Row first{.token = token, .logits = true}, second{.token = token, .slot = 1, .logits = true};
  r["decode"] = static_cast<int>((*context)->decode({&first, 1}));
  if (!filter_first) r["step 2"] = restrict_syscalls().has_value() ? 0 : 1;
  r["decode again"] = static_cast<int>((*context)->decode({&second, 1}));
  const fs::path other = path.parent_path() / "gemma-3-270m-q4_k_m.gguf";
  r["other model"] = llama::Model::load({.path = other.string()}) ? 1 : 0;
}

TEST(Sandbox, AModelLoadsAndDecodesInside) {
  for (const bool filter_first : {true, false}) {
    const Report report = in_child([&](Report& r) { load_and_decode(filter_first, r); });
    for (const auto& [name, error] : report)
      EXPECT_EQ(error, 0) << name << ", filter first: " << filter_first;
    EXPECT_TRUE(report.contains("decode again"));
  }
}

TEST(Sandbox, AnAbortStillEndsTheWorkerWithItsSignal) {
  const World world;
  const Report report = in_child([&](Report&) {
    if (restrict_files({world.model}, "") && restrict_syscalls()) std::abort();
  });
  EXPECT_TRUE(WIFSIGNALED(report.at("exit")));
  EXPECT_EQ(WTERMSIG(report.at("exit")), SIGABRT);
}

#if defined(__x86_64__)
TEST(Sandbox, SystemCallsOfAnotherArchitectureEndTheProcess) {
  const Report report = in_child([](Report&) {
    if (restrict_syscalls()) syscall(0x40000000 | SYS_getpid);
  });
  EXPECT_TRUE(WIFSIGNALED(report.at("exit")));
  EXPECT_EQ(WTERMSIG(report.at("exit")), SIGSYS);
}
#endif

TEST(Sandbox, AMissingModelFileIsNamedWithoutItsFolder) {
  const World world;
  Report report = in_child([&](Report& r) {
    const auto result = restrict_files({world.model, (world.folder / "gone.gguf").string()}, "");
    const bool named = !result && result.error().code == "model-unreadable" &&
                       result.error().message.find("gone.gguf cannot be opened") != std::string::npos &&
                       result.error().message.find("gezel-test-") == std::string::npos;
    r["named"] = named ? 1 : 0;
  });
  EXPECT_EQ(report["named"], 1);
}

TEST(Sandbox, ThreadsThatExistAlreadyAreRefused) {
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
  GTEST_SUCCEED() << "the sanitizer has a thread of its own, so the check is off";
  return;
#endif
#endif
  const World world;
  Report report = in_child([&](Report& r) {
    PoolThread pool(false);
    const auto result = restrict_files({world.model}, "");
    r["refused"] =
        !result && result.error().message.find("before it starts threads") != std::string::npos ? 1 : 0;
    pool.run_and_join([] {});
  });
  EXPECT_EQ(report["refused"], 1);
}

TEST(Sandbox, TheStatusOfACompleteKernelIsFull) {
  EXPECT_EQ(sandbox_status(), "full");
  Report report = in_child([](Report& r) { r["full"] = *restrict_files({}, "") == "full" ? 1 : 0; });
  EXPECT_EQ(report["full"], 1);
}

}  // namespace
}  // namespace gezel::worker
