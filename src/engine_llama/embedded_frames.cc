// What a worker's frames mean for the engine. What they mean for a request is in request_frames.cc. Anything
// unreadable or out of place ends the worker: it holds a model file's parser and cannot be trusted further.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "base/log.h"
#include "engine/on_pool.h"
#include "engine_llama/embedded_core.h"
#include "system/process_memory.h"

namespace gezel::engine_llama {

using engine::make_error;
using engine::StopReason;
using protocol::FrameType;

namespace {

std::unexpected<Error> out_of_place(const protocol::Frame& frame) {
  return fail(ErrorKind::corrupt, "protocol_error",
              fmt::format("frame '{}' ({}) is out of place", protocol::frame_name(frame.type),
                          static_cast<int>(frame.type)));
}

}  // namespace

void Core::on_frame(protocol::Frame frame) {
  if (!launch_) return;
  if (auto handled = handle(frame); !handled && launch_)
    launch_->kill(engine::kProtocolViolation, handled.error().message);
}

Result<> Core::handle(const protocol::Frame& frame) {
  if (stage_ == Stage::hello) return on_hello(frame);
  switch (frame.type) {
    case FrameType::pong:
      if (stage_ == Stage::ready && !desk_.empty() && parts_.clock.now() - stats_asked_ >= kStatsEvery)
        ask_for_stats();
      return {};
    case FrameType::phase: {
      GEZEL_TRY(auto phase, protocol::parse_phase(frame.body));
      if (stage_ != Stage::loading) return {};
      deadline_->observe(phase.phase, phase.progress, parts_.clock.now());
      arm_start_deadline();
      desk_.note_loading(static_cast<std::int64_t>(phase.progress * 1000));
      return {};
    }
    case FrameType::ready:
      return stage_ == Stage::loading ? on_ready(frame) : out_of_place(frame);
    case FrameType::stats_reply: {
      if (protocol::is_cache_reply(frame.body)) return cache_questions_.answer(frame.body);
      GEZEL_TRY(stats_, protocol::parse_stats(frame.body));
      desk_.note_decode_steps(stats_->decode_steps);
      stats_text_ = frame.body;
      ++stats_serial_;
      if (stage_ == Stage::ready && threads_ == load_.threads) calibrator_.note_pace(stats_->pace);
      stats_arrived_.notify();
      return {};
    }
    case FrameType::progress: {
      if (stage_ == Stage::ready) {
        if (!desk_.empty() && parts_.clock.now() - stats_asked_ >= kStatsEvery) ask_for_stats();
        return desk_.on_frame(frame);
      }
      GEZEL_TRY(auto progress, protocol::parse_progress(frame.body));
      if (progress.stage == "load" && progress.total > 0) {
        // Both numbers are the worker's word and may be anything.
        const double loaded =
            std::clamp(static_cast<double>(progress.done) / static_cast<double>(progress.total), 0.0, 1.0);
        deadline_->observe(progress.stage, loaded, parts_.clock.now());
        arm_start_deadline();
        desk_.note_loading(static_cast<std::int64_t>(loaded * 1000));
      }
      return {};
    }
    case FrameType::failed:
      return on_worker_failed(frame);
    case FrameType::done:
      if (const auto done = protocol::parse_done(frame.body)) calibrator_.note_done(*done);
      [[fallthrough]];
    case FrameType::started:
    case FrameType::step:
      return stage_ == Stage::ready ? desk_.on_frame(frame) : out_of_place(frame);
    case FrameType::measured:
      return stage_ == Stage::ready ? calibrator_.on_measured(frame.body) : out_of_place(frame);
    default:
      return out_of_place(frame);
  }
}

Result<> Core::on_hello(const protocol::Frame& frame) {
  if (frame.type != FrameType::hello_reply) return out_of_place(frame);
  GEZEL_TRY(auto hello, protocol::parse_hello(frame.body));
  if (hello.protocol != protocol::kProtocolVersion) {
    settle(std::unexpected(
        make_error("protocol-mismatch",
                   fmt::format("The installed gezel-engine speaks protocol {}, this gezel speaks {}. "
                               "Install both from the same version.",
                               hello.protocol, protocol::kProtocolVersion))));
    stop_launch(StopReason::startup_abort);
    return {};
  }
  stage_ = Stage::loading;
  launch_->snapshot().diagnostics["upstreamRevision"] = hello.build;
  launch_->send(protocol::encode(load_));
  arm_start_deadline();
  return {};
}

Result<> Core::on_ready(const protocol::Frame& frame) {
  GEZEL_TRY(granted_, protocol::parse_ready(frame.body));
  if (granted_.slots < 1 || granted_.context_per_slot < 1)
    return fail(ErrorKind::corrupt, "protocol_error",
                fmt::format("ready grants {} slots of {} tokens", granted_.slots, granted_.context_per_slot));
  stage_ = Stage::ready;
  apply_manners();
  auto& snapshot = launch_->snapshot();
  snapshot.reached_ready = true;
  snapshot.diagnostics["contextPerSlot"] = granted_.context_per_slot;
  snapshot.diagnostics["slots"] = granted_.slots;
  snapshot.diagnostics["kvCacheType"] = granted_.kv_type;
  snapshot.diagnostics["flashAttention"] = granted_.flash_attention;
  quarantine_.record_ready(identity_);
  if (granted_.slots < load_.slots || granted_.context_per_slot < load_.context_per_slot)
    log_warn("the engine granted less than planned",
             {{"model", model_id_},
              {"slots", fmt::format("{} of {}", granted_.slots, load_.slots)},
              {"context", fmt::format("{} of {}", granted_.context_per_slot, load_.context_per_slot)}});
  if (!granted_.chat_template.empty() && !std::exchange(template_noted_, true))
    log_warn("the model file has no chat template; a default is used",
             {{"model", model_id_}, {"template", granted_.chat_template}});
  if (options_.sandbox && granted_.sandbox != "full")
    log_warn("the engine is not fully locked down", {{"model", model_id_}, {"missing", granted_.sandbox}});
  note_draft();
  if (seat_)
    seat_->loaded(capacity::DryRun{.weights = granted_.weights_bytes,
                                   .repack = granted_.repack_bytes,
                                   .kv = granted_.kv_bytes,
                                   .compute = granted_.compute_bytes,
                                   .process = process_bytes_}
                      .total() +
                  load_.cache.host_bytes);
  settle({});
  return {};
}

void Core::note_draft() {
  if (!granted_.draft_trouble.empty())
    draft_note_ = capacity::Note{capacity::NoteLevel::warn, granted_.draft_trouble};
  if (!draft_note_) return;
  (draft_note_->level == capacity::NoteLevel::warn ? log_warn : log_info)(
      "no draft model is used", {{"model", model_id_}, {"reason", draft_note_->text}});
}

Result<> Core::on_worker_failed(const protocol::Frame& frame) {
  GEZEL_TRY(auto failed, protocol::parse_failed(frame.body));
  if (failed.id) return stage_ == Stage::ready ? desk_.on_frame(frame) : out_of_place(frame);
  auto error = error_from(failed);
  log_error("the engine gave up",
            {{"model", model_id_}, {"code", error.error.code}, {"reason", error.error.message}});
  if (stage_ == Stage::loading) {
    // A refused load is no crash. Only a verdict about the file itself is worth remembering.
    if (failed.code == "model-invalid" && loaded_)
      refusal_ = Refusal{loaded_->model.weights, loaded_->stamp, error};
    settle(std::unexpected(std::move(error)));
    stop_launch(StopReason::startup_abort);
    return {};
  }
  desk_.fail_all([&](const Run& run) {
    auto mine = error;
    mine.characters_delivered = run.characters;
    return mine;
  });
  stop_launch(StopReason::health_restart);
  return {};
}

void Core::ask_for_stats() {
  stats_asked_ = parts_.clock.now();
  if (launch_) launch_->send(protocol::encode_empty(FrameType::stats));
  observe_memory();
}

// The kernel walks the worker's page tables for this, so it is done beside the loop.
void Core::observe_memory() {
  // What a calibration takes for a while has a seat of its own.
  if (!seat_ || !launch_ || calibrator_.holds_memory()) return;
  asio::co_spawn(
      parts_.loop,
      [self = shared_from_this(), pid = launch_->pid(), generation = generation_]() -> asio::awaitable<void> {
        const auto memory =
            co_await engine::on_pool(self->parts_.pool, [pid] { return system::read_process_memory(pid); });
        if (memory && self->seat_ && self->generation_ == generation) self->seat_->observed(memory->held());
      },
      asio::detached);
}

}  // namespace gezel::engine_llama
