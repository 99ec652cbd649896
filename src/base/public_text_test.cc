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

TEST(PublicText, APathWithBlanksLosesAllItsFolders) {
  EXPECT_EQ(without_folders("rename /home/u/My Models/a b.gguf to /srv/x y/c.gguf: full"),
            "rename a b.gguf to c.gguf: full");
  EXPECT_EQ(without_folders("open /home/u/My, Models (old)/m.gguf: Input/output error"),
            "open m.gguf: Input/output error");
  EXPECT_EQ(without_folders("open '/My Disk/a, b: c/m.gguf', then try again"),
            "open 'm.gguf', then try again");
  EXPECT_EQ(without_folders("/My Disk/models/m.gguf is missing"), "m.gguf is missing");
  EXPECT_EQ(without_folders("read /a/b.gguf and POST /v1/models/ensure"),
            "read b.gguf and POST /v1/models/ensure");
  EXPECT_EQ(without_folders("list /a b/c\nlist /d e/f"), "list c\nlist f");
}

}  // namespace
}  // namespace gezel
