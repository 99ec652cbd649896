#include "base/public_text.h"

#include <gtest/gtest.h>

namespace gezel {
namespace {

TEST(PublicText, LosesFoldersButKeepsOurRoutes) {
  EXPECT_EQ(without_folders("open '/a/b/c.gguf': no"), "open 'c.gguf': no");
  EXPECT_EQ(without_folders("see GET /v1/models and POST /api/models/import"),
            "see GET /v1/models and POST /api/models/import");
  EXPECT_EQ(without_folders("12/24 tokens/s, a/b"), "12/24 tokens/s, a/b");
  EXPECT_EQ(without_folders("/x"), "/x");
  EXPECT_EQ(without_folders("/a/b/"), "");
}

}  // namespace
}  // namespace gezel
