#include "http/answer.h"

#include <boost/asio/steady_timer.hpp>

#include "api/cache_headers.h"
#include "api/chat_constraints.h"
#include "api/chat_turn.h"
#include "api/queue_headers.h"
#include "base/log.h"
#include "http/feed.h"
#include "http/replies.h"

namespace gezel::http {
namespace {

using std::chrono::steady_clock;
using Deadline = steady_clock::time_point;

Deadline after(Deadline from, Millis wait) {
  return wait.count() > 0 ? from + wait : Deadline::max();
}

api::ApiError turn_timeout(Millis limit) {
  api::ApiError error;
  error.status = 504;
  error.code = "turn_timeout";
  error.message =
      "the answer took longer than " + std::to_string(limit.count() / 1000) + " s, the limit of one turn";
  error.should_not_retry = true;
  return error;
}

// One answer from its first event to its last.
class Answer {
 public:
  Answer(Call& call, const api::ChatRequest& request, std::vector<std::string> warnings,
         std::unique_ptr<api::ReplyForm> form, std::shared_ptr<Feed> feed)
      : call_(call),
        timings_(call.services.chat),
        feed_(std::move(feed)),
        form_(std::move(form)),
        stream_(request.stream),
        progress_(request.return_progress),
        logprobs_(request.generate.logprobs),
        debug_(request.generate.prefix_snippets),
        caller_(request.caller),
        model_(request.model),
        turn_(request, std::move(warnings), call.services.entropy) {}

  asio::awaitable<void> run() {
    while (!finished_) {
      const Deadline wait = next_deadline();
      if (!co_await feed_->wait_until(wait)) {
        co_await on_silence();
        continue;
      }
      if (feed_->cancelled()) {
        co_await on_cancelled(*feed_->cancelled());
        co_return;
      }
      feed_->rethrow();
      if (feed_->refusal()) {
        co_await fail(*feed_->refusal());
        co_return;
      }
      co_await on_event(*feed_->event());
      feed_->consume();
    }
  }

  void log_outcome(std::string_view surface) const {
    const auto ms = std::chrono::duration_cast<Millis>(steady_clock::now() - begin_).count();
    log_info(surface, {{"request_id", call_.request_id},
                       {"app", call_.caller.app_id},
                       {"model", model_},
                       {"outcome", outcome_},
                       {"prompt_tokens", std::to_string(usage_.prompt_tokens)},
                       {"cached_tokens", std::to_string(usage_.cached_tokens)},
                       {"completion_tokens", std::to_string(usage_.completion_tokens)},
                       {"ms", std::to_string(ms)}});
    // Numbers only: the text is its owner's.
    if (prefix_break_)
      log_info("prefix break",
               {{"request_id", call_.request_id}, {"at", api::prefix_break_header(*prefix_break_)}});
  }

 private:
  Deadline next_deadline() const {
    const Deadline turn_end = after(begin_, timings_.turn_limit);
    if (!stream_) return turn_end;
    const Deadline next =
        committed_ ? after(last_write_, timings_.keepalive) : after(begin_, timings_.commit);
    return std::min(turn_end, next);
  }

  asio::awaitable<void> on_silence() {
    if (steady_clock::now() >= after(begin_, timings_.turn_limit)) {
      co_await fail(turn_timeout(timings_.turn_limit));
    } else if (!committed_) {
      co_await commit();
    } else {
      co_await write(form_->keepalive(waits_));
    }
  }

  asio::awaitable<void> on_cancelled(api::CancelReason reason) {
    if (reason == api::CancelReason::stopping) {
      co_await fail(api::shutting_down());
    } else {
      outcome_ = "client_gone";
      finished_ = true;
    }
  }

