// base/result.h
//
// Errors are values: a function that can fail in the world returns Result<T>. An Error says what was wrong,
// what was expected and what to do; exceptions are left to bugs and out-of-memory.
#pragma once
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace gezel {

// What kind of failure it was; decides the HTTP status and exit code where nothing more precise is known.
enum class ErrorKind {
  invalid,      // the caller's input is wrong: 400
  denied,       // credentials or policy: 401, 403
  not_found,    // 404
  conflict,     // the state does not allow it: 409
  too_large,    // a limit on size: 413
  unavailable,  // not now, perhaps later: 503
  timeout,      // 504
  cancelled,    // the caller went away: 499
  corrupt,      // stored or received data does not hold together
  io,           // the operating system said no
  internal,     // our own fault: 500
};

struct Error {
  ErrorKind kind = ErrorKind::internal;
  std::string code;     // stable machine-readable word, for example "model_not_found"
  std::string message;  // one or more sentences for a person: what, expected, remedy
  std::string param;    // the field it is about, as a path such as "messages[2].role"; may be empty
};

template <class T = void>
using Result = std::expected<T, Error>;

inline std::unexpected<Error> fail(ErrorKind kind, std::string code, std::string message,
                                   std::string param = {}) {
  return std::unexpected<Error>(Error{kind, std::move(code), std::move(message), std::move(param)});
}

// An Error for a failed system call: `what` says what was tried ("open /x/y"), `error_number` is errno.
Error errno_error(std::string_view what, int error_number);

}  // namespace gezel

// Evaluates a Result and returns its error from the enclosing function, or binds its value to `var`.
#define GEZEL_CONCAT_INNER(a, b) a##b
#define GEZEL_CONCAT(a, b) GEZEL_CONCAT_INNER(a, b)
#define GEZEL_TRY(var, expression) GEZEL_TRY_IMPL(GEZEL_CONCAT(try_result_, __LINE__), var, expression)
#define GEZEL_TRY_IMPL(tmp, var, expression)                \
  auto tmp = (expression);                                  \
  if (!tmp) return std::unexpected(std::move(tmp).error()); \
  var = std::move(*tmp)
// The same for Result<void>.
#define GEZEL_CHECK(expression) \
  if (auto checked = (expression); !checked) return std::unexpected(std::move(checked).error())
