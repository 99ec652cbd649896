#include "base/big_stack.h"

#include <pthread.h>

namespace gezel {

bool run_on_big_stack(std::size_t stack_bytes, const std::function<void()>& work) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_t thread{};
  // A size has to be a multiple of the page size on some systems; 64 KiB is one everywhere.
  constexpr std::size_t kUnit = std::size_t{64} * 1024;
  const auto size = (stack_bytes + kUnit - 1) / kUnit * kUnit;
  const auto call = [](void* argument) -> void* {
    (*static_cast<const std::function<void()>*>(argument))();
    return nullptr;
  };
  auto* argument = const_cast<void*>(static_cast<const void*>(&work));
  const bool started = pthread_attr_setstacksize(&attributes, size) == 0 &&
                       pthread_create(&thread, &attributes, call, argument) == 0;
  pthread_attr_destroy(&attributes);
  if (started) pthread_join(thread, nullptr);
  return started;
}

}  // namespace gezel
