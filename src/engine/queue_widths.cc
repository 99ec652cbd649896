#include "engine/queue_widths.h"

#include <algorithm>
#include <array>
#include <utility>

namespace gezel::engine {
namespace {

constexpr std::array<std::pair<std::string_view, QueueKind>, 5> kKinds{{
    {"embedded", QueueKind::embedded},
    {"supervised", QueueKind::supervised},
    {"ds4", QueueKind::ds4},
    {"attached", QueueKind::attached},
    {"remote", QueueKind::remote},
}};

}  // namespace

std::optional<QueueKind> parse_queue_kind(std::string_view name) {
  const auto found = std::ranges::find(kKinds, name, &std::pair<std::string_view, QueueKind>::first);
  return found == kKinds.end() ? std::nullopt : std::optional(found->second);
}

QueueWidths queue_widths(QueueKind kind, int slots) {
  const int width = std::max(1, slots);
  switch (kind) {
    case QueueKind::embedded: {
      const int gate = gate_width(std::min(width, 64));
      return {gate, gate, gate, gate};
    }
    case QueueKind::supervised:
      // The extra place is for a request that a running turn makes on the background lane: behind the turn
      // it would wait for ever.
      return {width + 1, width, std::max(1, width - 1), width};
    case QueueKind::ds4:
      return {1, 1, 1, 1};
    case QueueKind::attached:
      return {2, 2, 2, 1};
    case QueueKind::remote:
      return {4, 4, 3, 4};
  }
  return {};
}

}  // namespace gezel::engine
