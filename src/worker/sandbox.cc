// Landlock (https://docs.kernel.org/userspace-api/landlock.html) denies every file system action it handles
// unless a rule allows it; the constants of newer interface versions are spelled out here because build
// machines have older headers.
//
// The seccomp filter lets pass what is not named, so that libraries keep working, and is complete by two
// means: the tables below name every way to a new socket, program, process or privilege, and system calls
// that are younger than the tables do not exist as far as the worker is concerned.
#include "worker/sandbox.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>

#include "base/process.h"
#include "system/kernel.h"

#if !defined(__x86_64__) && !defined(__aarch64__)
#error "The system call tables of the sandbox know x86_64 and aarch64 only"
#endif

namespace gezel::worker {
namespace {

std::unexpected<Error> refused(std::string_view what, int error_number) {
  return fail(
      ErrorKind::io, "engine-sandbox",
      fmt::format("the worker could not be locked down: {}: {}; `gezel doctor` says what the kernel offers",
                  what, std::strerror(error_number)));
}

// Without this neither mechanism is open to ordinary users: it keeps a program with set-user-id from running
// restricted.
Result<> give_up_privileges() {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return refused("no_new_privs", errno);
  return {};
}

// --- files: Landlock
// --------------------------------------------------------------------------------------------------

constexpr std::uint64_t kAccessTruncate = 1ULL << 14;     // version 3
constexpr std::uint64_t kAccessIoctlDevice = 1ULL << 15;  // version 5
constexpr std::uint64_t kNetBindTcp = 1ULL << 0;          // version 4
constexpr std::uint64_t kNetConnectTcp = 1ULL << 1;
constexpr std::uint64_t kScopeAbstractSocket = 1ULL << 0;  // version 6
constexpr std::uint64_t kScopeSignal = 1ULL << 1;

constexpr std::uint64_t kReadFile = LANDLOCK_ACCESS_FS_READ_FILE;
constexpr std::uint64_t kReadTree = kReadFile | LANDLOCK_ACCESS_FS_READ_DIR;
// Everything for plain files and folders; no devices, pipes, sockets, links or programs.
constexpr std::uint64_t kWriteTree = kReadTree | LANDLOCK_ACCESS_FS_WRITE_FILE |
                                     LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                                     LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR |
                                     LANDLOCK_ACCESS_FS_REFER | kAccessTruncate;

// struct landlock_ruleset_attr of version 6; older kernels are given its first members.
struct RulesetAttributes {
  std::uint64_t handled_files = 0, handled_net = 0, scoped = 0;
};

struct Landlock {
  RulesetAttributes attributes;
  std::size_t attributes_size = 0;
};

Landlock landlock_for(int abi) {
  constexpr std::uint64_t kVersion1 = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;
  Landlock landlock{{.handled_files = kVersion1}, sizeof(std::uint64_t)};
  RulesetAttributes& attributes = landlock.attributes;
  if (abi >= 2) attributes.handled_files |= LANDLOCK_ACCESS_FS_REFER;
  if (abi >= 3) attributes.handled_files |= kAccessTruncate;
  if (abi >= 4) {
    attributes.handled_net = kNetBindTcp | kNetConnectTcp;
    landlock.attributes_size = 2 * sizeof(std::uint64_t);
  }
  if (abi >= 5) attributes.handled_files |= kAccessIoctlDevice;
  if (abi >= 6) {
    attributes.scoped = kScopeAbstractSocket | kScopeSignal;
    landlock.attributes_size = 3 * sizeof(std::uint64_t);
  }
  return landlock;
}

// What a worker may know about the processor: ggml and OpenMP ask for its name and number of cores.
constexpr auto kProcessorPaths = std::to_array<const char*>({"/proc/cpuinfo", "/sys/devices/system/cpu"});

Result<> allow(const Fd& ruleset, const Fd& target, std::uint64_t access, std::string_view what) {
  landlock_path_beneath_attr rule{};
  rule.allowed_access = access;
  rule.parent_fd = target.get();
  if (syscall(SYS_landlock_add_rule, ruleset.get(), LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) {
    return refused(fmt::format("allowing {}", what), errno);
  }
  return {};
}

// Threads other than the calling one would stay unrestricted.
bool has_other_threads() {
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
  return false;  // the sanitizer's own thread
#endif
#endif
  DIR* tasks = opendir("/proc/self/task");
  if (!tasks) return false;
  int count = 0;
  while (const dirent* entry = readdir(tasks)) count += entry->d_name[0] == '.' ? 0 : 1;
  closedir(tasks);
  return count > 1;
}

Result<> add_file_rules(const Fd& ruleset, const std::vector<std::string>& read_files,
                        const std::string& writable_folder, std::uint64_t handled) {
  for (const std::string& path : read_files) {
    const std::string name = std::filesystem::path(path).filename().string();
    const Fd file(open(path.c_str(), O_PATH | O_CLOEXEC));
    if (!file) {
      return fail(ErrorKind::io, "model-unreadable",
                  fmt::format("the model file {} cannot be opened: {}; check its folder and permissions", name,
                              std::strerror(errno)));
    }
    GEZEL_CHECK(allow(ruleset, file, kReadFile, name));
  }
  if (!writable_folder.empty()) {
    const Fd folder(open(writable_folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!folder) return refused("the cache folder", errno);
    GEZEL_CHECK(allow(ruleset, folder, kWriteTree & handled, "the cache folder"));
  }
  for (const char* path : kProcessorPaths) {
    const Fd target(open(path, O_PATH | O_CLOEXEC));
    std::error_code ignored;
    if (!target) continue;
    GEZEL_CHECK(
        allow(ruleset, target, std::filesystem::is_directory(path, ignored) ? kReadTree : kReadFile, path));
  }
  return {};
}

// --- system calls: seccomp
// --------------------------------------------------------------------------------------------

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#else
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#endif

// Numbers from 424 on are the same everywhere. The newest one these tables have considered is file_setattr.
constexpr std::uint32_t kOpenat2 = 437, kClone3 = 435, kNewest = 469;

// Fail with EPERM whatever their arguments.
// clang-format off
constexpr auto kDenied = std::to_array<std::uint32_t>({
    // Sockets: what is open can be used, nothing can be added.
    SYS_socket, SYS_socketpair, SYS_connect, SYS_bind, SYS_listen, SYS_accept, SYS_accept4,
    // Programs.
    SYS_execve, SYS_execveat,
    // Other processes: looking into them, signalling them, taking their descriptors.
    SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp, SYS_tkill, SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo, SYS_migrate_pages, SYS_move_pages, 424 /* pidfd_send_signal */, 434 /* pidfd_open */,
    438 /* pidfd_getfd */, 440 /* process_madvise */, 448 /* process_mrelease */,
    // System V IPC and message queues reach other processes of the same user.
    SYS_shmget, SYS_shmat, SYS_shmctl, SYS_msgget, SYS_msgsnd, SYS_msgrcv, SYS_msgctl, SYS_semget, SYS_semop,
    SYS_semctl, SYS_semtimedop, SYS_mq_open, SYS_mq_unlink,
    // Mounts, roots, namespaces, file handles.
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_unshare, SYS_setns, SYS_open_by_handle_at,
    SYS_name_to_handle_at, 428 /* open_tree */, 429 /* move_mount */, 430 /* fsopen */, 431 /* fsconfig */,
    432 /* fsmount */, 433 /* fspick */, 442 /* mount_setattr */, 457 /* statmount */, 458 /* listmount */,
    467 /* open_tree_attr */,
    // Kernel interfaces with a history of holes, or that reach around this filter.
    SYS_bpf, SYS_userfaultfd, SYS_perf_event_open, 425 /* io_uring_setup */, 426 /* io_uring_enter */,
    427 /* io_uring_register */, SYS_keyctl, SYS_add_key, SYS_request_key, SYS_personality,
    // The machine itself.
    SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_kexec_file_load, SYS_reboot, SYS_swapon,
    SYS_swapoff, SYS_acct, SYS_quotactl, 443 /* quotactl_fd */, SYS_syslog, SYS_sethostname, SYS_setdomainname,
    SYS_settimeofday, SYS_clock_settime, SYS_clock_adjtime, SYS_adjtimex, SYS_vhangup,
    // File attributes, which Landlock does not cover. fchmod stays: it needs an open file, and caches are written with it.
    SYS_fchmodat, 452 /* fchmodat2 */, SYS_fchown, SYS_fchownat, SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr,
    SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr, 463 /* setxattrat */, 466 /* removexattrat */,
    469 /* file_setattr */, SYS_truncate,
    // Watching files that cannot be opened.
    SYS_inotify_init1, SYS_inotify_add_watch, SYS_fanotify_init, SYS_fanotify_mark,
#if defined(__x86_64__)
    SYS_fork, SYS_vfork, SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat, SYS_iopl, SYS_ioperm,
    SYS_modify_ldt, SYS_ustat, SYS_sysfs, SYS_inotify_init, 134 /* uselib */, 156 /* _sysctl */,
    174 /* create_module */, 177 /* get_kernel_syms */, 178 /* query_module */, 180 /* nfsservctl */,
    212 /* lookup_dcookie */,
#else
    18 /* lookup_dcookie */, 42 /* nfsservctl */,
#endif
});
// clang-format on

// A new thread is one that shares everything and enters no namespace.
constexpr std::uint32_t kNamespaceFlags =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

constexpr auto kDeniedIoctls =
    std::to_array<std::uint32_t>({TIOCSTI, TIOCLINUX, TIOCSETD, FIOSETOWN, SIOCSPGRP});
// A descriptor's owner is sent signals.
constexpr auto kDeniedFcntls = std::to_array<std::uint32_t>({F_SETOWN, F_SETSIG, F_SETOWN_EX});
// The tie to the daemon's life stays.
constexpr auto kDeniedPrctls = std::to_array<std::uint32_t>({PR_SET_PDEATHSIG, PR_SET_MM, PR_SET_PTRACER});

constexpr std::uint32_t kAllow = SECCOMP_RET_ALLOW;
constexpr std::uint32_t kDeny = SECCOMP_RET_ERRNO | EPERM;
constexpr std::uint32_t kAbsent = SECCOMP_RET_ERRNO | ENOSYS;

// Writes a classic BPF program over seccomp_data. Between rules the accumulator holds the system call's
// number.
class FilterWriter {
 public:
  FilterWriter() {
    load(offsetof(seccomp_data, arch));
    jump(BPF_JEQ, kArchitecture, 1, 0);
    give(SECCOMP_RET_KILL_PROCESS);
    load(offsetof(seccomp_data, nr));
#if defined(__x86_64__)
    constexpr std::uint32_t kX32Bit = 0x40000000;
    jump(BPF_JGE, kX32Bit, 0, 1);
    give(SECCOMP_RET_KILL_PROCESS);
#endif
    jump(BPF_JGT, kNewest, 0, 1);
    give(kAbsent);
  }

  void always(std::uint32_t number, std::uint32_t answer) {
    jump(BPF_JEQ, number, 0, 1);
    give(answer);
  }

  // Denied when an argument is one of `values` (`denied_on_match`), or when it is not.
  void one_of(std::uint32_t number, int argument, std::span<const std::uint32_t> values,
              bool denied_on_match) {
    rule(number, [&] {
      load_argument(argument);
      for (const std::uint32_t value : values) {
        jump(BPF_JEQ, value, 0, 1);
        give(denied_on_match ? kDeny : kAllow);
      }
      give(denied_on_match ? kAllow : kDeny);
    });
  }

  // Denied when (argument & mask) is `value` (`denied_on_match`), or when it is not.
  void masked(std::uint32_t number, int argument, std::uint32_t mask, std::uint32_t value,
              bool denied_on_match) {
    rule(number, [&] {
      load_argument(argument);
      program_.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask));
      jump(BPF_JEQ, value, 0, 1);
      give(denied_on_match ? kDeny : kAllow);
      give(denied_on_match ? kAllow : kDeny);
    });
  }

  // Denied unless a pointer argument is null.
  void null_only(std::uint32_t number, int argument) {
    rule(number, [&] {
      load_argument(argument);
      jump(BPF_JEQ, 0, 1, 0);
      give(kDeny);
      load(argument_offset(argument) + sizeof(std::uint32_t));
      jump(BPF_JEQ, 0, 1, 0);
      give(kDeny);
      give(kAllow);
    });
  }

  std::vector<sock_filter> finish() {
    give(kAllow);
    return std::move(program_);
  }

 private:
  // `body` answers on every path.
  template <class Body>
  void rule(std::uint32_t number, Body body) {
    const std::size_t at = program_.size();
    jump(BPF_JEQ, number, 0, 0);
    body();
    program_[at].jf = static_cast<std::uint8_t>(program_.size() - at - 1);
  }
  static std::uint32_t argument_offset(int argument) {
    return static_cast<std::uint32_t>(offsetof(seccomp_data, args) +
                                      sizeof(std::uint64_t) * static_cast<unsigned>(argument));
  }
  // Its low half, on the little-endian machines this runs on.
  void load_argument(int argument) { load(argument_offset(argument)); }
  void load(std::uint32_t offset) { program_.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)); }
  void jump(std::uint16_t test, std::uint32_t value, std::uint8_t if_true, std::uint8_t if_false) {
    program_.push_back(
        BPF_JUMP(static_cast<std::uint16_t>(BPF_JMP | BPF_K | test), value, if_true, if_false));
  }
  void give(std::uint32_t answer) { program_.push_back(BPF_STMT(BPF_RET | BPF_K, answer)); }

