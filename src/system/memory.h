// system/memory.h
//
// How much memory this process may use and how much of it is free, container limits included (spec 20
// sections 1.2, 1.4).
#pragma once
#include <filesystem>

#include "base/bytes.h"

namespace gezel::system {

struct MemoryFacts {
  Bytes physical = 0;    // of the machine; 0: unknown
  Bytes total = 0;       // what this process may ever use: physical, lowered by every container limit
  Bytes available = 0;   // free right now, file cache that is given back on demand included
  bool limited = false;  // a container limit is below the physical memory
};

// What is promised of `value`, a sum of kinds of reclaimable memory that overlap: at most nine tenths of the
// total, and never less than what nobody uses.
Bytes available_memory(Bytes value, Bytes total, Bytes truly_free);

// `root` stands for "/" in tests. Whatever cannot be read counts as no limit; detection never fails.
MemoryFacts read_memory(const std::filesystem::path& root = "/");

}  // namespace gezel::system
