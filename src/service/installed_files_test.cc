#include "service/installed_files.h"

#include <gtest/gtest.h>

namespace gezel::service {
namespace {

models::InstalledModel model(std::string id, const char* weights) {
  models::InstalledModel out;
  out.id = std::move(id);
  out.weights = weights;
  return out;
}

TEST(InstalledFiles, KnowAModelByTheNameOfItsFileOrByTheFileItself) {
  const std::vector installed{model("a", "/store/a/x.gguf"), model("b", "/hub/blobs/123"),
                              model("copy", "/hub/blobs/123")};
  const InstalledFiles files(installed);
  EXPECT_EQ(files.id_of({"/store/a/x.gguf", "/store/a/y.gguf"}, {}), "a");
  EXPECT_EQ(files.id_of({"/hub/snapshots/m.gguf"}, "/hub/blobs/123"), "b") << "the first of two";
  EXPECT_EQ(files.id_of({"/store/a/y.gguf", "/store/a/x.gguf"}, {}), "") << "only the first file counts";
  EXPECT_EQ(files.id_of({"/elsewhere"}, "/elsewhere"), "");
  EXPECT_EQ(files.id_of({}, "/hub/blobs/123"), "");
}

}  // namespace
}  // namespace gezel::service
