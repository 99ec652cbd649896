#include "worker/intake_guard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

namespace gezel::worker {
namespace {

using Cause = IntakeGuard::Cause;
using Work = IntakeGuard::Work;

struct WorkRow {
  Work work;
  Millis limit;
  std::string_view who;
  std::string_view code;
  std::string_view remedy;
};
constexpr std::string_view kOtherSource =
    "If ordinary messages do that, import the model from another source.";
constexpr std::array kRows = {
    WorkRow{Work::rendering, IntakeGuard::kRenderLimit, "The model's chat template", "model-invalid", kOtherSource},
    WorkRow{Work::tokenizing, IntakeGuard::kTokenizeLimit, "The model's tokenizer", "model-invalid", kOtherSource},
    WorkRow{Work::constraining, IntakeGuard::kConstrainLimit, "The compiler for the request's schema or tools",
            "constraint-rejected", "Use a simpler schema."},
};

const WorkRow& row_of(Work work) {
  return *std::ranges::find(kRows, work, &WorkRow::work);
}

std::string what_happened(const WorkRow& row, Cause cause) {
  switch (cause) {
    case Cause::memory:
      return fmt::format("{} took more memory than it may", row.who);
    case Cause::stack:
      return fmt::format("{} ran out of stack", row.who);
    case Cause::time:
      break;
  }
  return fmt::format("{} did not end within {} s", row.who, row.limit / Millis(1000));
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
  if (found && !cause && clock_.now() - found->since >= row_of(found->work).limit) cause = Cause::time;
  if (!cause) return std::nullopt;

  const Current now = found.value_or(Current{});
  protocol::Failed failed;
  failed.id = now.request;
  const WorkRow& row = row_of(now.work);
  failed.kind = protocol::kOverrunKind;
  failed.code = row.code;
  const std::string what = what_happened(row, *cause);
  failed.message =
      now.request ? fmt::format("{} for this request, so the engine was ended; it starts again with the next one. {}",
                                what, row.remedy)
                  : what + " in a test with a short conversation. Import the model from another source.";
  return failed;
}

}  // namespace gezel::worker