  std::vector<sock_filter> program_;
};

std::vector<sock_filter> syscall_filter() {
  const auto self = static_cast<std::uint32_t>(getpid());
  const std::array<std::uint32_t, 1> only_self{self};
  const std::array<std::uint32_t, 2> self_or_zero{self, 0};
  FilterWriter filter;
  for (const std::uint32_t number : kDenied) filter.always(number, kDeny);
  // Their arguments lie in memory where a filter cannot see them; libraries fall back to the older calls.
  filter.always(kClone3, kAbsent);
  filter.always(kOpenat2, kAbsent);
  filter.masked(SYS_clone, 0, CLONE_THREAD | kNamespaceFlags, CLONE_THREAD, false);
  filter.one_of(SYS_kill, 0, only_self, false);
  filter.one_of(SYS_tgkill, 0, only_self, false);
  filter.one_of(SYS_prlimit64, 0, self_or_zero, false);
  filter.one_of(SYS_ioctl, 1, kDeniedIoctls, true);
  filter.one_of(SYS_fcntl, 1, kDeniedFcntls, true);
  filter.one_of(SYS_prctl, 0, kDeniedPrctls, true);
  // Before Landlock version 3 a file that may be read could be emptied by opening it.
  filter.masked(SYS_openat, 2, O_ACCMODE | O_TRUNC, O_RDONLY | O_TRUNC, true);
#if defined(__x86_64__)
  filter.masked(SYS_open, 1, O_ACCMODE | O_TRUNC, O_RDONLY | O_TRUNC, true);
#endif
  filter.null_only(SYS_utimensat, 1);  // futimens() on an open file stays
  return filter.finish();
}

}  // namespace

