// What tools and the kernel print is not ours: any text is answered, and what is found is plausible.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "system/device_cache.h"
#include "system/devices.h"
#include "system/gpu_health.h"
#include "system/gpu_libraries.h"
#include "system/gpu_users.h"
#include "system/pressure.h"
#include "system/vm_stat.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gezel::system;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto devices = parse_device_list(text);
  for (const Device& device : devices) {
    if (device.id.empty() || device.name.empty()) std::abort();
    (void)device_kind(device);
    (void)device_vendor(device.name);
  }
  if (const Device* best = best_device(devices); best && best->total_mib == 0) std::abort();
  if (const auto memory = parse_nvidia_memory(text); memory && memory->vram_bytes == 0) std::abort();
  (void)match_card(parse_nvidia_cards(text), "CUDA0", text);
  (void)parse_device_cache(text);
  for (const auto& gpus :
       {parse_nvidia_health(text), parse_amd_smi(text), parse_rocm_smi(text), parse_gpu_sample(text)}) {
    for (const auto& gpu : gpus)
      if (gpu.id.empty() || (gpu.utilization_percent && *gpu.utilization_percent > 100)) std::abort();
  }
  for (const auto& user : parse_nvidia_users(text))
    if (user.pid <= 0 || gpu_user_label(gpu_user_kind(user, {})).empty()) std::abort();
  if (const auto stall = parse_stall(text); stall && (stall->some < 0 || stall->full < 0)) std::abort();
  if (const auto bytes = parse_vm_stat(text); bytes && *bytes == 0) std::abort();
  return 0;
}
