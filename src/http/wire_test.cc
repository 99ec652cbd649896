#include "http/wire.h"

#include <gtest/gtest.h>

namespace gezel::http {
namespace {

TEST(ReasonPhrase, NamesAFullDisk) {
  EXPECT_EQ(reason_phrase(507), "Insufficient Storage");
}

}  // namespace
}  // namespace gezel::http
