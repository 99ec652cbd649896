#include "turn/family.h"

#include <array>
#include <utility>

namespace gezel::turn {
namespace {

constexpr std::array<std::pair<Family, std::string_view>, 16> kNames = {{
    {Family::other, "other"},
    {Family::other, "universal"},
    {Family::harmony, "harmony"},
    {Family::kimi_k3, "kimi-k3"},
    {Family::minimax_m3, "minimax-m3"},
    {Family::functionary, "functionary-3.2"},
    {Family::firefunction, "firefunction"},
    {Family::apertus, "apertus"},
    {Family::command_r, "command-r"},
    {Family::olmo3, "olmo3"},
    {Family::gigachat, "gigachat"},
    {Family::muse, "muse"},
    {Family::solar, "solar"},
    {Family::apriel, "apriel"},
    {Family::granite, "granite"},
    {Family::gemma, "gemma"},
}};

}  // namespace

std::optional<Family> family_named(std::string_view name) {
  for (const auto& [family, known] : kNames) {
    if (known == name) return family;
  }
  return std::nullopt;
}

std::string_view to_string(Family family) {
  for (const auto& [known, name] : kNames) {
    if (known == family) return name;
  }
  return "other";
}

std::vector<std::string_view> family_names() {
  std::vector<std::string_view> out;
  for (const auto& [family, name] : kNames) out.push_back(name);
  return out;
}

}  // namespace gezel::turn
