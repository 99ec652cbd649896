// system/gpu_users.h
//
// Who holds memory of a GPU, and what kind of program that is (spec 30 section 10.6): so that a person sees
// that it is another program's. Pure; system/gpu_tools.h runs the tool.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace gezel::system {

enum class GpuUserKind {
  gezel,        // a worker of this service
  machine,      // a model server that is installed for the whole machine
  app,          // one that came with another application
  development,  // one that was built or unpacked somewhere in a folder of a user
  external,     // no model server
};
std::string_view gpu_user_label(GpuUserKind kind);  // "gezel-engine", "machine-engine", ..., "external"

struct GpuUser {
  std::int64_t pid = 0;
  std::string program;         // its path, as far as the tool tells it
  std::optional<Bytes> bytes;  // absent: the tool does not know
};

// `own`: the processes of this service.
GpuUserKind gpu_user_kind(const GpuUser& user, std::span<const std::int64_t> own);

inline constexpr std::size_t kMostGpuUsers = 1024;

// What these arguments make nvidia-smi print, one line a process and GPU; those of one process are summed.
inline constexpr std::string_view kNvidiaUsersQuery = "--query-compute-apps=pid,process_name,used_gpu_memory";
std::vector<GpuUser> parse_nvidia_users(std::string_view text);

}  // namespace gezel::system
