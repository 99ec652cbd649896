#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "system/gpu.h"
#include "system/text_file.h"

namespace gezel::system {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxDevices = 4096;

struct Vendor {
  std::uint32_t id;
  std::string_view name;
};
constexpr auto kPciVendors = std::to_array<Vendor>({{0x10de, "nvidia"}, {0x1002, "amd"}, {0x8086, "intel"}});

// Drivers of GPUs that sit on no PCI bus.
struct PlatformDriver {
  std::string_view driver, vendor;
};
constexpr auto kPlatformDrivers = std::to_array<PlatformDriver>({{"asahi", "apple"},
                                                                 {"msm", "qualcomm"},
                                                                 {"msm_dpu", "qualcomm"},
                                                                 {"panfrost", "arm"},
                                                                 {"panthor", "arm"},
                                                                 {"lima", "arm"}});

// PCI base classes: display controllers, and processing accelerators (data centre GPUs without display).
constexpr std::uint32_t kDisplay = 0x03, kAccelerator = 0x12;

std::optional<std::uint32_t> read_hex(const fs::path& path) {
  const auto text = read_text(path, 64);
  if (!text) return std::nullopt;
  std::string_view digits = trim(*text);
  if (digits.starts_with("0x")) digits.remove_prefix(2);
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end && paths.size() < kMaxDevices;
       it.increment(error)) {
    paths.push_back(it->path());
  }
  std::ranges::sort(paths);
  return paths;
}

std::string link_name(const fs::path& link) {
  std::error_code error;
  const fs::path target = fs::read_symlink(link, error);
  return error ? std::string() : target.filename().string();
}

bool starts_with(const fs::path& path, std::string_view prefix) {
  return path.filename().string().starts_with(prefix);
}

// Is there a render node, or the vendor's own device file, for the device?
bool has_device_file(const fs::path& root, const fs::path& device, std::string_view vendor) {
  std::error_code error;
  for (const fs::path& node : entries(device / "drm")) {
    if (starts_with(node, "renderD") && fs::exists(under(root, "/dev/dri") / node.filename(), error))
      return true;
  }
  if (vendor != "nvidia" || !fs::exists(under(root, "/dev/nvidiactl"), error)) return false;
  return std::ranges::any_of(entries(under(root, "/dev")), [](const fs::path& file) {
    return starts_with(file, "nvidia") && parse_unsigned(file.filename().string().substr(6));
  });
}

// NVIDIA's driver names its GPUs in /proc, amdgpu some of them in /sys.
std::string product_name(const fs::path& root, const fs::path& device) {
  const auto information =
      read_text(under(root, "/proc/driver/nvidia/gpus") / device.filename() / "information", 64 * kKiB);
  for (std::string_view line : information ? lines(*information) : std::vector<std::string_view>{}) {
    if (line.starts_with("Model:")) return std::string(trim(line.substr(6)));
  }
  const auto product = read_text(device / "product_name", kKiB);
  return product ? std::string(trim(*product)) : std::string();
}

std::optional<GpuFacts> pci_gpu(const fs::path& root, const fs::path& device) {
  const auto pci_class = read_hex(device / "class"), vendor_id = read_hex(device / "vendor");
  if (!pci_class || !vendor_id) return std::nullopt;
  const std::uint32_t base = *pci_class >> 16;
  if (base != kDisplay && base != kAccelerator) return std::nullopt;
  const auto vendor = std::ranges::find(kPciVendors, *vendor_id, &Vendor::id);
  if (vendor == kPciVendors.end()) return std::nullopt;  // virtual and server-management displays
  if (base == kAccelerator && vendor->name == "intel") return std::nullopt;  // crypto and compression engines
  GpuFacts gpu{.vendor = std::string(vendor->name), .address = device.filename().string()};
  gpu.driver = link_name(device / "driver");
  gpu.name = product_name(root, device);
  if (gpu.name.empty())
    gpu.name = fmt::format("{} {:04x}", gpu.vendor, read_hex(device / "device").value_or(0));
  if (const auto vram = read_text(device / "mem_info_vram_total", 64)) gpu.vram_bytes = parse_unsigned(*vram);
  gpu.device_file = has_device_file(root, device, gpu.vendor);
  return gpu;
}

std::optional<GpuFacts> platform_gpu(const fs::path& root, const fs::path& device) {
  const std::string driver = link_name(device / "driver");
  const auto known = std::ranges::find(kPlatformDrivers, driver, &PlatformDriver::driver);
  if (known == kPlatformDrivers.end()) return std::nullopt;
  GpuFacts gpu{.vendor = std::string(known->vendor), .driver = driver};
  std::error_code error;
  gpu.address = fs::canonical(device, error).filename().string();
  gpu.name = gpu.vendor + " " + gpu.address;
  gpu.device_file = has_device_file(root, device, gpu.vendor);
  return gpu;
}

// Where the loader looks without being told, and where Linux beside Windows keeps its driver.
constexpr std::array kLibraryFolders = {"/lib",
                                        "/lib64",
                                        "/usr/lib",
                                        "/usr/lib64",
                                        "/usr/local/lib",
                                        "/lib/x86_64-linux-gnu",
                                        "/usr/lib/x86_64-linux-gnu",
                                        "/lib/aarch64-linux-gnu",
                                        "/usr/lib/aarch64-linux-gnu",
                                        "/usr/lib/wsl/lib",
                                        "/run/opengl-driver/lib"};

// Those, and what /etc/ld.so.conf and its folder name.
std::vector<fs::path> library_folders(const fs::path& root) {
  constexpr std::size_t kMostFolders = 256;
  std::vector<fs::path> out(kLibraryFolders.begin(), kLibraryFolders.end());
  std::vector<fs::path> files = entries(under(root, "/etc/ld.so.conf.d"));
  files.push_back(under(root, "/etc/ld.so.conf"));
  for (const fs::path& file : files) {
    const auto text = read_text(file, 64 * kKiB);
    for (std::string_view line : text ? lines(*text) : std::vector<std::string_view>{}) {
      const std::string_view folder = trim(line);
      if (folder.starts_with('/') && out.size() < kMostFolders) out.emplace_back(folder);
    }
  }
  return out;
}

}  // namespace

DriverLibraries find_driver_libraries(const fs::path& root) {
  const auto folders = library_folders(root);
  const auto is_here = [&](std::string_view name) {
    return std::ranges::any_of(folders, [&](const fs::path& folder) {
      std::error_code error;
      return fs::exists(under(root, folder) / name, error);
    });
  };
  return {.cuda = is_here("libcuda.so.1"), .vulkan = is_here("libvulkan.so.1")};
}

std::vector<GpuFacts> find_gpus(const fs::path& root) {
  std::map<std::string, GpuFacts> by_address;
  for (const fs::path& device : entries(under(root, "/sys/bus/pci/devices"))) {
    if (auto gpu = pci_gpu(root, device)) by_address.emplace(gpu->address, std::move(*gpu));
  }
  for (const fs::path& card : entries(under(root, "/sys/class/drm"))) {
    if (!starts_with(card, "card") || card.filename().string().find('-') != std::string::npos)
      continue;  // not connectors
    if (auto gpu = platform_gpu(root, card / "device")) by_address.emplace(gpu->address, std::move(*gpu));
  }
  std::vector<GpuFacts> gpus;
  for (auto& [address, gpu] : by_address) gpus.push_back(std::move(gpu));
  return gpus;
}

}  // namespace gezel::system
