#include "engine_llama/worker_launch.h"

#include "base/log.h"
#include "protocol/messages.h"

namespace gezel::engine_llama {

using engine::EndSignal;
using engine::StopReason;

std::shared_ptr<WorkerLaunch> WorkerLaunch::begin(const boost::asio::any_io_executor& loop,
                                                  engine::Timers& timers, const Clock& clock,
                                                  std::unique_ptr<WorkerProcess> process, Hooks hooks) {
  auto launch = std::make_shared<WorkerLaunch>(clock);
  auto& self = *launch;
  self.hooks_ = std::move(hooks);
  self.process_ = std::move(process);
  self.started_ = self.last_frame_ = clock.now();
  self.snapshot_.pid = self.process_->pid();
  self.snapshot_.started_at = clock.wall_now();
  self.heartbeat_ = timers.make();
  self.stop_timer_ = timers.make();
  self.rest_timer_ = timers.make();
  // Every callback holds the launch weakly: its owner decides how long it lives.
  const std::weak_ptr<WorkerLaunch> weak = launch;
  const auto with = [weak](auto call) {
    return [weak, call](auto... arguments) {
      if (auto alive = weak.lock()) call(*alive, std::move(arguments)...);
    };
  };
  self.process_->on_exit(with([](WorkerLaunch& l, ExitStatus status) { l.on_exit(status); }));
  self.link_ = WorkerLink::open(
      loop, self.process_->take_socket(),
      {with([](WorkerLaunch& l, protocol::Frame frame) { l.on_frame(std::move(frame)); }),
       with([](WorkerLaunch& l, std::optional<Error> error) { l.on_closed(std::move(error)); })});
  self.output_ =
      OutputReader::open(loop, self.process_->take_output(),
                         with([](WorkerLaunch& l, std::string_view bytes) { l.output_capture_.feed(bytes); }),
                         with([](WorkerLaunch& l) {
                           l.silent_ = true;
                           l.output_capture_.finish();
                           l.finish_if_complete();
                         }));
  return launch;
}

WorkerLaunch::~WorkerLaunch() {
  if (link_) link_->close();
  if (output_) output_->close();
}

void WorkerLaunch::send(std::string frame) {
  link_->send(std::move(frame));
}

void WorkerLaunch::on_frame(protocol::Frame frame) {
  last_frame_ = clock_.now();
  if (!std::exchange(heard_, true)) arm_heartbeat(kHeartbeatLimit, false);
  if (hooks_.frame && unexpected(snapshot_)) {
    const auto call = hooks_.frame;
    call(std::move(frame));
  }
}

void WorkerLaunch::arm_heartbeat(Millis after, bool second) {
  heartbeat_->arm(clock_.now() + after, [weak = weak_from_this(), second] {
    auto self = weak.lock();
    if (!self || self->closed_ || self->exited_ || !unexpected(self->snapshot_)) return;
    const auto silence = std::chrono::duration_cast<Millis>(self->clock_.now() - self->last_frame_);
    if (silence < kHeartbeatLimit) return self->arm_heartbeat(kHeartbeatLimit - silence, false);
    if (!second) return self->arm_heartbeat(kHeartbeatSecond, true);
    self->kill(engine::kHeartbeatLost, fmt::format("no frame for {} ms", silence.count()));
  });
}

void WorkerLaunch::stop(StopReason reason, Millis save) {
  if (!unexpected(snapshot_) || finished_) return;
  snapshot_.expected = reason;
  send(protocol::encode_empty(protocol::FrameType::drain));
  const auto asked = clock_.now() + save;
  stop_timer_->arm(asked + kDrainTime, [weak = weak_from_this(), asked] {
    auto self = weak.lock();
    if (!self) return;
    self->process_->signal(EndSignal::terminate);
    self->stop_timer_->arm(asked + kStopTime, [weak] {
      auto still = weak.lock();
      if (!still) return;
      still->process_->signal(EndSignal::kill);
      still->wait_for_rest();
    });
  });
}

void WorkerLaunch::kill(std::string_view panic_kind, std::string detail) {
  if (finished_) return;
  // After a planned stop began, how the rest goes is no incident.
  if (unexpected(snapshot_) && snapshot_.panic_kind.empty()) {
    snapshot_.panic_kind = panic_kind;
    snapshot_.panic_line = detail.substr(0, engine::PanicWatch::kMaxLine);
    log_warn("killing an engine process", {{"pid", std::to_string(snapshot_.pid)},
                                           {"kind", std::string(panic_kind)},
                                           {"reason", std::move(detail)}});
  }
  process_->signal(EndSignal::kill);
  link_->close();
  closed_ = true;
  wait_for_rest();
  finish_if_complete();
}

void WorkerLaunch::keep_until_exit(std::shared_ptr<void> what) {
  if (process_ && !exited_) process_->on_exit([what = std::move(what)](ExitStatus) mutable { what.reset(); });
}

void WorkerLaunch::abandon() {
  finished_ = true;
  hooks_ = {};
  link_->close();
  process_.reset();
}

void WorkerLaunch::on_closed(std::optional<Error> error) {
  closed_ = true;
  if (error) return kill(engine::kProtocolViolation, error->message);
  // While we stop it on purpose, only its exit counts: freeing gigabytes takes a moment.
  if (unexpected(snapshot_)) wait_for_rest();
  finish_if_complete();
}

void WorkerLaunch::on_line(std::string_view line) {
  panics_.line(line);
  if (hooks_.line) hooks_.line(line);
}

void WorkerLaunch::on_exit(ExitStatus status) {
  exited_ = true;
  snapshot_.status = status;
  wait_for_rest();
  finish_if_complete();
}

void WorkerLaunch::wait_for_rest() {
  rest_timer_->arm(clock_.now() + kExitWait, [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->finish();
  });
}

void WorkerLaunch::finish_if_complete() {
  if (closed_ && exited_ && silent_) finish();
}

void WorkerLaunch::finish() {
  if (finished_) return;
  finished_ = true;
  heartbeat_->cancel();
  stop_timer_->cancel();
  rest_timer_->cancel();
  if (!exited_) process_->signal(EndSignal::kill);
  link_->close();
  output_->close();
  output_capture_.finish();
  snapshot_.exited_at = clock_.wall_now();
  snapshot_.uptime = std::chrono::duration_cast<Millis>(clock_.now() - started_);
  snapshot_.output_tail = output_capture_.tail();
  if (snapshot_.panic_kind.empty() && unexpected(snapshot_)) {
    snapshot_.panic_kind = panics_.kind();
    snapshot_.panic_line = panics_.panic_line();
    if (!exited_ && snapshot_.panic_kind.empty()) snapshot_.panic_kind = engine::kConnectionLost;
  }
  conclude(snapshot_);
  auto hooks = std::exchange(hooks_, {});
  const auto self = shared_from_this();  // the call may drop the owner's reference
  if (hooks.ended) hooks.ended(snapshot_);
}

}  // namespace gezel::engine_llama
