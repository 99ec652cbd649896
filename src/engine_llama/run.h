// engine_llama/run.h
//
// One request on its way through an engine: what was asked, how far it is, and the events that nobody has
// taken yet.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "engine/wakeup.h"
#include "engine/watchdog.h"
#include "prompt/request.h"

namespace gezel::engine_llama {

struct Run {
  enum class Place {
    waiting,    // in the daemon's queue
    admitted,   // the worker has it
    abandoned,  // the worker has it, nobody wants it; it holds its place until the worker's last frame
    over,
  };

  Run(const boost::asio::any_io_executor& loop, std::uint64_t number, prompt::GenerateRequest what)
      : id(number),
        lane(what.lane),
        terms(what.queue),
        session(what.session_key),
        has_form(what.output_format.kind != prompt::OutputFormat::Kind::text),
        needs(what.context.value_or(0)),
        request(std::move(what)),
        wakeup(loop) {}

  // Puts an event where next() finds it. Text joins text that is still waiting; progress replaces older
  // progress.
  void push(engine::Event event);
  // The last event; what still waits is dropped when the caller does not want it any more.
  void end(engine::Event event, bool drop_waiting = false);
  // The oldest event. Precondition: there is one.
  engine::Event take();

  const std::uint64_t id;
  const prompt::Lane lane;
  const prompt::QueueTerms terms;
  const std::string session;
  const bool has_form;  // the answer is held to a schema or a grammar
  // The window without which it is not answered, in tokens; 0: it is not known to need a certain one. What it
  // asks for, and more once a worker has counted its prompt.
  std::int64_t needs;
  prompt::GenerateRequest request;  // emptied once the request can not be tried again
  Place place = Place::waiting;
  MonotonicTime since{};        // when it came
  MonotonicTime waits_since{};  // when it began to wait, for the second time if it is tried again
  WallTime waits_since_wall{};
  bool retried = false;
  bool started = false;    // Started was pushed
  bool in_intake = false;  // the worker has it and has not said anything about it yet
  bool in_slot = false;    // the worker said so
  bool paused = false;
  std::int64_t characters = 0;  // of text pushed
  std::int64_t tokens = 0;      // sampled
  std::int64_t prompt_tokens = 0, cached_tokens = 0;
  std::int64_t prefill_done = 0, prefill_total = 0;
  std::int64_t last_ahead = -1;  // last position told
  std::string last_reason;       // and what for
  engine::TurnWatchdog watchdog;
  std::optional<engine::EngineError> verdict;  // why the worker ends because of this request
  std::int64_t told_possible = 0;              // the longest window that a worker was told could be loaded
  bool settles = false;  // no longer window can be had: an answer that fits the loaded one will do
  std::optional<engine::EngineError>
      too_long;  // what the worker said of a prompt that its window does not hold
  std::deque<engine::Event> events;
  Bytes unsent_bytes = 0;  // of the text in `events`
  engine::Wakeup wakeup;
};

}  // namespace gezel::engine_llama