Result<std::string> restrict_files(const std::vector<std::string>& read_files,
                                   const std::string& writable_folder) {
  if (has_other_threads()) {
    return fail(
        ErrorKind::internal, "engine-sandbox",
        "the worker must be locked down before it starts threads: those would keep access to all files");
  }
  // After an assert ggml would start a debugger, and crashes when it may not read /proc first.
  setenv("GGML_NO_BACKTRACE", "1", 1);
  GEZEL_CHECK(give_up_privileges());
  const int abi = system::landlock_abi();
  if (abi < 1) return sandbox_status();

  const Landlock landlock = landlock_for(abi);
  const Fd ruleset(static_cast<int>(
      syscall(SYS_landlock_create_ruleset, &landlock.attributes, landlock.attributes_size, 0)));
  if (!ruleset) return refused("landlock_create_ruleset", errno);
  GEZEL_CHECK(add_file_rules(ruleset, read_files, writable_folder, landlock.attributes.handled_files));
  if (syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0)
    return refused("landlock_restrict_self", errno);
  return sandbox_status();
}

Result<std::string> restrict_syscalls() {
  GEZEL_CHECK(give_up_privileges());
  if (!system::seccomp_available()) return sandbox_status();
  std::vector<sock_filter> filter = syscall_filter();
  const sock_fprog program{.len = static_cast<unsigned short>(filter.size()), .filter = filter.data()};
  const long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
  if (result < 0) return refused("seccomp", errno);
  if (result > 0) return refused(fmt::format("seccomp on thread {}", result), EBUSY);
  return sandbox_status();
}

std::string sandbox_status() {
  return system::sandbox_status(system::landlock_abi(), system::seccomp_available());
}

}  // namespace gezel::worker
