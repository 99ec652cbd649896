#include "system/gpu.h"

#include <gtest/gtest.h>

#include "base/bytes.h"
#include "system/test_tree.h"

namespace gezel::system {
namespace {

using namespace testing;  // TestTree of this module

void add_pci(TestTree& tree, const std::string& address, const char* pci_class, const char* vendor,
             const char* device) {
  const std::string folder = "sys/bus/pci/devices/" + address + "/";
  tree.file(folder + "class", pci_class).file(folder + "vendor", vendor).file(folder + "device", device);
}

TEST(DriverLibraries, AreFoundWhereTheLoaderLooks) {
  const TestTree nothing;
  EXPECT_EQ(find_driver_libraries(nothing.root()), DriverLibraries());
  TestTree usual;
  usual.file("usr/lib/x86_64-linux-gnu/libcuda.so.1", "");
  EXPECT_EQ(find_driver_libraries(usual.root()), (DriverLibraries{.cuda = true}));
  TestTree configured;
  configured.file("etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n/opt/b\n")
      .file("etc/ld.so.conf.d/amd.conf", "# a note\n  /opt/rocm/lib  \n")
      .file("opt/rocm/lib/libvulkan.so.1", "")
      .file("opt/b/libcuda.so.1", "");
  EXPECT_EQ(find_driver_libraries(configured.root()), (DriverLibraries{.cuda = true, .vulkan = true}));
  TestTree elsewhere;
  elsewhere.file("opt/rocm/lib/libvulkan.so.1", "").file("usr/lib/libcuda.so.2", "");
  EXPECT_EQ(find_driver_libraries(elsewhere.root()), DriverLibraries());
}

TEST(DriverLibraries, ALinkIntoNothingIsNoDriver) {
  TestTree tree;
  tree.link("usr/lib/libcuda.so.1", "libcuda.so.550.54");
  EXPECT_FALSE(find_driver_libraries(tree.root()).cuda);
}

TEST(Gpu, AnNvidiaCardWithItsDriverIsNamedByTheDriver) {
  TestTree tree;
  add_pci(tree, "0000:01:00.0", "0x030200\n", "0x10de\n", "0x2335\n");
  tree.link("sys/bus/pci/devices/0000:01:00.0/driver", "../../../bus/pci/drivers/nvidia");
  tree.file("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA H200\nIRQ:   \t\t 26\n");
  tree.file("dev/nvidia0", "").file("dev/nvidiactl", "");
  const auto gpus = find_gpus(tree.root());
  ASSERT_EQ(gpus.size(), 1u);
  EXPECT_EQ(gpus[0].vendor, "nvidia");
  EXPECT_EQ(gpus[0].name, "NVIDIA H200");
  EXPECT_EQ(gpus[0].driver, "nvidia");
  EXPECT_EQ(gpus[0].address, "0000:01:00.0");
  EXPECT_TRUE(gpus[0].device_file);
}

TEST(Gpu, ACardWithoutDriverIsFoundAllTheSame) {
  TestTree tree;
  add_pci(tree, "0000:01:00.0", "0x030000\n", "0x10de\n", "0x2684\n");
  const auto gpus = find_gpus(tree.root());
  ASSERT_EQ(gpus.size(), 1u);
  EXPECT_EQ(gpus[0].name, "nvidia 2684");
  EXPECT_EQ(gpus[0].driver, "");
  EXPECT_FALSE(gpus[0].device_file);
}

TEST(Gpu, AmdgpuTellsItsMemory) {
  TestTree tree;
  add_pci(tree, "0000:03:00.0", "0x030000\n", "0x1002\n", "0x744c\n");
  tree.link("sys/bus/pci/devices/0000:03:00.0/driver", "../../drivers/amdgpu");
  tree.file("sys/bus/pci/devices/0000:03:00.0/mem_info_vram_total", "25753026560\n");
  tree.file("sys/bus/pci/devices/0000:03:00.0/drm/renderD128/dev", "226:128\n")
      .file("dev/dri/renderD128", "");
  const auto gpus = find_gpus(tree.root());
  ASSERT_EQ(gpus.size(), 1u);
  EXPECT_EQ(gpus[0].vram_bytes, 25'753'026'560u);
  EXPECT_TRUE(gpus[0].device_file);
}

TEST(Gpu, OtherDevicesAndVirtualDisplaysAreNoGpus) {
  TestTree tree;
  add_pci(tree, "0000:00:01.0", "0x030000\n", "0x1234\n", "0x1111\n");  // emulated display
  add_pci(tree, "0000:00:02.0", "0x020000\n", "0x8086\n", "0x1533\n");  // network
  add_pci(tree, "0000:00:03.0", "0x120000\n", "0x8086\n", "0x4940\n");  // crypto accelerator
  add_pci(tree, "0000:00:04.0", "nonsense\n", "0x10de\n", "0x2335\n");
  EXPECT_TRUE(find_gpus(tree.root()).empty());
}

TEST(Gpu, DataCentreAcceleratorsCount) {
  TestTree tree;
  add_pci(tree, "0000:05:00.0", "0x120000\n", "0x1002\n", "0x74a1\n");
  ASSERT_EQ(find_gpus(tree.root()).size(), 1u);
}

TEST(Gpu, PlatformGpusAreFoundByTheirDriver) {
  TestTree tree;
  tree.file("sys/devices/platform/406400000.gpu/uevent", "");
  tree.link("sys/devices/platform/406400000.gpu/driver", "../../../bus/platform/drivers/asahi");
  tree.file("sys/devices/platform/406400000.gpu/drm/renderD128/dev", "").file("dev/dri/renderD128", "");
  tree.link("sys/class/drm/card0/device", "../../../devices/platform/406400000.gpu");
  tree.file("sys/class/drm/card0-HDMI-A-1/status", "connected\n");
  const auto gpus = find_gpus(tree.root());
  ASSERT_EQ(gpus.size(), 1u);
  EXPECT_EQ(gpus[0].vendor, "apple");
  EXPECT_EQ(gpus[0].address, "406400000.gpu");
  EXPECT_TRUE(gpus[0].device_file);
}

TEST(Gpu, AnEmptyMachineHasNone) {
  EXPECT_TRUE(find_gpus(TestTree().root()).empty());
}

}  // namespace
}  // namespace gezel::system
