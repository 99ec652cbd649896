#include "template/renderer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "template/chat_template.h"

namespace gezel::chat {
namespace {

constexpr int kOverrun = 42;

// Each value holds the one before twice: sixty steps make a text that no machine can hold.
constexpr std::string_view kDoubled =
    "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = [n.x, n.x] %}{% endfor %}";

Renderer with_memory(std::uint64_t bytes, std::string_view source) {
  gezel_template_limits limits = gezel_template_default_limits();
  limits.memory_bytes = bytes;
  limits.memory_per_kib = 0;
  auto renderer = Renderer::compile(source, limits);
  EXPECT_TRUE(renderer);
  return std::move(*renderer);
}

TEST(RendererDeathTest, TextThatNoMachineCanHoldEndsTheProcessInTheWayThatWasAskedFor) {
  for (const std::string_view use :
       {"{{ n.x ~ '' }}", "{{ '' ~ n.x }}", "{{ n.x in 'text' }}", "{{ n.x | upper }}", "{{ '%s' | format(n.x) }}"}) {
    EXPECT_EXIT(
        {
          on_overrun([] { ::_exit(kOverrun); });
          (void)with_memory(32 << 20, std::string(kDoubled) + std::string(use)).render("{}", 0);
        },
        testing::ExitedWithCode(kOverrun), "")
        << use;
  }
}

TEST(RendererDeathTest, WithoutAWayItAborts) {
  EXPECT_DEATH((void)with_memory(32 << 20, std::string(kDoubled) + "{{ n.x ~ '' }}").render("{}", 0), "");
}

TEST(Renderer, MemoryThatWasGivenBackCountsNoMore) {
  const auto renderer = with_memory(
      8 << 20, "{% set n = namespace(x='') %}{% for i in range(100) %}{% set n.x = 'ab' * 500000 %}{% endfor %}{{ n.x | "
               "length }}");
  const auto text = renderer.render("{}", 0);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(*text, "1000000");
}

TEST(Renderer, SaysWhenARenderingBegins) {
  auto renderer = with_memory(32 << 20, "{{ 1 + 'a' }}");
  int begun = 0;
  renderer.before_each([&] { ++begun; });
  EXPECT_FALSE(renderer.render("{}", 0));
  EXPECT_EQ(begun, 1);
}

}  // namespace
}  // namespace gezel::chat
