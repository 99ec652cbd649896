#include "system/devices.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>

#include "system/text_file.h"

namespace gezel::system {
namespace {

// A device of 2^30 MiB is no device.
constexpr std::uint64_t kMaxMib = std::uint64_t{1} << 30;

bool word_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}
bool digit(char c) {
  return c >= '0' && c <= '9';
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

// Position behind `word` where it stands as a word of its own, from `from` on.
std::size_t after_word(std::string_view text, std::string_view word, std::size_t from = 0) {
  for (auto at = text.find(word, from); at != text.npos; at = text.find(word, at + 1)) {
    const auto end = at + word.size();
    if ((at == 0 || !word_char(text[at - 1])) && (end == text.size() || !word_char(text[end]))) return end;
  }
  return text.npos;
}
bool has_word(std::string_view text, std::string_view word) {
  return after_word(text, word) != text.npos;
}

std::size_t count_digits(std::string_view text) {
  std::size_t count = 0;
  while (count < text.size() && digit(text[count])) ++count;
  return count;
}

// "arc", and somewhere behind it [ "pro " ] ( "a" | "b" ) 2-4 digits as a word: "arc b570", "arc pro a60". An
// Arc without a number is the graphics part of a processor.
bool is_arc_card(std::string_view name) {
  for (auto at = after_word(name, "arc"); at != name.npos && at < name.size(); ++at) {
    if (word_char(name[at - 1]) || (name[at] != 'a' && name[at] != 'b')) continue;
    const std::size_t digits = count_digits(name.substr(at + 1));
    const std::size_t end = at + 1 + digits;
    if (digits >= 2 && digits <= 4 && (end == name.size() || !word_char(name[end]))) return true;
  }
  return false;
}

// What follows "radeon" and blanks, at each place where it stands.
bool after_radeon(std::string_view name, const std::function<bool(std::string_view)>& test) {
  constexpr std::string_view kRadeon = "radeon";
  for (auto at = name.find(kRadeon); at != name.npos; at = name.find(kRadeon, at + 1)) {
    std::string_view rest = name.substr(at + kRadeon.size());
    const auto blanks = rest.find_first_not_of(" \t");
    if (blanks == 0 || blanks == rest.npos) continue;
    if (test(rest.substr(blanks))) return true;
  }
  return false;
}

bool is_radeon_card(std::string_view name) {
  return after_radeon(name, [](std::string_view rest) {
    if (rest.starts_with("rx")) {
      const std::string_view model = trim(rest.substr(2));
      return !model.empty() && digit(model[0]);
    }
    if (rest.starts_with("pro w")) return rest.size() > 5 && digit(rest[5]);
    return rest.starts_with("vii") || rest.starts_with("ai pro");
  });
}

// "radeon 890m": a number of three or four digits with m or s.
bool is_radeon_mobile(std::string_view name) {
  return after_radeon(name, [](std::string_view rest) {
    const std::size_t digits = count_digits(rest);
    return (digits == 3 || digits == 4) && digits < rest.size() &&
           (rest[digits] == 'm' || rest[digits] == 's');
  });
}

bool is_unified_nvidia(std::string_view lower_name) {
  return has_word(lower_name, "gb10") || lower_name.contains("dgx spark");
}

struct NameRule {
  DeviceKind kind;
  bool (*matches)(std::string_view lower_name);
};
bool is_amd(std::string_view name) {
  return name.contains("amd") || name.contains("radeon");
}
// The first that matches decides.
constexpr auto kNameRules = std::to_array<NameRule>({
    {DeviceKind::integrated,
     [](std::string_view n) { return n.contains("qualcomm") || n.contains("adreno"); }},
    {DeviceKind::discrete, [](std::string_view n) { return n.contains("intel") && is_arc_card(n); }},
    {DeviceKind::integrated, [](std::string_view n) { return n.contains("intel"); }},
    {DeviceKind::discrete,
     [](std::string_view n) {
       return is_amd(n) && (is_radeon_card(n) || has_word(n, "instinct") || has_word(n, "firepro"));
     }},
    {DeviceKind::integrated,
     [](std::string_view n) {
       return is_amd(n) && (has_word(n, "vega") || n.contains("radeon graphics") || is_radeon_mobile(n));
     }},
    {DeviceKind::discrete,
     [](std::string_view n) {
       return n.contains("nvidia") || n.contains("geforce") || n.contains("quadro");
     }},
});

// "16368 MiB" -> 16368, with `suffix` = " MiB".
std::optional<std::uint64_t> take_mib(std::string_view text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return std::nullopt;
  text.remove_suffix(suffix.size());
  if (text.empty() || !std::ranges::all_of(text, digit)) return std::nullopt;
  const auto mib = parse_unsigned(text);
  return mib && *mib <= kMaxMib ? mib : std::nullopt;
}

std::optional<Device> parse_device(std::string_view line) {
  line = trim(line);
  const auto colon = line.find(':');
  if (colon == line.npos || colon == 0 || !line.ends_with(')')) return std::nullopt;
  const std::string_view id = line.substr(0, colon);
  if (id.find_first_of(" \t") != id.npos) return std::nullopt;
  // The sizes are in the last parentheses; the name may hold others.
  const auto open = line.rfind('(');
  if (open == line.npos || open <= colon) return std::nullopt;
  const std::string_view sizes = line.substr(open + 1, line.size() - open - 2);
  const auto comma = sizes.find(", ");
  if (comma == sizes.npos) return std::nullopt;
  const auto total = take_mib(sizes.substr(0, comma), " MiB");
  const auto free = take_mib(sizes.substr(comma + 2), " MiB free");
  const std::string_view name = trim(line.substr(colon + 1, open - colon - 1));
  if (!total || !free || name.empty()) return std::nullopt;
  return Device{.id = std::string(id), .name = std::string(name), .total_mib = *total, .free_mib = *free};
}

}  // namespace

std::optional<NvidiaMemory> parse_nvidia_memory(std::string_view text) {
  NvidiaMemory out{.unified = true};
  for (std::string_view line : lines(text)) {
    const auto comma = line.rfind(',');
    if (comma == line.npos) continue;
    const std::string_view name = trim(line.substr(0, comma));
    const auto mib = parse_integer(trim(line.substr(comma + 1)));
    if (name.empty() || !mib || *mib <= 0 || static_cast<std::uint64_t>(*mib) > kMaxMib) continue;
    out.vram_bytes += static_cast<Bytes>(*mib) * kMiB;
    out.unified = out.unified && is_unified_nvidia(lower(name));
    ++out.devices;
  }
  return out.devices > 0 ? std::optional(out) : std::nullopt;
}

std::vector<NvidiaCard> parse_nvidia_cards(std::string_view text) {
  std::vector<NvidiaCard> cards;
  for (std::string_view line : lines(text)) {
    const auto fields = split(line, ',');
    if (fields.size() != 4) continue;
    cards.push_back({std::string(trim(fields[0])), std::string(trim(fields[1])), std::string(trim(fields[2])),
                     std::string(trim(fields[3]))});
  }
  return cards;
}

const NvidiaCard* match_card(const std::vector<NvidiaCard>& cards, std::string_view device_id,
                             std::string_view device_name) {
  if (cards.empty()) return nullptr;
  if (device_id.starts_with("CUDA")) {
    const auto by_index = std::ranges::find(cards, device_id.substr(4), &NvidiaCard::index);
    if (by_index != cards.end()) return &*by_index;
  }
  const auto by_name = std::ranges::find(cards, device_name, &NvidiaCard::name);
  return by_name != cards.end() ? &*by_name : &cards.front();
}

std::vector<Device> parse_device_list(std::string_view text) {
  std::vector<Device> devices;
  for (std::string_view line : lines(text)) {
    if (auto device = parse_device(line)) devices.push_back(std::move(*device));
  }
  return devices;
}

DeviceKind classify_device_name(std::string_view name) {
  std::string text = lower(name);
  replace_all(text, "(tm)", " ");
  replace_all(text, "(r)", " ");
  for (const NameRule& rule : kNameRules) {
    if (rule.matches(text)) return rule.kind;
  }
  return DeviceKind::unknown;
}

DeviceKind device_kind(const Device& device) {
  if (is_unified_nvidia(lower(device.name))) return DeviceKind::unified;
  switch (device.type) {
    case DeviceType::gpu:
      return DeviceKind::discrete;
    case DeviceType::integrated_gpu:
      return DeviceKind::integrated;
    case DeviceType::unknown:
      break;
  }
  return classify_device_name(device.name);
}

std::string_view device_vendor(std::string_view name) {
  const std::string text = lower(name);
  if (text.contains("nvidia") || text.contains("geforce") || has_word(text, "rtx")) return "nvidia";
  if (is_amd(text)) return "amd";
  if (text.contains("intel") || has_word(text, "arc")) return "intel";
  return "";
}

const Device* best_device(const std::vector<Device>& devices) {
  const Device* best = nullptr;
  bool best_is_card = false;
  for (const Device& device : devices) {
    if (device.total_mib == 0) continue;
    const bool card = device_kind(device) == DeviceKind::discrete;
    if (!best || (card && !best_is_card) || (card == best_is_card && device.total_mib > best->total_mib)) {
      best = &device;
      best_is_card = card;
    }
  }
  return best;
}

Bytes largest_vram_bytes(const std::vector<Device>& devices) {
  std::uint64_t largest = 0;
  for (const Device& device : devices) largest = std::max(largest, device.total_mib);
  return largest * kMiB;
}

}  // namespace gezel::system
