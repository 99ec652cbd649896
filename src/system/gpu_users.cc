#include "system/gpu_users.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "system/text_file.h"

namespace gezel::system {
namespace {

constexpr std::array<std::pair<GpuUserKind, std::string_view>, 5> kLabels{{
    {GpuUserKind::gezel, "gezel-engine"},
    {GpuUserKind::machine, "machine-engine"},
    {GpuUserKind::app, "app-engine"},
    {GpuUserKind::development, "development-engine"},
    {GpuUserKind::external, "external"},
}};

// Model servers by the name of their program; "gezel-" stands for ours and those that we start.
constexpr std::array<std::string_view, 12> kServers = {
    "llama-server", "llama-cli",      "ollama", "ollama_llama_server", "ds4-server", "sd-server",
    "whisper",      "whisper-server", "vllm",   "koboldcpp",           "lemonade",   "mlx_lm.server"};
constexpr std::array<std::string_view, 6> kMachineFolders = {"/usr/",  "/opt/", "/bin/",
                                                             "/sbin/", "/nix/", "/snap/"};
// Folders by which applications that bring a server of their own are known.
constexpr std::array<std::string_view, 5> kAppMarks = {".app/Contents/", "/Applications/", "/.mount_",
                                                       "/resources/", "/flatpak/app/"};

constexpr std::uint64_t kMostMib = std::uint64_t{1} << 30;

bool is_server(std::string_view program) {
  std::string_view name = program.substr(program.rfind('/') + 1);
  if (name.ends_with(".exe")) name.remove_suffix(4);
  return name.starts_with("gezel-") || std::ranges::find(kServers, name) != kServers.end();
}

}  // namespace

std::string_view gpu_user_label(GpuUserKind kind) {
  return std::ranges::find(kLabels, kind, &std::pair<GpuUserKind, std::string_view>::first)->second;
}

GpuUserKind gpu_user_kind(const GpuUser& user, std::span<const std::int64_t> own) {
  if (std::ranges::find(own, user.pid) != own.end()) return GpuUserKind::gezel;
  const std::string_view program = user.program;
  if (!is_server(program)) return GpuUserKind::external;
  const auto holds = [&](std::string_view mark) { return program.contains(mark); };
  if (std::ranges::any_of(kAppMarks, holds)) return GpuUserKind::app;
  const auto begins = [&](std::string_view folder) { return program.starts_with(folder); };
  if (std::ranges::any_of(kMachineFolders, begins)) return GpuUserKind::machine;
  return GpuUserKind::development;
}

std::vector<GpuUser> parse_nvidia_users(std::string_view text) {
  std::vector<GpuUser> out;
  for (std::string_view line : lines(text)) {
    // A path may hold commas.
    const auto first = line.find(','), last = line.rfind(',');
    if (first == line.npos || first == last) continue;
    const auto pid = parse_unsigned(trim(line.substr(0, first)));
    const std::string_view program = trim(line.substr(first + 1, last - first - 1));
    if (!pid || *pid == 0 || *pid > INT32_MAX || program.empty()) continue;
    std::optional<Bytes> bytes;
    if (const auto mib = parse_unsigned(trim(line.substr(last + 1))); mib && *mib <= kMostMib)
      bytes = *mib * kMiB;
    const auto known = std::ranges::find(out, static_cast<std::int64_t>(*pid), &GpuUser::pid);
    if (known != out.end()) {
      if (bytes) known->bytes = known->bytes.value_or(0) + *bytes;
    } else if (out.size() < kMostGpuUsers) {
      out.push_back({static_cast<std::int64_t>(*pid), std::string(program), bytes});
    }
  }
  return out;
}

}  // namespace gezel::system
