#include <algorithm>

#include "system/cgroup.h"
#include "system/memory.h"
#include "system/text_file.h"

namespace gezel::system {
namespace {

Bytes difference(Bytes from, Bytes what) {
  return from > what ? from - what : 0;
}

}  // namespace

MemoryFacts read_memory(const std::filesystem::path& root) {
  MemoryFacts facts;
  const auto meminfo = read_text(under(root, "/proc/meminfo"));
  const auto field = [&](std::string_view key) {
    const auto value = meminfo ? number_after(*meminfo, key) : std::nullopt;
    return value ? std::optional(*value * kKiB) : std::nullopt;
  };
  facts.physical = field("MemTotal").value_or(0);
  facts.total = facts.physical;
  // Bytes nobody uses, the lower bound of what is available.
  Bytes truly_free = field("MemFree").value_or(0);
  Bytes available = field("MemAvailable").value_or(truly_free);
  for (const MemoryGroup& group : memory_groups(root, facts.physical)) {
    facts.limited = true;
    facts.total = facts.total == 0 ? group.limit : std::min(facts.total, group.limit);
    if (!group.used) continue;
    truly_free = std::min(truly_free, difference(group.limit, *group.used));
    available = std::min(available, difference(group.limit, difference(*group.used, group.inactive_file)));
  }
  facts.available = available_memory(available, facts.total, truly_free);
  return facts;
}

}  // namespace gezel::system
