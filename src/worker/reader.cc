#include "worker/reader.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/log.h"
#include "protocol/messages.h"
#include "worker/exit_codes.h"

namespace gezel::worker {
namespace {

using protocol::FrameType;

Result<> not_ready() {
  return fail(ErrorKind::invalid, "protocol_error", "a request came before `ready`");
}

}  // namespace

void Reader::attach(Intake* intake, scheduler::Scheduler* scheduler) {
  const std::lock_guard lock(mutex_);
  intake_ = intake;
  scheduler_ = scheduler;
}

void Reader::run() {
  // A load or a step that is under way is not waited for.
  while (true) {
    auto frame = inbox_.next();
    if (frame && !*frame) ::_exit(kExitDaemonGone);
    auto handled = frame ? handle(**frame) : Result<>(std::unexpected(frame.error()));
    if (handled) continue;
    log_error("the daemon broke the protocol", {{"reason", handled.error().message}});
    ::_exit(kExitProtocol);
  }
}

Result<> Reader::handle(const protocol::Frame& frame) {
  const std::lock_guard lock(mutex_);
  switch (frame.type) {
    case FrameType::generate: {
      if (intake_ == nullptr) return not_ready();
      auto request = protocol::parse_generate(frame.body);
      if (request) {
        intake_->submit(std::move(*request));
        return {};
      }
      // One request that cannot be read costs that request, not the others of this worker.
      const auto id = protocol::peek_id(frame.body);
      if (!id) return std::unexpected(request.error());
      protocol::Failed failed;
      failed.id = *id;
      failed.kind = "invalid_request";
      failed.code = "invalid-request";
      failed.message = request.error().message;
      outbox_.push(std::move(failed));
      return {};
    }
    case FrameType::tokens: {
      GEZEL_TRY(auto query, protocol::parse_tokens_query(frame.body));
      if (intake_ == nullptr) return not_ready();
      intake_->submit(std::move(query));
      return {};
    }
    case FrameType::cancel: {
      GEZEL_TRY(const auto id, protocol::parse_cancel(frame.body));
      if (intake_ == nullptr) return not_ready();
      if (!intake_->cancel(id)) {
        // In this order: when the abort ends the prefill call, the cancel is already there.
        commands_.push(Cancel{id});
        scheduler_->request_abort(id);
      }
      return {};
    }
    case FrameType::control: {
      GEZEL_TRY(const auto control, protocol::parse_control(frame.body));
      if (control.action == "pause" || control.action == "resume") {
        commands_.push(Pause{control.id, control.action == "pause"});
      } else if (control.action == "set_threads") {
        if (!control.threads)
          return fail(ErrorKind::invalid, "protocol_error", "set_threads names no number", "threads");
        commands_.push(SetThreads{*control.threads});  // also before `ready`: it is for the first step then
      }
      return {};
    }
    case FrameType::cache: {
      auto query = protocol::parse_cache_query(frame.body);
      if (!query) {
        // As with a request: it costs whoever asked.
        const auto id = protocol::peek_id(frame.body);
        if (!id) return std::unexpected(query.error());
        protocol::CacheReply reply;
        reply.id = *id;
        reply.code = "invalid-request";
        reply.message = query.error().message;
        outbox_.push(std::move(reply));
        return {};
      }
      if (intake_ == nullptr) return not_ready();
      if (query->request) {
        intake_->submit(std::move(*query));
      } else {
        commands_.push(CacheCommand{std::move(*query), std::nullopt});
      }
      return {};
    }
    case FrameType::ping:
      outbox_.pong();
      return {};
    case FrameType::stats:
      commands_.push(StatsQuery{});
      return {};
    case FrameType::drain:
      commands_.push(Stop{});
      return {};
    default:
      return fail(ErrorKind::invalid, "protocol_error",
                  fmt::format("frame type {} is not for a worker", static_cast<int>(frame.type)));
  }
}

}  // namespace gezel::worker
