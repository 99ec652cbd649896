#include "base/pages.h"

#include <gtest/gtest.h>

namespace gezel {
namespace {

TEST(Pages, HoldBytesOfAnySize) {
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{100'000}, std::size_t{5'000'001}}) {
    Buffer bytes(size, std::byte{7});
    bytes.push_back(std::byte{8});
    EXPECT_EQ(bytes.size(), size + 1);
    EXPECT_EQ(bytes.front(), size == 0 ? std::byte{8} : std::byte{7});
    const Buffer copy = bytes;
    EXPECT_EQ(copy, bytes);
  }
}

TEST(Pages, LargeBlocksBeginAtAHugePage) {
  const Buffer bytes(std::size_t{5} << 20);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes.data()) % (std::size_t{2} << 20), 0U);
}

TEST(Pages, RefuseMoreThanThereIs) {
  EXPECT_THROW(Buffer(static_cast<std::size_t>(-1) / 2 - (std::size_t{4} << 20)), std::bad_alloc);
}

}  // namespace
}  // namespace gezel
