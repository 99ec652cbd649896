// system/pressure.h
//
// Signs that memory runs short: how long tasks wait for it (the kernel's pressure stall information) and how
// full our control group is. What follows from them is capacity/pressure.h's to decide.
#pragma once
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/bytes.h"

namespace gezel::system {

// Part of the last 10 s in hundredths of a percent: 1234 is 12.34 %.
struct Stall {
  int some = 0;  // at least one task waited
  int full = 0;  // all of them did
};
// "some avg10=0.12 avg60=... total=...\nfull avg10=...": nothing without a "some" line.
std::optional<Stall> parse_stall(std::string_view text);

struct PressureFacts {
  std::optional<Stall> machine;  // /proc/pressure/memory
  std::optional<Stall> group;    // memory.pressure of our own group
  // The group around us that is fullest, without inactive file pages; absent: no group limits memory.
  std::optional<Bytes> group_used;
  Bytes group_limit = 0;

  // The worse of the two; absent where the kernel reports none.
  std::optional<int> some() const;
  std::optional<int> full() const;
};

// `root` stands for "/" in tests.
PressureFacts read_pressure(const std::filesystem::path& root = "/");

}  // namespace gezel::system
