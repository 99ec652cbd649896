// The stack is mapped here and not by the thread library, so that it is known exactly which addresses lie just
// below it.
#include "worker/guarded_thread.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <system_error>

namespace gezel::worker {
namespace {

constexpr std::size_t kGuardBytes = kMiB;            // no function has a frame that reaches across
constexpr std::size_t kHandlerBytes = 64 * kKiB;     // the registers alone take 11 KiB on some processors
constexpr std::size_t kMappedBytes = kGuardBytes + GuardedThread::kStackBytes + kHandlerBytes;

std::atomic<void (*)()> overflow_handler = nullptr;
static_assert(std::atomic<void (*)()>::is_always_lock_free);  // it is read in a signal handler
thread_local std::uintptr_t guard_address = 0;                // of this thread; 0: it is not guarded

void on_bad_access(int signal, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  if (guard_address != 0 && address >= guard_address && address < guard_address + kGuardBytes)
    overflow_handler.load()();
  ::signal(signal, SIG_DFL);  // the access is repeated now, and is a crash
}

[[noreturn]] void give_up(int error_number, const char* what) {
  throw std::system_error(error_number, std::generic_category(), what);
}

}  // namespace

void on_stack_overflow(void (*on_overflow)()) {
  overflow_handler = on_overflow;
  struct sigaction action{};
  action.sa_sigaction = on_bad_access;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGSEGV, &action, nullptr);
  ::sigaction(SIGBUS, &action, nullptr);  // what some systems send instead
}

GuardedThread::GuardedThread(std::function<void()> work) : work_(std::move(work)) {
  void* mapped =
      ::mmap(nullptr, kMappedBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) give_up(errno, "no memory for a stack");
  memory_ = static_cast<std::byte*>(mapped);
  std::byte* stack = memory_ + kGuardBytes;
  int failed = ::mprotect(stack, kStackBytes + kHandlerBytes, PROT_READ | PROT_WRITE) == 0 ? 0 : errno;
  if (failed == 0) {
    pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    failed = ::pthread_attr_setstack(&attributes, stack, kStackBytes);
    const auto call = [](void* self) -> void* {
      static_cast<GuardedThread*>(self)->run();
      return nullptr;
    };
    if (failed == 0) failed = ::pthread_create(&thread_, &attributes, call, this);
    ::pthread_attr_destroy(&attributes);
  }
  if (failed != 0) {
    ::munmap(memory_, kMappedBytes);
    give_up(failed, "no thread");
  }
}

GuardedThread::~GuardedThread() {
  ::pthread_join(thread_, nullptr);
  ::munmap(memory_, kMappedBytes);
}

void GuardedThread::run() {
  stack_t handler{};
  handler.ss_sp = memory_ + kGuardBytes + kStackBytes;
  handler.ss_size = kHandlerBytes;
  stack_t before{};
  if (::sigaltstack(&handler, &before) == 0) guard_address = reinterpret_cast<std::uintptr_t>(memory_);
  work_();
  guard_address = 0;
  ::sigaltstack(&before, nullptr);  // a sanitizer's own
}

}  // namespace gezel::worker
