#include "engine_llama/calibrator.h"

#include <algorithm>

#include "base/log.h"

namespace gezel::engine_llama {

using costmodel::Candidate;
using costmodel::Point;

namespace {

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::string describe(const costmodel::Setting& setting) {
  return fmt::format("flash attention {}, cache {}, {} threads", setting.flash_attention ? "on" : "off",
                     setting.kv_type, setting.threads);
}

}  // namespace

Calibrator::Calibrator(const Clock& clock, engine::Timers& timers, Hooks hooks)
    : clock_(clock), hooks_(std::move(hooks)), timer_(timers.make()) {}

void Calibrator::loaded(Loaded loaded) {
  ended();
  if (!loaded.facts.on()) return;
  loaded_ = std::move(loaded);
  record_ = loaded_->facts.record.value_or(CalibrationRecord{});
  record_.model_id = loaded_->model_id;
  record_.key = loaded_->facts.key;
  state_ = State::waiting;
  // A record that says it is complete is believed for this type of cache, whatever memory there is now.
  if (record_.complete &&
      costmodel::choose(record_.candidates, loaded_->setting.kv_type, record_.mix) != nullptr)
    state_ = State::done;
  arm();
}

void Calibrator::ended() {
  if (state_ == State::off) return;
  timer_->cancel();
  update_mix();
  if (unsaved_) keep(record_.complete);
  seat_.reset();
  returning_.reset();
  context_open_ = false;
  campaign_.reset();
  asked_.reset();
  urgent_ = in_round_ = unsaved_ = false;
  drowned_ = 0;
  rests_until_ = {};
  slowdown_ = {};
  loaded_.reset();
  state_ = State::off;
}

bool Calibrator::tune() {
  if (state_ == State::off) return false;
  if (state_ != State::asking) state_ = State::waiting;
  urgent_ = true;
  const auto& kv_type = loaded_->setting.kv_type;
  std::erase_if(record_.candidates,
                [&](const Candidate& candidate) { return candidate.setting.kv_type == kv_type; });
  record_.complete = false;
  campaign_.reset();
  release();
  look();
  return true;
}

void Calibrator::arm() {
  if (state_ == State::off || state_ == State::done) return timer_->cancel();
  timer_->arm(clock_.now() + kLookEvery, [this] { look(); });
}

void Calibrator::look() {
  if (state_ == State::waiting) {
    if (context_open_ && clock_.now() - answered_at_ >= kKeepContext) release();
    if (may_measure()) ask();
  } else if (state_ == State::applying) {
    const auto quiet = hooks_.quiet_for();
    const auto setting = better();
    if (!setting) {
      state_ = State::done;
    } else if (quiet && (urgent_ || *quiet >= kApplyTime) && hooks_.use(*setting)) {
      // Where that took a new load the rest is loaded()'s.
      if (state_ == State::applying) {
        loaded_->setting = *setting;
        state_ = State::done;
      }
      urgent_ = false;
    }
  }
  arm();
}

bool Calibrator::may_measure() const {
  if (clock_.now() < rests_until_) return false;
  const auto quiet = hooks_.quiet_for();
  if (!quiet || (!urgent_ && *quiet < kQuietTime)) return false;
  // Whatever disturbed may be over later.
  const bool pausing = campaign_ && !in_round_ && campaign_->repeating();
  return !pausing || urgent_ || clock_.now() - answered_at_ >= kRoundPause;
}

bool Calibrator::begin_campaign() {
  if (campaign_) return true;
  if (returning_) return false;
  for (Bytes bytes = kMostCalibrationBytes; bytes >= kLeastCalibrationBytes; bytes /= 2) {
    auto seat = hooks_.borrow(bytes);
    if (!seat) continue;
    seat_ = std::move(*seat);
    const auto& facts = loaded_->facts;
    costmodel::CampaignOptions options{.kv_type = loaded_->setting.kv_type,
                                       .threads = facts.threads.value_or(facts.key.cores),
                                       .physical_cores = facts.threads ? 0 : facts.physical_cores,
                                       .window = loaded_->window,
                                       .token_bytes = loaded_->token_bytes,
                                       .memory = bytes};
    // A quantized cache needs it.
    if (options.kv_type != "f16")
      options.flash_attention = {true};
    else if (facts.flash_attention)
      options.flash_attention = {*facts.flash_attention};
    campaign_.emplace(std::move(options), record_.candidates);
    return true;
  }
  return false;
}

void Calibrator::ask() {
  if (!begin_campaign()) return;
  asked_ = campaign_->next();
  if (!asked_) return finish();
  in_round_ = campaign_->repeating();
  const auto& [setting, shape, point] = *asked_;
  protocol::Measure measure;
  measure.id = asked_id_ = ++last_id_;
  measure.flash_attention = setting.flash_attention;
  measure.kv_type = setting.kv_type;
  measure.threads = setting.threads;
  measure.streams = shape.streams;
  measure.context = shape.context;
  measure.kind = point.kind == Point::Kind::decode ? "decode" : "prefill";
  measure.tokens = point.tokens;
  measure.depth = point.depth;
  state_ = State::asking;
  context_open_ = true;
  hooks_.send(protocol::encode(measure));
}

Result<> Calibrator::on_measured(std::string_view body) {
  GEZEL_TRY(const auto measured, protocol::parse_measured(body));
  if (measured.outcome == "released") {
    returning_.reset();
    if (urgent_ && state_ == State::waiting) look();
    return {};
  }
  if (state_ == State::off) return {};
  if (!asked_ || measured.id != asked_id_) {
    return fail(ErrorKind::corrupt, "protocol_error", "a measurement was told that was not asked for", "id");
  }
  const costmodel::Question question = *std::exchange(asked_, std::nullopt);
  answered_at_ = clock_.now();
  if (state_ != State::asking) return {};
  state_ = State::waiting;
  // Asked before `gezel tune` wanted everything anew.
  if (!campaign_) {
    look();
    return {};
  }
  const bool was_repeating = in_round_;
  if (measured.outcome == "measured" && measured.cpu_ms < kDrownedShare * measured.ms) {
    const auto pause = kDrownedPause * (1 << std::min(drowned_, 5));
    rests_until_ = clock_.now() + std::min<Millis>(pause, kLongestPause);
    ++drowned_;
    keep(false);
    release();
    arm();
    return {};
  }
  if (measured.outcome == "measured") {
    drowned_ = 0;
    campaign_->measured(question, {.ms = measured.ms,
                                   .next_ms = measured.next_ms,
                                   .cpu_ms = measured.cpu_ms,
                                   .spent_ms = measured.spent_ms,
                                   .memory = measured.memory_bytes});
    unsaved_ = true;
  } else if (measured.outcome == "refused") {
    log_info("a setting cannot be measured", {{"model", loaded_->model_id}, {"reason", measured.reason}});
    campaign_->refused(question);
  } else if (measured.outcome == "interrupted") {
    keep(false);
    arm();
    return {};
  }
  record_.candidates = campaign_->candidates();
  in_round_ = was_repeating && campaign_->repeating();
  if (!campaign_->next()) {
    finish();
  } else if (may_measure()) {
    ask();
  } else {
    keep(false);
  }
  arm();
  return {};
}

void Calibrator::finish() {
  record_.clean = campaign_->clean();
  release();
  // Where nothing could be measured the defaults stay, until the next load.
  const Candidate* chosen = costmodel::choose(record_.candidates, loaded_->setting.kv_type, record_.mix);
  if (chosen == nullptr) {
    log_warn("a model's speed could not be measured; its settings stay as they are",
             {{"model", loaded_->model_id}});
    state_ = State::done;
    return;
  }
  record_.measured_at = iso_time(clock_.wall_now());
  unsaved_ = true;
  keep(true);
  loaded_->facts.record = record_;
  log_info("a model's speed was measured", {{"model", loaded_->model_id},
                                            {"best", describe(chosen->setting)},
                                            {"loaded", describe(loaded_->setting)},
                                            {"undisturbed", record_.clean ? "yes" : "no"}});
  state_ = better() ? State::applying : State::done;
}

std::optional<costmodel::Setting> Calibrator::better() const {
  const auto setting = chosen_setting(loaded_->facts, loaded_->setting.kv_type);
  return setting && *setting != loaded_->setting ? setting : std::nullopt;
}

void Calibrator::give_back() {
  if (state_ == State::off || !context_open_) return;
  keep(false);
  release();
}

// The memory goes back when the worker has freed it: a load that counted on it before would find none. What
// was measured stays, and the next question makes a context anew.
void Calibrator::release() {
  if (campaign_) record_.candidates = campaign_->candidates();
  campaign_.reset();
  if (std::exchange(context_open_, false)) {
    protocol::Measure order;
    order.id = ++last_id_;
    order.release = true;
    hooks_.send(protocol::encode(order));
    returning_ = std::move(seat_);
  }
  seat_.reset();
}

void Calibrator::keep(bool complete) {
  if (!unsaved_) return;
  if (campaign_) record_.candidates = campaign_->candidates();
  record_.complete = complete;
  if (record_.measured_at.empty() || !complete) record_.measured_at = iso_time(clock_.wall_now());
  unsaved_ = false;
  hooks_.keep(record_);
}

void Calibrator::note_done(const protocol::Done& done) {
  if (state_ == State::off) return;
  requests_.push_back(
      {static_cast<double>(done.cached_tokens),
       static_cast<double>(std::max<std::int64_t>(0, done.prompt_tokens - done.cached_tokens)),
       static_cast<double>(done.completion_tokens)});
  if (requests_.size() > kMostMixRequests) requests_.pop_front();
}

void Calibrator::update_mix() {
  if (requests_.size() < kMixRequests) return;
  const auto middle = [&](double Request::* part) {
    std::vector<double> values;
    for (const Request& request : requests_) values.push_back(request.*part);
    return median(std::move(values));
  };
  const costmodel::Mix mix{middle(&Request::depth), middle(&Request::prompt), middle(&Request::decoded)};
  if (mix.depth == record_.mix.depth && mix.prompt == record_.mix.prompt &&
      mix.decoded == record_.mix.decoded)
    return;
  record_.mix = mix;
  unsaved_ = !record_.candidates.empty();
}

void Calibrator::note_pace(double pace) {
  if (state_ == State::off || pace <= 0) return;
  if (!slowdown_.observe(1 / pace, 1, clock_.now())) return;
  log_warn(
      "a model computes much slower than it was measured to; a hot processor or other programs are the "
      "usual reasons",
      {{"model", loaded_->model_id}, {"times", fmt::format("{:.1f}", pace)}});
}

json::object Calibrator::status() const {
  if (state_ == State::off) return {{"state", "off"}};
  const auto& setting = loaded_->setting;
  json::object out = describe_calibration(record_, setting.kv_type);
  const bool set = loaded_->facts.flash_attention || loaded_->facts.threads;
  const auto chosen = chosen_setting(loaded_->facts, setting.kv_type);
  out["settings"] = json::object{{"flash_attention", setting.flash_attention},
                                 {"kv_type", setting.kv_type},
                                 {"threads", setting.threads},
                                 {"source", set                            ? "user"
                                            : chosen && *chosen == setting ? "measured"
                                                                           : "default"}};
  const char* state = "idle";
  if (state_ == State::waiting) state = "waiting";
  if (state_ == State::asking) state = "measuring";
  if (state_ == State::applying) state = "applying";
  out["state"] = state;
  out["machine_busy"] = drowned_ > 0;
  out["progress"] = record_.complete ? 1.0 : campaign_ ? campaign_->progress() : 0.0;
  return out;
}

}  // namespace gezel::engine_llama
