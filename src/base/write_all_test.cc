#include "base/write_all.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <thread>

#include "base/process.h"

namespace gezel {
namespace {

TEST(WriteAll, GoesOnWhereOneCallTakesOnlyAPart) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const Fd from(ends[0]);
  Fd to(ends[1]);
  // More than a pipe holds.
  std::string sent(1 << 20, '\0');
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 31 >> 8);
  std::string got;
  std::thread reader([&] {
    char piece[4096];
    for (ssize_t size; (size = ::read(from.get(), piece, sizeof piece)) > 0;)
      got.append(piece, static_cast<std::size_t>(size));
  });
  EXPECT_TRUE(write_all(to.get(), sent));
  to.reset();
  reader.join();
  EXPECT_EQ(got, sent);
}

TEST(WriteAll, SaysWhyItWasRefused) {
  const Fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(full);
  EXPECT_TRUE(write_all(full.get(), ""));
  EXPECT_FALSE(write_all(full.get(), "x"));
  EXPECT_EQ(errno, ENOSPC);
}

}  // namespace
}  // namespace gezel
