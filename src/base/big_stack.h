// base/big_stack.h
//
// Runs a function on a stack of a chosen size. For code of others that recurses as deep as its input is long.
#pragma once
#include <cstddef>
#include <functional>

namespace gezel {

// Calls `work`, which must not throw, on a thread with a stack of `stack_bytes` and waits for it. The memory
// is only used as far as the stack grows, and given back at once. False: there was no such thread, and `work`
// was not called.
bool run_on_big_stack(std::size_t stack_bytes, const std::function<void()>& work);

}  // namespace gezel
