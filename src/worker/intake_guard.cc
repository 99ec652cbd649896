#include "worker/intake_guard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace gezel::worker {
namespace {

using Cause = IntakeGuard::Cause;
using Work = IntakeGuard::Work;

Millis limit_of(Work work) {
  return work == Work::rendering ? IntakeGuard::kRenderLimit : IntakeGuard::kTokenizeLimit;
}

std::string what_happened(Work work, Cause cause) {
  const auto* who = work == Work::rendering ? "chat template" : "tokenizer";
  switch (cause) {
    case Cause::memory:
      return fmt::format("The model's {} took more memory than it may", who);
    case Cause::stack:
      return fmt::format("The model's {} ran out of stack", who);
    case Cause::time:
      break;
  }
  return fmt::format("The model's {} did not end within {} s", who, limit_of(work) / Millis(1000));
}

}  // namespace

IntakeGuard::IntakeGuard(const Clock& clock) : clock_(clock) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
    throw std::system_error(errno, std::generic_category(), "no pipe");
  overrun_read_ = Fd(ends[0]);
  overrun_write_ = Fd(ends[1]);
}

void IntakeGuard::enter(std::optional<std::uint64_t> request) {
  const std::lock_guard lock(mutex_);
  current_ = Current{request, Work::rendering, clock_.now()};
}

void IntakeGuard::leave() {
  const std::lock_guard lock(mutex_);
  current_.reset();
}

void IntakeGuard::begin(Work work) {
  const std::lock_guard lock(mutex_);
  if (!current_) return;
  current_->work = work;
  current_->since = clock_.now();
}

std::optional<IntakeGuard::Current> IntakeGuard::current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

void IntakeGuard::overrun(Cause cause) {
  const char byte = static_cast<char>(cause);
  (void)!::write(overrun_write_.get(), &byte, 1);
}

std::optional<protocol::Failed> IntakeGuard::look(Millis wait) {
  pollfd waiting{.fd = overrun_read_.get(), .events = POLLIN, .revents = 0};
  ::poll(&waiting, 1, static_cast<int>(wait.count()));
  std::optional<Cause> cause;
  char byte = 0;
  if (::read(overrun_read_.get(), &byte, 1) == 1) cause = static_cast<Cause>(byte);
  const auto found = current();
  if (found && !cause && clock_.now() - found->since >= limit_of(found->work)) cause = Cause::time;
  if (!cause) return std::nullopt;

  const Current now = found.value_or(Current{});
  protocol::Failed failed;
  failed.id = now.request;
  failed.kind = "model_invalid";
  failed.code = "model-invalid";
  failed.message = what_happened(now.work, *cause);
  failed.message +=
      now.request ? " for this request, so the engine was ended; it starts again with the next one. If ordinary "
                    "messages do that, import the model from another source."
                  : " in a test with a short conversation. Import the model from another source.";
  return failed;
}

}  // namespace gezel::worker
