#include "models/default_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <tuple>

namespace gezel::models {
namespace {

// `digits` digits off the front.
std::optional<int> take(std::string_view& text, std::size_t digits) {
  if (text.size() < digits) return std::nullopt;
  int out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + digits, out);
  if (error != std::errc() || end != text.data() + digits || out < 0) return std::nullopt;
  text.remove_prefix(digits);
  return out;
}

bool take_char(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

// "Z", "+hh:mm" or nothing, in minutes.
std::optional<int> take_zone(std::string_view text) {
  if (text.empty() || text == "Z" || text == "z") return 0;
  const int sign = text.front() == '-' ? -1 : 1;
  if (!take_char(text, '+') && !take_char(text, '-')) return std::nullopt;
  const auto hours = take(text, 2);
  take_char(text, ':');
  const auto minutes = take(text, 2);
  if (!hours || !minutes || !text.empty()) return std::nullopt;
  return sign * (*hours * 60 + *minutes);
}

}  // namespace

std::optional<std::int64_t> parse_iso_time(std::string_view text) {
  const auto year = take(text, 4);
  const bool dash = take_char(text, '-');
  const auto month = take(text, 2);
  const bool dash_again = take_char(text, '-');
  const auto day = take(text, 2);
  if (!year || !dash || !month || !dash_again || !day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  std::int64_t out = std::chrono::sys_days(date).time_since_epoch().count() * std::int64_t{86'400'000};
  if (text.empty()) return out;
  if (!take_char(text, 'T') && !take_char(text, ' ')) return std::nullopt;
  const auto hour = take(text, 2);
  const bool colon = take_char(text, ':');
  const auto minute = take(text, 2);
  if (!hour || !colon || !minute || *hour > 24 || *minute > 59) return std::nullopt;
  std::int64_t millis = (*hour * 60 + *minute) * std::int64_t{60'000};
  if (take_char(text, ':')) {
    const auto second = take(text, 2);
    if (!second || *second > 60) return std::nullopt;
    millis += *second * 1000;
    if (take_char(text, '.')) {
      int scale = 100;
      while (!text.empty() && text.front() >= '0' && text.front() <= '9') {
        millis += (text.front() - '0') * scale;
        scale /= 10;
        text.remove_prefix(1);
      }
    }
  }
  const auto zone = take_zone(text);
  if (!zone) return std::nullopt;
  return out + millis - *zone * std::int64_t{60'000};
}

std::optional<catalog::QualifiedId> match_bare_name(
    std::string_view name, const Pins& pins, catalog::Backend preferred,
    const std::function<std::string(std::string_view)>& normalise) {
  const std::string wanted = normalise(name);
  std::vector<std::string> order{std::string(to_string(preferred)), pins.provider};
  for (const auto& [backend, id] : pins.default_model) order.push_back(backend);
  for (const auto& word : order) {
    const auto backend = catalog::parse_backend(word);
    const auto pin = pins.default_model.find(word);
    if (!backend || pin == pins.default_model.end()) continue;
    if (pin->second == name || pin->second == wanted || normalise(pin->second) == wanted)
      return catalog::QualifiedId{*backend, pin->second};
  }
  return std::nullopt;
}

std::optional<std::string> substitute(const std::vector<InstalledChoice>& installed) {
  const auto rank = [](const InstalledChoice& choice) {
    const auto date = parse_iso_time(choice.installed_at).value_or(std::numeric_limits<std::int64_t>::min());
    return std::make_pair(date, choice.size_bytes);
  };
  const auto better = [&](const InstalledChoice& a, const InstalledChoice& b) {
    const auto x = rank(a), y = rank(b);
    return x != y ? x > y : a.id < b.id;
  };
  const auto best = std::ranges::min_element(installed, better);
  if (best == installed.end()) return std::nullopt;
  return best->id;
}

int percent_done(Bytes written, Bytes total) {
  if (total == 0) return 0;
  const auto percent = static_cast<double>(written) / static_cast<double>(total) * 100;
  return std::clamp(static_cast<int>(percent), 0, 99);
}

Result<std::string> default_model(const Pins& pins, catalog::Backend backend,
                                  const std::vector<InstalledChoice>& installed,
                                  const std::optional<InstallProgress>& running) {
  const auto pin = pins.default_model.find(std::string(to_string(backend)));
  if (pin != pins.default_model.end()) {
    for (const auto& choice : installed) {
      if (choice.id == pin->second) return choice.id;
    }
  }
  if (auto other = substitute(installed)) return *other;
  std::string message = fmt::format("no model is installed for {}", to_string(backend));
  if (!running)
    message += "; install or import one and name it as \"model\"";
  else if (running->downloading)
    message += fmt::format("; \"{}\" is being installed: {} % downloaded", running->id,
                           percent_done(running->bytes_written, running->total_bytes));
  else
    message += fmt::format("; \"{}\" was downloaded and is being verified and prepared", running->id);
  return fail(running ? ErrorKind::unavailable : ErrorKind::not_found, "model_not_found", std::move(message),
              "model");
}

std::optional<std::string> reconcile_pin(const Pins& pins, catalog::Backend backend,
                                         const std::vector<InstalledChoice>& installed,
                                         std::string_view recommended) {
  const auto pin = pins.default_model.find(std::string(to_string(backend)));
  const std::string now = pin == pins.default_model.end() ? std::string() : pin->second;
  const auto is_installed = [&](std::string_view id) {
    return std::ranges::any_of(installed, [&](const auto& choice) { return choice.id == id; });
  };
  if (is_installed(now)) return std::nullopt;
  if (installed.size() == 1) return installed.front().id;
  if (!recommended.empty() && recommended != now && is_installed(recommended))
    return std::string(recommended);
  return std::nullopt;
}

catalog::QualifiedId first_model(const std::vector<std::pair<std::string, catalog::Backend>>& rated,
                                 catalog::Backend preferred) {
  if (rated.empty()) return {preferred, std::string(kFallbackModel)};
  return {rated.front().second, rated.front().first};
}

}  // namespace gezel::models
