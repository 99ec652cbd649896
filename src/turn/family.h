// turn/family.h
//
// Families of models whose output needs grammar or markers of their own, from spec 50 sections 3.1 and 5.2.
// Everything else is `other`: the universal forms are recognised for every family.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace gezel::turn {

enum class Family : std::uint8_t {
  other,
  harmony,  // gpt-oss
  kimi_k3,
  minimax_m3,
  functionary,  // Functionary 3.2
  firefunction,
  apertus,
  command_r,
  olmo3,
  gigachat,
  muse,
  solar,
  apriel,
  granite,
  gemma,
};

// "harmony", "kimi-k3", "functionary-3.2" ...; "other" and "universal" are Family::other. Nothing for names
// that no family has.
std::optional<Family> family_named(std::string_view name);
std::string_view to_string(Family family);
// Every name that family_named() knows.
std::vector<std::string_view> family_names();

}  // namespace gezel::turn
