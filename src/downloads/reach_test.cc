#include "downloads/reach.h"

#include <gtest/gtest.h>

#include "base/files.h"
#include "base/json.h"

namespace gezel::downloads {
namespace {

TEST(Reach, TellsPublicAddressesFromThoseOfThisNetwork) {
  const auto cases = parse_json(read_file(GEZEL_TESTDATA "/downloads/addresses.json").value()).value();
  for (const auto& each : cases.as_object()) {
    EXPECT_EQ(may_be_public(each.key()), each.value().as_bool()) << each.key();
  }
}

TEST(Reach, BytesOfAnotherLengthAreNoPublicAddress) {
  const unsigned char bytes[] = {8, 8, 8};
  EXPECT_FALSE(is_public_address(bytes));
  EXPECT_FALSE(is_public_address({}));
}

}  // namespace
}  // namespace gezel::downloads
