#include "engine_llama/dry_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/files.h"
#include "base/json.h"
#include "engine/quarantine.h"

namespace gezel::engine_llama {

using engine::EngineResult;
using engine::make_error;

namespace {

// No process has more; sums of such figures cannot wrap around.
constexpr Bytes kMostBytes = Bytes{1} << 56;

capacity::DryRun figures(const protocol::Ready& ready) {
  return {.weights = ready.weights_bytes,
          .repack = ready.repack_bytes,
          .kv = ready.kv_bytes,
          .compute = ready.compute_bytes,
          .process = std::min(ready.host_bytes, kMostBytes) + kProcessExtra,
          .slots = ready.slots,
          .context = ready.context_per_slot,
          .type = capacity::parse_kv_type(ready.kv_type).value_or(capacity::KvType::f16)};
}

// What one conversation with the worker has brought so far.
struct Asking {
  explicit Asking(const asio::any_io_executor& loop) : changed(loop) {}
  std::optional<EngineResult<capacity::DryRun>> answer;
  engine::Wakeup changed;

  void settle(EngineResult<capacity::DryRun> result) {
    if (!answer) answer = std::move(result);
    changed.notify();
  }
  void on_frame(const protocol::Frame& frame) {
    if (frame.type == protocol::FrameType::ready) {
      const auto ready = protocol::parse_ready(frame.body);
      if (ready && ready->slots > 0 && ready->context_per_slot > 0) return settle(figures(*ready));
      settle(std::unexpected(make_error("protocol-mismatch", "The worker's answer cannot be read.")));
    } else if (frame.type == protocol::FrameType::failed) {
      if (auto failed = protocol::parse_failed(frame.body))
        return settle(std::unexpected(error_from(*failed)));
      settle(std::unexpected(make_error("protocol-mismatch", "The worker's answer cannot be read.")));
    }
  }
};

}  // namespace

asio::awaitable<EngineResult<capacity::DryRun>> ask_worker(const EmbeddedParts& parts, fs::path program,
                                                           protocol::Load load) {
  auto process = parts.launcher->launch(program);
  if (!process) co_return std::unexpected(make_error("engine-launch", std::move(process).error().message));
  const auto asking = std::make_shared<Asking>(parts.loop);
  const auto launch = WorkerLaunch::begin(
      parts.loop, *parts.timers, parts.clock, std::move(*process),
      {.frame = [asking](const protocol::Frame& frame) { asking->on_frame(frame); },
       .line = [](std::string_view) {},
       .ended =
           [asking](const engine::ExitSnapshot& snapshot) {
             asking->settle(std::unexpected(make_error(
                 "engine-crashed",
                 fmt::format("The engine ended while it measured ({}).", describe_end(snapshot)))));
           }});
  load.dry_run = true;
  launch->send(protocol::encode(protocol::FrameType::hello, protocol::Hello{protocol::kProtocolVersion, ""}));
  launch->send(protocol::encode(load));
  const auto timer = parts.timers->make();
  timer->arm(parts.clock.now() + kDryRunTime, [asking] {
    asking->settle(
        std::unexpected(make_error("engine-startup-timeout", "Measuring the model took too long.")));
  });
  while (!asking->answer) {
    if (!co_await asking->changed.wait()) break;
  }
  launch->abandon();
  if (!asking->answer)
    co_return std::unexpected(make_error("cancelled", "Measuring the model was given up."));
  co_return *asking->answer;
}

// --- the record: {"shapes": [{"engine", "slots", "ctx", "flash_attn", "excluded", "bytes": {...}}]}

namespace {

std::string shape_of(const std::string& engine, const protocol::Load& load) {
  std::string out = fmt::format("{} {}x{}", engine, load.slots, load.context_per_slot);
  out += " " + load.kv_type;
  if (load.flash_attention) out += *load.flash_attention ? " fa" : " no-fa";
  for (const auto& excluded : load.excluded_buffer_types) out += " -" + excluded;
  if (!load.draft.model_path.empty()) {
    const auto stamp = stamp_file(load.draft.model_path);
    out += fmt::format(" draft {}:{}", load.draft.model_path, stamp ? engine::fingerprint_stamp(*stamp) : "");
  }
  return out;
}

json::array read_shapes(const fs::path& file) {
  const auto text = read_file(file, kMiB);
  if (!text) return {};
  auto parsed = parse_json(*text);
  if (!parsed || !parsed->is_object()) return {};
  const auto* shapes = parsed->as_object().if_contains("shapes");
  return shapes != nullptr && shapes->is_array() ? shapes->as_array() : json::array();
}

std::optional<Bytes> bytes_of(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  if (value == nullptr) return std::nullopt;
  boost::system::error_code failed;
  const auto number = value->to_number<Bytes>(failed);
  return failed ? std::nullopt : std::optional<Bytes>(number);
}

}  // namespace

std::optional<capacity::DryRun> DryRunRecord::find(const std::string& engine,
                                                   const protocol::Load& load) const {
  const auto shape = shape_of(engine, load);
  for (const auto& entry : read_shapes(file_)) {
    if (!entry.is_object()) continue;
    const auto& object = entry.as_object();
    const auto* name = object.if_contains("shape");
    if (name == nullptr || !name->is_string() || std::string_view(name->as_string()) != shape) continue;
    const auto weights = bytes_of(object, "weights"), repack = bytes_of(object, "repack"),
               kv = bytes_of(object, "kv"), compute = bytes_of(object, "compute"),
               process = bytes_of(object, "process");
    if (!weights || !repack || !kv || !compute || !process) continue;
    return capacity::DryRun{.weights = *weights,
                            .repack = *repack,
                            .kv = *kv,
                            .compute = *compute,
                            .process = *process,
                            .slots = load.slots,
                            .context = load.context_per_slot,
                            .type = capacity::parse_kv_type(load.kv_type).value_or(capacity::KvType::f16)};
  }
  return std::nullopt;
}

Result<> DryRunRecord::keep(const std::string& engine, const protocol::Load& load,
                            const capacity::DryRun& run) const {
  auto shapes = read_shapes(file_);
  const auto same = [shape = shape_of(engine, load)](const json::value& entry) {
    const auto* name = entry.is_object() ? entry.get_object().if_contains("shape") : nullptr;
    return name == nullptr || *name == json::value(shape);
  };
  for (auto at = shapes.begin(); at != shapes.end();) at = same(*at) ? shapes.erase(at) : at + 1;
  while (shapes.size() >= kMostShapes) shapes.erase(shapes.begin());
  shapes.emplace_back(json::object{{"shape", shape_of(engine, load)},
                                   {"weights", run.weights},
                                   {"repack", run.repack},
                                   {"kv", run.kv},
                                   {"compute", run.compute},
                                   {"process", run.process}});
  GEZEL_CHECK(make_private_folder(file_.parent_path()));
  return write_file_atomic(file_, to_json(json::object{{"shapes", std::move(shapes)}}));
}

}  // namespace gezel::engine_llama
