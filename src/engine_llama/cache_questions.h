// engine_llama/cache_questions.h
//
// What was asked of the worker's prefix cache and is not answered yet: frame `cache` and its reply (spec 40
// section 11.15a.2). Knows nothing of processes: its owner sends the frame, feeds replies in and says when
// the worker is gone.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/engine.h"
#include "engine/timers.h"
#include "engine/wakeup.h"
#include "protocol/messages.h"

namespace gezel::engine_llama {

inline constexpr std::size_t kMostCacheQuestions = 64;  // of one worker at a time
inline constexpr std::size_t kMostWarms = 8;            // prompts that are computed for later, besides
inline constexpr Millis kCacheTime{120'000};            // for an answer; a disk may be slow
inline constexpr Millis kTrimTime{10'000};              // for memory that another model waits for
inline constexpr Millis kWarmTime{28'800'000};          // for one that computes a prompt: a whole turn

class CacheQuestions {
 public:
  explicit CacheQuestions(boost::asio::any_io_executor loop) : loop_(std::move(loop)) {}

  struct Question {
    explicit Question(const boost::asio::any_io_executor& loop) : changed(loop) {}
    std::optional<protocol::CacheReply> reply;
    bool computes = false;
    bool over = false;  // nothing more will come
    engine::Wakeup changed;
  };
  // A question with a number of its own; nothing when too many of its kind wait already: those that compute a
  // prompt take long, and the others must not wait for them. It counts until forgotten.
  std::optional<std::uint64_t> begin(bool computes);
  // Prompts that the worker computes, or has in its queue.
  std::size_t computing() const;
  // Waits for the reply, the end of the worker or the timer.
  boost::asio::awaitable<engine::EngineResult<engine::CacheReply>> wait(std::uint64_t id,
                                                                        engine::Timers& timers,
                                                                        MonotonicTime give_up);
  void forget(std::uint64_t id) { waiting_.erase(id); }

  // A reply of the worker; one to a question that nobody waits for any more is no fault. An error: the worker
  // broke the protocol.
  Result<> answer(std::string_view body);
  // The worker is gone: all that wait hear it.
  void end();

 private:
  boost::asio::any_io_executor loop_;
  std::map<std::uint64_t, std::shared_ptr<Question>> waiting_;
  std::uint64_t last_id_ = 0;
};

// Between the neutral types and those of the wire.
protocol::CacheQuery to_protocol(std::uint64_t id, engine::CacheQuery query);
engine::EngineResult<engine::CacheReply> to_engine(protocol::CacheReply reply);
std::optional<engine::PrefixBreak> to_engine(std::optional<protocol::PrefixBreak> found);

}  // namespace gezel::engine_llama
