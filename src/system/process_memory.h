// system/process_memory.h
//
// What another process holds in memory, by the kernel's own account.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/bytes.h"

namespace gezel::system {

// Proportional shares: a page that several processes map counts in parts.
struct ProcessMemory {
  Bytes anonymous = 0;  // nothing but this process needs it
  Bytes shared = 0;     // shared memory without a file
  Bytes file = 0;       // mapped files; the kernel may take it back
  Bytes held() const { return anonymous + shared; }
};

// Nothing when the process is gone or the system does not tell. `proc` is /proc.
std::optional<ProcessMemory> read_process_memory(std::int64_t pid,
                                                 const std::filesystem::path& proc = "/proc");

}  // namespace gezel::system
