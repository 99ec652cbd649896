#include "worker/guarded_thread.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <limits>
#include <utility>

#include "template/chat_template.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define GEZEL_UNDER_SANITIZER 1
#endif
#endif

namespace gezel::worker {
namespace {

TEST(GuardedThread, RunsItsWorkToTheEnd) {
  bool done = false;
  { const GuardedThread thread([&] { done = true; }); }
  EXPECT_TRUE(done);
}

#ifndef GEZEL_UNDER_SANITIZER  // which have their own opinion about a bad access

constexpr int kOverflowed = 42;

void exit_when_a_stack_overflows() {
  on_stack_overflow([] { ::_exit(kOverflowed); });
}

int bottomless(int depth) {
  volatile char frame[4096] = {};
  frame[0] = static_cast<char>(depth);
  return depth == std::numeric_limits<int>::max() ? 0 : bottomless(depth + 1) + frame[0];
}

TEST(GuardedThreadDeathTest, AnOverflowIsToldApartFromACrash) {
  EXPECT_EXIT(
      {
        exit_when_a_stack_overflows();
        const GuardedThread thread([] { bottomless(0); });
      },
      testing::ExitedWithCode(kOverflowed), "");
}

TEST(GuardedThreadDeathTest, AnyOtherBadAccessIsStillACrash) {
  EXPECT_EXIT(
      {
        exit_when_a_stack_overflows();
        const GuardedThread thread([] { *reinterpret_cast<volatile int*>(8) = 1; });
      },
      testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(
      {
        exit_when_a_stack_overflows();
        *reinterpret_cast<volatile int*>(8) = 1;
      },
      testing::KilledBySignal(SIGSEGV), "");
}

// A value that a template nested ever deeper, and what it does with it.
void render_nested(std::string use) {
  const SystemClock clock;
  chat::TemplateOptions options;
  options.source =
      "{% set n = namespace(x=[]) %}{% for i in range(9) %}{% for j in range(90000) %}{% set n.x = [n.x] %}"
      "{% endfor %}{% endfor %}" +
      std::move(use);
  (void)chat::ChatTemplate::create(std::move(options), clock);
}

TEST(GuardedThreadDeathTest, ATemplateThatNestsValuesEverDeeperIsAnOverflow) {
  for (const char* use : {"", "{{ n.x == [n.x] }}", "{{ n.x ~ '' }}", "{{ n.x }}"}) {
    EXPECT_EXIT(
        {
          exit_when_a_stack_overflows();
          const GuardedThread thread([&] { render_nested(use); });
        },
        testing::ExitedWithCode(kOverflowed), "")
        << use;
  }
}

#endif

}  // namespace
}  // namespace gezel::worker
