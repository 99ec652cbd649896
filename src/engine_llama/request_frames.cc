// What the worker's frames mean for its requests. A frame about a request that is not here any more is no
// fault: it crossed our cancel on the way. A frame that cannot be read, or claims what cannot be, is one.
#include <fmt/format.h>

#include "base/utf8.h"
#include "engine/exit.h"
#include "engine_llama/cache_questions.h"
#include "engine_llama/request_desk.h"

namespace gezel::engine_llama {

using engine::make_error;

namespace {

engine::TokenLogprob to_engine(protocol::TokenLogprob& logprob) {
  engine::TokenLogprob out{sanitize_utf8(logprob.bytes), std::move(logprob.bytes), logprob.logprob, {}};
  for (auto& top : logprob.top) out.top.push_back(to_engine(top));
  return out;
}

engine::Retry retry_from(std::string_view word, engine::Retry fallback) {
  if (word == "never") return engine::Retry::never;
  if (word == "same_engine") return engine::Retry::same_engine;
  if (word == "other_engine") return engine::Retry::other_engine;
  if (word == "after") return engine::Retry::after;
  return fallback;
}

}  // namespace

engine::EngineError error_from(const protocol::Failed& failed) {
  auto error = engine::make_error(failed.code, failed.message, failed.param);
  error.retry = retry_from(failed.retry, error.retry);
  if (error.retry == engine::Retry::after && error.retry_after_ms == 0) error.retry_after_ms = 1'000;
  error.prompt_tokens = failed.prompt_tokens;
  error.context_tokens = failed.context_tokens;
  return error;
}

Result<> RequestDesk::on_frame(const protocol::Frame& frame) {
  switch (frame.type) {
    case protocol::FrameType::started:
      return on_started(frame.body);
    case protocol::FrameType::step:
      return on_step(frame.body);
    case protocol::FrameType::progress:
      return on_progress(frame.body);
    case protocol::FrameType::done:
      return on_done(frame.body);
    case protocol::FrameType::failed:
      return on_failed(frame.body);
    default:
      return fail(ErrorKind::corrupt, "protocol_error",
                  fmt::format("unexpected frame '{}' ({})", protocol::frame_name(frame.type),
                              static_cast<int>(frame.type)));
  }
}

Result<> RequestDesk::on_started(std::string_view body) {
  GEZEL_TRY(auto started, protocol::parse_started(body));
  const auto run = find(started.id);
  if (run) leave_intake(*run);
  if (!run || std::exchange(run->started, true))
    return {};  // a second attempt starts again; the client knows
  run->prompt_tokens = started.prompt_tokens;
  run->cached_tokens = started.cached_tokens;
  run->push(engine::Started{started.prompt_tokens, started.cached_tokens, started.reasoning_open,
                            std::move(started.warnings), style_.family, started.splits_reasoning,
                            std::move(started.call_spellings), style_.reasoning_open, style_.reasoning_close,
                            style_.behaviors.capture_pre_tool_prose, std::move(started.tuning_profile),
                            to_engine(started.prefix_break)});
  return {};
}

Result<> RequestDesk::on_step(std::string_view body) {
  GEZEL_TRY(auto step, protocol::parse_step(body));
  for (auto& run : step.runs) GEZEL_CHECK(on_step_run(run));
  const auto now = clock_.now();
  if (now - used_at_ >= kUsedEvery) {
    used_at_ = now;
    hooks_.used();
  }
  return {};
}

Result<> RequestDesk::on_step_run(protocol::StepRun& step) {
  const auto run = find(step.id);
  if (!run) return {};
  leave_intake(*run);
  run->in_slot = true;
  run->tokens += step.tokens;
  if (!run->watchdog.started()) {
    run->watchdog.start(clock_.now(), decode_steps_);
    arm_watch();
  }
  run->watchdog.alive(clock_.now(), decode_steps_);
  if (step.text.empty() && step.logprobs.empty()) return {};
  if (!step.text.empty()) {
    const bool first = run->characters == 0;
    run->watchdog.text();
    if (first) arm_watch();  // the budget between texts is shorter
    run->request = {};       // what was said cannot be taken back: never tried again
  }
  engine::TextDelta delta{std::move(step.text), {}};
  for (auto& logprob : step.logprobs) delta.logprobs.push_back(to_engine(logprob));
  run->push(std::move(delta));
  if (run->unsent_bytes > kOverflowBytes)
    return fail(ErrorKind::corrupt, "protocol_error",
                fmt::format("request {} goes on although it was paused: {} unsent, limit {}", run->id,
                            format_bytes(run->unsent_bytes), format_bytes(kOverflowBytes)));
  if (run->unsent_bytes > kPauseBytes && run->place == Run::Place::admitted &&
      !std::exchange(run->paused, true)) {
    run->watchdog.pause();
    hooks_.send(protocol::encode(protocol::Control{run->id, "pause"}));
  }
  return {};
}

void RequestDesk::taken(Run& run) {
  if (!run.paused || run.place != Run::Place::admitted || run.unsent_bytes >= kResumeBytes) return;
  run.paused = false;
  run.watchdog.resume(clock_.now());
  arm_watch();
  hooks_.send(protocol::encode(protocol::Control{run.id, "resume"}));
}

Result<> RequestDesk::on_progress(std::string_view body) {
  GEZEL_TRY(auto progress, protocol::parse_progress(body));
  note_decode_steps(progress.decode_steps);
  if (!progress.id) return {};  // a heartbeat
  const auto run = find(*progress.id);
  if (!run) return {};
  leave_intake(*run);
  const auto now = clock_.now();
  if (progress.stage == "queued") {
    if (now - run->since >= kNoticeAfter && progress.ahead != std::exchange(run->last_ahead, progress.ahead))
      run->push(engine::Progress{engine::Progress::Stage::queued, progress.ahead, 0, 0});
    return {};
  }
  if (progress.stage != "prefill") return {};
  run->in_slot = true;
  if (!run->watchdog.started()) {
    run->watchdog.start(now, decode_steps_);
    arm_watch();
  } else if (progress.done != run->prefill_done) {
    run->watchdog.alive(now, decode_steps_);
  }
  run->prefill_done = progress.done;
  run->prefill_total = progress.total;
  run->push(engine::Progress{engine::Progress::Stage::prefill, 0, progress.done, progress.total});
  return {};
}

Result<> RequestDesk::on_done(std::string_view body) {
  GEZEL_TRY(auto done, protocol::parse_done(body));
  const auto run = find(done.id);
  if (!run) return {};
  if (run->place == Run::Place::admitted) {
    engine::Done event;
    event.reason = done.reason == "length" ? engine::FinishReason::length : engine::FinishReason::stop;
    event.usage = {done.prompt_tokens,
                   done.completion_tokens,
                   done.cached_tokens,
                   done.reasoning_tokens,
                   {done.cached.slot, done.cached.host, done.cached.disk, done.cached.coalesced}};
    event.prefix_break = to_engine(done.prefix_break);
    if (hooks_.answered) hooks_.answered(run->session, event.usage);
    event.repetition = done.repetition;
    event.timings = {done.cached_tokens, done.prompt_n, done.predicted_n,     done.prompt_ms,
                     done.predicted_ms,  done.draft_n,  done.draft_n_accepted};
    run->end(std::move(event));
  }
  leave(run);
  return {};
}

// A prompt that the loaded window does not hold: it waits for a longer one, or for its turn with what there
// is. Else the error it ends with.
std::optional<engine::EngineError> RequestDesk::wait_for_window(Run& run, std::int64_t needed,
                                                                engine::EngineError said) {
  const bool had_been_possible = needed <= std::exchange(run.told_possible, 0);
  const auto wished = std::exchange(run.needs, needed);
  run.too_long = std::move(said);
  auto refused = hooks_.needs_longer(run);
  if (refused && !had_been_possible) return refused;
  if (refused) {
    run.needs = wished;
    run.settles = true;  // a shorter answer, if the worker finds room for one
  }
  if (!wait_again(run))
    return make_error("engine-busy", "Too many requests for this model wait already. Try again in a moment.");
  admit();
  hooks_.left();  // the worker has one less
  return std::nullopt;
}

Result<> RequestDesk::on_failed(std::string_view body) {
  GEZEL_TRY(auto failed, protocol::parse_failed(body));
  const auto run = failed.id ? find(*failed.id) : nullptr;
  if (!run) return {};
  if (failed.kind == protocol::kOverrunKind) {
    // The worker's last word. The request ends with the worker, when the incident is on disk.
    run->verdict = error_from(failed);
    run->verdict->characters_delivered = run->characters;
    hooks_.broken(engine::kTemplateOverrun, failed.message);
    return {};
  }
  if (run->place == Run::Place::admitted) {
    auto error = error_from(failed);
    error.characters_delivered = run->characters;
    if (failed.needed_tokens > window_ && !run->started) {
      auto refused = wait_for_window(*run, failed.needed_tokens, std::move(error));
      if (!refused) return {};
      error = std::move(*refused);
    }
    run->end(engine::Failed{std::move(error)});
  }
  leave(run);
  return {};
}

}  // namespace gezel::engine_llama
