// base/test_unprivileged.h
//
// For tests of permissions, which root does not have to respect.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace gezel {

// While it lives root is a user like others, who owns `folder`; permissions then mean something.
class Unprivileged {
 public:
  explicit Unprivileged(const std::filesystem::path& folder) : root_(::geteuid() == 0) {
    if (!root_) return;
    EXPECT_EQ(::lchown(folder.c_str(), kNobody, kNobody), 0);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
      EXPECT_EQ(::lchown(entry.path().c_str(), kNobody, kNobody), 0);
    EXPECT_EQ(::seteuid(kNobody), 0);
  }
  Unprivileged(const Unprivileged&) = delete;
  Unprivileged& operator=(const Unprivileged&) = delete;
  ~Unprivileged() {
    if (root_) EXPECT_EQ(::seteuid(0), 0);
  }

 private:
  static constexpr uid_t kNobody = 65534;
  bool root_;
};

}  // namespace gezel
