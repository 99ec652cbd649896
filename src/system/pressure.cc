#include "system/pressure.h"

#include <algorithm>

#include "system/cgroup.h"
#include "system/memory.h"
#include "system/text_file.h"

namespace gezel::system {
namespace {

// "12.34" -> 1234. The kernel prints two decimals; others are cut or filled up.
std::optional<int> hundredths(std::string_view text) {
  const auto point = text.find('.');
  const auto whole = parse_unsigned(text.substr(0, point));
  if (!whole || *whole > 1'000) return std::nullopt;
  std::string decimals(point == text.npos ? "" : text.substr(point + 1));
  decimals.resize(2, '0');
  const auto part = parse_unsigned(decimals);
  return part ? std::optional(static_cast<int>(*whole * 100 + *part)) : std::nullopt;
}

std::optional<int> avg10(std::string_view text, std::string_view kind) {
  constexpr std::string_view kField = "avg10=";
  for (std::string_view line : lines(text)) {
    const auto parts = words(line);
    if (parts.empty() || parts[0] != kind) continue;
    for (std::string_view part : parts) {
      if (part.starts_with(kField)) return hundredths(part.substr(kField.size()));
    }
  }
  return std::nullopt;
}

std::optional<Stall> read_stall(const std::filesystem::path& file) {
  if (file.empty()) return std::nullopt;
  const auto text = read_text(file);
  return text ? parse_stall(*text) : std::nullopt;
}

std::optional<int> worse(const std::optional<Stall>& a, const std::optional<Stall>& b, int Stall::* field) {
  if (!a && !b) return std::nullopt;
  return std::max(a ? (*a).*field : 0, b ? (*b).*field : 0);
}

}  // namespace

std::optional<Stall> parse_stall(std::string_view text) {
  const auto some = avg10(text, "some");
  if (!some) return std::nullopt;
  return Stall{*some, avg10(text, "full").value_or(0)};
}

std::optional<int> PressureFacts::some() const {
  return worse(machine, group, &Stall::some);
}
std::optional<int> PressureFacts::full() const {
  return worse(machine, group, &Stall::full);
}

PressureFacts read_pressure(const std::filesystem::path& root) {
  PressureFacts facts;
  const std::filesystem::path machine = under(root, "/proc/pressure/memory");
  facts.machine = read_stall(machine);
  // Without a file of our group's this is the machine's again.
  if (const auto own = memory_pressure_file(root); own != machine) facts.group = read_stall(own);
  for (const MemoryGroup& group : memory_groups(root, read_memory(root).physical)) {
    if (!group.used || group.limit == 0) continue;
    const Bytes used = *group.used - std::min(*group.used, group.inactive_file);
    // used / limit, compared without dividing.
    const auto fuller = [&] {
      using Wide = unsigned __int128;
      return Wide{used} * facts.group_limit > Wide{*facts.group_used} * group.limit;
    };
    if (!facts.group_used || fuller()) {
      facts.group_used = used;
      facts.group_limit = group.limit;
    }
  }
  return facts;
}

}  // namespace gezel::system
