// turn/task.h
//
// A coroutine that reads text which arrives in pieces (turn/input.h). A grammar written as a coroutine reads
// from top to bottom as if all of its text were there, keeps its place while it waits, and never looks at a
// byte twice because the text was cut.
//
// A task starts when it is awaited, and continues whoever awaited it when it ends.
#pragma once
#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

namespace gezel::turn {

namespace task_detail {

struct Ended {
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> ended) const noexcept {
    const std::coroutine_handle<> next = ended.promise().continuation;
    return next ? next : std::noop_coroutine();
  }
  void await_resume() const noexcept {}
};

struct PromiseBase {
  std::coroutine_handle<> continuation;
  std::exception_ptr error;  // a bug or out-of-memory, passed on to whoever awaits

  std::suspend_always initial_suspend() const noexcept { return {}; }
  Ended final_suspend() const noexcept { return {}; }
  void unhandled_exception() { error = std::current_exception(); }
  void rethrow() const {
    if (error) std::rethrow_exception(error);
  }
};

template <class T>
struct Promise : PromiseBase {
  std::optional<T> value;
  void return_value(T result) { value.emplace(std::move(result)); }
  T take() {
    rethrow();
    return std::move(*value);
  }
};

template <>
struct Promise<void> : PromiseBase {
  void return_void() const noexcept {}
  void take() const { rethrow(); }
};

}  // namespace task_detail

template <class T = void>
class [[nodiscard]] Task {
 public:
  struct promise_type : task_detail::Promise<T> {
    Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
  };

  Task() = default;
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) noexcept {
    handle_.promise().continuation = awaiting;
    return handle_;
  }
  T await_resume() { return handle_.promise().take(); }

  // For the outermost task, which nobody awaits: runs to the first place where it waits for text.
  void start() { handle_.resume(); }
  bool done() const { return handle_.done(); }
  void rethrow() const { handle_.promise().rethrow(); }

 private:
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}

  std::coroutine_handle<promise_type> handle_;
};

}  // namespace gezel::turn
