// capacity/test_machines.h
//
// Machines and models that many tests share. Figures in GiB.
#pragma once
#include "capacity/launch.h"
#include "capacity/profile.h"

namespace gezel::capacity::testing {

constexpr Bytes gib(double value) {
  return static_cast<Bytes>(value * static_cast<double>(kGiB));
}

// A processor and main memory.
inline MemoryProfile plain_host(double ram) {
  return plan_profile({.total_ram = gib(ram)});
}
// A card of its own, named so that it is known as one.
inline MemoryProfile card_host(double vram, double ram) {
  return plan_profile(
      {.total_ram = gib(ram),
       .devices = {{.id = "Vulkan0", .name = "AMD Radeon RX 7900", .total_mib = gib(vram) / kMiB}}});
}
// GPU and processor share one memory.
inline MemoryProfile unified_host(double ram) {
  return plan_profile({.platform = Platform::macos, .arm64 = true, .total_ram = gib(ram)});
}

// The machine of a profile with nothing loaded.
inline MachineState machine(const MemoryProfile& profile) {
  MachineState out{.pools = profile.budget, .total_ram = profile.total_ram_bytes};
  out.broker = Broker({.pools = profile.budget, .total_ram = profile.total_ram_bytes}).view();
  out.on_gpu = profile.gpu_memory_kind != GpuMemoryKind::none;
  out.largest_vram = profile.fast_gpu_bytes().value_or(0);
  return out;
}

// 32 layers: every fourth is global with 2 heads of 256 + 256, the others have 6 heads of
// 128 + 128 and a window of 512.
inline KvGeometry swa_geometry() {
  return {.global_elements = 8 * 2 * 512,
          .windowed_elements = 24 * 6 * 256,
          .window = 512,
          .attention_layers = 32,
          .windowed_layers = 24};
}

}  // namespace gezel::capacity::testing
