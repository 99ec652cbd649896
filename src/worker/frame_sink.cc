#include "worker/frame_sink.h"

#include <string>

namespace gezel::worker {

void FrameSink::on_emissions(std::vector<scheduler::Emission> emissions) {
  protocol::Step step;
  step.runs.reserve(emissions.size());
  for (scheduler::Emission& emission : emissions) {
    protocol::StepRun run{emission.id, std::move(emission.text), emission.tokens, {}};
    for (const scheduler::TokenLogprob& entry : emission.logprobs) {
      protocol::TokenLogprob out{std::string(vocab_.piece(entry.token)), entry.logprob, {}};
      for (const sampling::Candidate& candidate : entry.top) {
        out.top.push_back({std::string(vocab_.piece(candidate.token, true)), candidate.logprob, {}});
      }
      run.logprobs.push_back(std::move(out));
    }
    step.runs.push_back(std::move(run));
  }
  outbox_.push(std::move(step));
}

void FrameSink::on_prefill(scheduler::RunId id, std::int64_t done, std::int64_t total) {
  progress(id, "prefill", 0, done, total);
}

void FrameSink::on_queued(scheduler::RunId id, std::int64_t ahead) {
  progress(id, "queued", ahead, 0, 0);
}

void FrameSink::on_done(const scheduler::RunResult& result) {
  if (const auto silent = silent_.find(result.id); silent != silent_.end()) {
    silent->second(&result, {});
    silent_.erase(silent);
    return;
  }
  protocol::Done done;
  done.id = result.id;
  done.reason = result.length ? "length" : "stop";
  done.prompt_tokens = result.prompt_tokens;
  done.completion_tokens = result.completion_tokens;
  done.cached_tokens = result.cached_tokens;
  done.prompt_n = result.prompt_tokens - result.cached_tokens;
  done.prompt_ms = result.prompt_ms;
  done.predicted_n = result.completion_tokens;
  done.predicted_ms = result.predicted_ms;
  done.reasoning_tokens = result.steering.reasoning_tokens;
  done.repetition = result.steering.repetition;
  done.cached = {result.cached.slot, result.cached.host, result.cached.disk, result.cached.coalesced};
  if (const auto found = breaks_.find(result.id); found != breaks_.end()) {
    done.prefix_break = std::move(found->second);
    breaks_.erase(found);
  }
  outbox_.push(std::move(done));
}

void FrameSink::on_failed(scheduler::RunId id, scheduler::RunError error, std::string_view detail) {
  breaks_.erase(id);
  if (const auto silent = silent_.find(id); silent != silent_.end()) {
    silent->second(nullptr,
                   error == scheduler::RunError::cancelled ? "it was cancelled" : "the engine failed");
    silent_.erase(silent);
    return;
  }
  protocol::Failed failed;
  failed.id = id;
  switch (error) {
    case scheduler::RunError::cancelled:
      failed.kind = failed.code = "cancelled";
      failed.message = "the request was cancelled";
      break;
    case scheduler::RunError::internal:
      failed.kind = "internal";
      failed.code = "engine-internal";
      failed.message = "the engine refused to compute this request's tokens; other requests are not affected";
      break;
    case scheduler::RunError::constraint:
      failed.kind = "constraint_failed";
      failed.code = "constraint-failed";
      failed.message = "the output could not be kept to its schema or grammar: " + std::string(detail);
      break;
    case scheduler::RunError::engine_failed:
      failed.kind = "crashed";
      failed.code = "engine-crashed";
      failed.message = "the compute backend failed; the engine restarts";
      failed.retry = "same_engine";
      break;
  }
  outbox_.push(std::move(failed));
}

void FrameSink::progress(scheduler::RunId id, const char* stage, std::int64_t ahead, std::int64_t done,
                         std::int64_t total) {
  if (silent_.contains(id)) return;
  protocol::Progress progress;
  progress.id = id;
  progress.stage = stage;
  progress.ahead = ahead;
  progress.done = done;
  progress.total = total;
  progress.decode_steps = decode_steps_();
  outbox_.push(std::move(progress));
}

}  // namespace gezel::worker