  asio::awaitable<void> on_event(const engine::Event& event) {
    if (const auto* started = std::get_if<engine::Started>(&event)) {
      cached_tokens_ = started->cached_tokens;
      prefix_break_ = started->prefix_break;
      started_at_ = steady_clock::now();
      waits_.reset();
      turn_.start(*started);
      for (const auto& warning : started->warnings) {
        log_warn(warning, {{"request_id", call_.request_id}, {"model", model_}});
      }
      if (stream_ && !committed_) co_await commit();
    } else if (const auto* delta = std::get_if<engine::TextDelta>(&event)) {
      co_await on_text(*delta);
    } else if (const auto* progress = std::get_if<engine::Progress>(&event)) {
      co_await on_progress(*progress);
    } else if (const auto* done = std::get_if<engine::Done>(&event)) {
      co_await on_done(*done);
    } else if (const auto* failed = std::get_if<engine::Failed>(&event)) {
      co_await fail(api::from_engine(failed->error));
    }
  }

  asio::awaitable<void> on_progress(const engine::Progress& progress) {
    using enum engine::Progress::Stage;
    waits_ = progress.stage == queued ? std::optional(progress) : std::nullopt;
    if (!progress_ || !committed_) co_return;
    if (progress.stage == queued) {
      co_await write_progress(form_->queued(progress));
    } else if (progress.stage == prefill) {
      const auto ms = std::chrono::duration_cast<Millis>(steady_clock::now() - started_at_).count();
      co_await write_progress(form_->prefill(progress, cached_tokens_, ms));
    }
  }

  asio::awaitable<void> on_text(const engine::TextDelta& delta) {
    const turn::Events events = turn_.feed(delta.text);
    if (!stream_) {
      if (logprobs_) all_logprobs_.insert(all_logprobs_.end(), delta.logprobs.begin(), delta.logprobs.end());
      co_return;
    }
    std::string frames = form_->delta(events, delta.logprobs);
    if (!frames.empty()) {
      if (!committed_) co_await commit();
      co_await write(std::move(frames));
    }
    if (const auto fault = form_->fault()) co_await fail(*fault);
  }

  asio::awaitable<void> on_done(engine::Done done) {
    usage_ = done.usage;
    // How the earlier prompt went on may be what another application asked: only the machine's owner reads it.
    if (done.prefix_break && !call_.caller.allows("ui")) done.prefix_break->then.clear();
    if (done.prefix_break) prefix_break_ = done.prefix_break;
    api::ChatTurn::Finished finished = turn_.finish(done);
    finished.message.show_prefix_break = debug_;
    if (finished.error) {
      co_await fail(*finished.error);
      co_return;
    }
    const bool calls = !finished.message.calls.empty();
    // Before the client can send them back.
    if (calls) co_await call_.services.inference.keep_calls(caller_, model_, finished.message);
    outcome_ = calls ? "tool_calls" : done.reason == engine::FinishReason::length ? "length" : "stop";
    finished_ = true;
    if (!stream_) {
      co_await call_.reply(200, form_->whole(finished.message, all_logprobs_, done), break_header());
      co_return;
    }
    if (!committed_) co_await commit();
    co_await write(form_->end(finished.events, finished.message, done));
    if (const auto fault = form_->fault()) {
      co_await fail(*fault);
      co_return;
    }
    co_await call_.response.end_stream();
  }

  // Only where it is known by now.
  api::Headers break_header() const {
    if (!prefix_break_) return {};
    return {{"x-gezel-prefix-break", api::prefix_break_header(*prefix_break_)}};
  }

  asio::awaitable<void> commit() {
    committed_ = true;
    api::Headers headers = event_stream_headers();
    for (auto& header : break_header()) headers.push_back(std::move(header));
    if (!co_await call_.response.start_stream(200, std::move(headers))) co_return;
    co_await write(form_->opener());
    if (progress_ && waits_ && !finished_) co_await write_progress(form_->queued(*waits_));
  }

  asio::awaitable<void> write_progress(std::string bytes) {
    if (!bytes.empty()) co_await write(std::move(bytes));
  }

