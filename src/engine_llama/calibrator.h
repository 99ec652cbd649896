// engine_llama/calibrator.h
//
// Measures a loaded model while nobody uses it (spec 35 section 2): asks the worker for one short measurement
// after another, makes way for every request, keeps what was measured on disk, and says when other settings
// would be better than those that the model was loaded with. On the event loop; no request ever waits for it.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "costmodel/campaign.h"
#include "costmodel/slowdown.h"
#include "engine/admission.h"
#include "engine/timers.h"
#include "engine_llama/calibration_choice.h"
#include "protocol/messages.h"

namespace gezel::engine_llama {

inline constexpr Millis kLookEvery{1'000};    // whether the engine is idle
inline constexpr Millis kQuietTime{1'000};    // that the engine must have been idle before it is measured
inline constexpr Millis kRoundPause{10'000};  // before points are measured again that were disturbed
// A measurement whose thread ran for less of its time says nothing, and makes an overloaded machine worse: it
// is not counted, and the next is made after a pause that doubles each time.
inline constexpr double kDrownedShare = 0.1;
inline constexpr Millis kDrownedPause{10'000}, kLongestPause{300'000};
inline constexpr Millis kApplyTime{30'000};  // idle, before a model is loaded again with a better setting
inline constexpr Millis kKeepContext{
    30'000};  // that memory for measuring is kept while requests are answered
inline constexpr Bytes kMostCalibrationBytes = 512 * kMiB, kLeastCalibrationBytes = 16 * kMiB;
inline constexpr std::size_t kMixRequests = 64, kMostMixRequests = 256;  // before the own mix counts; kept

class Calibrator {
 public:
  struct Hooks {
    std::function<void(std::string)> send;  // a frame to the worker
    // How long the engine has had nothing to do and the processors are ours; nothing: it or another is busy.
    std::function<std::optional<Millis>()> quiet_for;
    // So much memory for measuring. Outside nothing: it is not free. A null seat: nobody counts memory.
    std::function<std::optional<std::unique_ptr<engine::Seat>>(Bytes)> borrow;
    std::function<void(CalibrationRecord)> keep;  // on disk, soon
    // Uses other settings from now on, if need be by loading the model again. False: not now.
    std::function<bool(const costmodel::Setting&)> use;
  };
  Calibrator(const Clock& clock, engine::Timers& timers, Hooks hooks);

  struct Loaded {
    std::string model_id;
    CalibrationFacts facts;
    costmodel::Setting setting;  // it was loaded with
    std::int64_t window = 0;     // tokens of a slot
    Bytes token_bytes = 0;       // of the cache, per token of a slot
  };
  // A worker is ready. What is missing is measured in idle moments.
  void loaded(Loaded loaded);
  // It is gone, or on its way.
  void ended();
  Result<> on_measured(std::string_view body);
  void note_done(const protocol::Done& done);
  // Live figures of the worker, while it computes with all its threads.
  void note_pace(double pace);
  // Measures anew and at once, as soon as nobody is served. False: calibration is switched off, or no model
  // is loaded.
  bool tune();

  // {state: off | idle | waiting | measuring | applying, progress, settings{...}} and what is measured so
  // far.
  json::object status() const;
  // Memory for measuring is in use.
  bool holds_memory() const { return context_open_ || returning_; }
  // A load needs that memory: it goes back as soon as the worker has freed it. Measuring goes on when it can
  // be had again.
  void give_back();

 private:
  enum class State { off, waiting, asking, applying, done };
  void arm();
  void look();
  bool begin_campaign();
  void ask();
  void finish();
  void release();
  void keep(bool complete);
  bool may_measure() const;
  std::optional<costmodel::Setting> better() const;
  void update_mix();

  const Clock& clock_;
  Hooks hooks_;
  std::unique_ptr<engine::Timer> timer_;
  State state_ = State::off;
  std::optional<Loaded> loaded_;
  CalibrationRecord record_;
  std::optional<costmodel::Campaign> campaign_;
  std::optional<costmodel::Question> asked_;
  std::unique_ptr<engine::Seat> seat_;
  std::optional<std::unique_ptr<engine::Seat>> returning_;  // until the worker has freed its memory
  std::uint64_t last_id_ = 0, asked_id_ = 0;
  bool urgent_ = false;        // gezel tune
  bool unsaved_ = false;       // something was measured since the last keep()
  bool context_open_ = false;  // the worker holds a context for measuring
  MonotonicTime answered_at_{}, rests_until_{};
  int drowned_ = 0;        // measurements in a row that said nothing
  bool in_round_ = false;  // a repeating round has begun
  costmodel::SlowdownWatch slowdown_;
  struct Request {
    double depth, prompt, decoded;
  };
  std::deque<Request> requests_;
};

}  // namespace gezel::engine_llama
