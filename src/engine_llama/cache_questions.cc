#include "engine_llama/cache_questions.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace gezel::engine_llama {

using engine::EngineError;
using engine::EngineResult;
using engine::make_error;

namespace {

// What the worker refuses. Its codes begin with "cache-"; what names something that is not there ends with
// "-unknown", the rest is about the state that the cache is in.
EngineError refusal(const protocol::CacheReply& reply) {
  if (!reply.code.starts_with("cache-")) return make_error(reply.code, reply.message);
  auto error = make_error("invalid-request", reply.message);
  const bool missing = reply.code.ends_with("-unknown");
  error.error.code = reply.code;
  error.error.kind = missing ? ErrorKind::not_found : ErrorKind::conflict;
  error.http_hint = missing ? 404 : 409;
  return error;
}

}  // namespace

std::optional<std::uint64_t> CacheQuestions::begin(bool computes) {
  const std::size_t alike = computes ? computing() : waiting_.size() - computing();
  if (alike >= (computes ? kMostWarms : kMostCacheQuestions)) return std::nullopt;
  const auto question = std::make_shared<Question>(loop_);
  question->computes = computes;
  waiting_.emplace(++last_id_, question);
  return last_id_;
}

std::size_t CacheQuestions::computing() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(waiting_, [](const auto& entry) { return entry.second->computes; }));
}

boost::asio::awaitable<EngineResult<engine::CacheReply>> CacheQuestions::wait(std::uint64_t id,
                                                                              engine::Timers& timers,
                                                                              MonotonicTime give_up) {
  const auto question = waiting_.at(id);
  const auto timer = timers.make();
  bool late = false;
  timer->arm(give_up, [&late, question = question.get()] {
    late = true;
    question->changed.notify();
  });
  while (!question->reply && !question->over && !late) {
    if (!co_await question->changed.wait()) break;
  }
  if (question->reply) co_return to_engine(std::move(*question->reply));
  if (question->over)
    co_return std::unexpected(make_error(
        "stream-dropped",
        "The engine ended before it answered about its cache. Ask again when the model is loaded."));
  co_return std::unexpected(
      late ? make_error("turn-timeout", "The engine did not answer about its cache in time.")
           : make_error("cancelled", "The request was cancelled."));
}

Result<> CacheQuestions::answer(std::string_view body) {
  GEZEL_TRY(auto reply, protocol::parse_cache_reply(body));
  const auto found = waiting_.find(reply.id);
  if (found == waiting_.end()) return {};
  found->second->reply = std::move(reply);
  found->second->changed.notify();
  return {};
}

void CacheQuestions::end() {
  for (const auto& [id, question] : waiting_) {
    question->over = true;
    question->changed.notify();
  }
}

protocol::CacheQuery to_protocol(std::uint64_t id, engine::CacheQuery query) {
  return {.id = id,
          .op = std::string(engine::cache_op_name(query.op)),
          .node = query.node,
          .session = std::move(query.session),
          .request = std::move(query.request),
          .text = query.op == engine::CacheQuery::Op::inspect || query.op == engine::CacheQuery::Op::explain};
}

std::optional<engine::PrefixBreak> to_engine(std::optional<protocol::PrefixBreak> found) {
  if (!found) return std::nullopt;
  return engine::PrefixBreak{found->matched,
                             found->previous,
                             found->at_message,
                             std::move(found->before_text),
                             std::move(found->now_text),
                             std::move(found->then_text)};
}

EngineResult<engine::CacheReply> to_engine(protocol::CacheReply reply) {
  if (!reply.code.empty()) return std::unexpected(refusal(reply));
  engine::CacheReply out{.nodes = {},
                         .tokens = reply.tokens,
                         .cached_tokens = reply.cached_tokens,
                         .count = reply.count,
                         .text = std::move(reply.text),
                         .prefix_break = to_engine(std::move(reply.prefix_break))};
  out.nodes.reserve(reply.nodes.size());
  for (auto& node : reply.nodes) {
    // The time is the worker's word and may be anything; a calendar ends somewhere.
    constexpr std::int64_t kLastMs = 253'402'300'799'999;  // of the year 9999
    out.nodes.push_back({node.id, node.parent, node.start, node.end, std::move(node.kind), node.hits,
                         node.pins, node.host_bytes, node.disk_bytes, node.slot,
                         WallTime(Millis(std::clamp<std::int64_t>(node.last_use_ms, 0, kLastMs)))});
  }
  return out;
}

}  // namespace gezel::engine_llama