  asio::awaitable<void> write(std::string bytes) {
    const bool there = co_await call_.response.write(std::move(bytes));
    last_write_ = steady_clock::now();
    if (!there) {
      outcome_ = "client_gone";
      finished_ = true;
    }
  }

  asio::awaitable<void> fail(const api::ApiError& error) {
    outcome_ = error.code;
    finished_ = true;
    if (!call_.response.started()) {
      co_await call_.fail(error);
      co_return;
    }
    call_.log_failure(error);
    co_await call_.response.write(form_->failure(error, call_.request_id));
    co_await call_.response.end_stream();
  }

  Call& call_;
  const ChatTimings& timings_;
  std::shared_ptr<Feed> feed_;
  const std::unique_ptr<api::ReplyForm> form_;
  const bool stream_, progress_, logprobs_, debug_;
  const std::string caller_, model_;
  const Deadline begin_ = steady_clock::now();
  Deadline last_write_ = begin_, started_at_ = begin_;
  bool committed_ = false, finished_ = false;
  std::int64_t cached_tokens_ = 0;
  std::optional<engine::PrefixBreak> prefix_break_;
  std::optional<engine::Progress> waits_;  // what it waits for, while it does
  std::vector<engine::TokenLogprob> all_logprobs_;
  api::ChatTurn turn_;
  engine::Usage usage_;
  std::string outcome_ = "failed";
};

ReplyIdentity identity(const Call& call, const std::string& model) {
  const json::object health = call.services.inference.health().as_object();
  return {unix_seconds(call.services.clock.wall_now()), model,
          "gezel-" + string_or(health, "version", "unknown")};
}

// What the headers say, then what is asked of the answer's form. The warnings for the reply, or why it cannot
// be.
asio::awaitable<api::ApiResult<std::vector<std::string>>> check(Call& call, api::ChatRequest& request) {
  if (auto terms = api::read_queue_headers(call.request.headers, request.generate); !terms)
    co_return std::unexpected(terms.error());
  if (auto hints = api::read_cache_headers(call.request.headers, call.caller.app_id, request.generate);
      !hints)
    co_return std::unexpected(hints.error());
  if (!api::has_constraints(request.generate)) co_return std::vector<std::string>();
  co_return co_await engine::on_pool(call.services.pool.get_executor(),
                                     [&request] { return api::check_constraints(request.generate); });
}

}  // namespace

asio::awaitable<void> answer(Call& call, api::ChatRequest request, std::string_view surface,
                             MakeForm make_form) {
  auto warnings = co_await check(call, request);
  if (!warnings) {
    co_await call.fail(warnings.error());
    co_return;
  }
  if (request.model.empty()) {
    auto model = co_await call.services.inference.default_model();
    if (!model) {
      co_await call.fail(model.error());
      co_return;
    }
    request.model = std::move(*model);  // who named none is told which one answered
  }
  const std::uint64_t body_bytes = call.request.body.size();
  call.request.body = {};  // up to 64 MiB that the generation does not need
  request.caller = call.caller.app_id;
  request.generate.tenant = call.caller.app_id;
  request.generate.session_key =
      api::affinity_key(call.request.headers, request.generate.session_key, call.caller.app_id);

  const auto feed = std::make_shared<Feed>(call.services.loop);
  // However this ends, the generation ends with it.
  struct Guard {
    Call& call;
    Feed& feed;
    ~Guard() {
      call.response.on_cancel({});
      feed.close();
    }
  } guard{call, *feed};
  call.response.on_cancel([feed](api::CancelReason reason) { feed->cancel(reason); });

  Answer answer(call, request, std::move(*warnings), make_form(identity(call, request.model)), feed);
  feed->start(call.services.inference, std::move(request));
  // A long generation does not have to end first.
  if (call.services.heap != nullptr) call.services.heap->freed(body_bytes);
  co_await answer.run();
  answer.log_outcome(surface);
}

}  // namespace gezel::http
