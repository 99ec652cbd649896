// catalog/version.h
//
// Versions of catalog items (semantic versioning 2.0.0) and the dotted floors that say how new the service
// must be. Pure.
#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gezel::catalog {

inline constexpr std::size_t kMaxVersionLength = 128;

// major.minor.patch[-pre][+build]. A pre-release sorts below its release; its parts compare one by one,
// numbers as numbers and below words; the build is ignored.
class SemVer {
 public:
  static std::optional<SemVer> parse(std::string_view text);

  const std::string& text() const { return text_; }
  bool is_prerelease() const { return !prerelease_.empty(); }
  std::strong_ordering operator<=>(const SemVer& other) const;
  bool operator==(const SemVer& other) const { return (*this <=> other) == 0; }

 private:
  std::string text_;
  std::uint64_t numbers_[3] = {};
  std::vector<std::string> prerelease_;
};

// What of the catalog's content this build understands. Items and versions that need more name a higher
// `minServiceVersion`; it is no package version, and grows only when the meaning of content does.
inline constexpr std::string_view kContentLevel = "1.0.0";

// Spec 60 section 2.2: compared number by number, missing ones count as 0. No floor, a floor that cannot be
// read, and the level "0.0.0" of an unstamped build are always satisfied.
bool meets_floor(std::string_view floor, std::string_view level);
// The floor that asks for more; one that cannot be read asks for nothing.
std::string stricter_floor(std::string_view a, std::string_view b);

}  // namespace gezel::catalog
