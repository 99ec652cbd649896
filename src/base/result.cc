#include "base/result.h"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

namespace gezel {

Error errno_error(std::string_view what, int error_number) {
  auto kind = ErrorKind::io;
  if (error_number == ENOENT) kind = ErrorKind::not_found;
  if (error_number == EACCES || error_number == EPERM) kind = ErrorKind::denied;
  const std::string reason = std::error_code(error_number, std::generic_category()).message();
  return Error{kind, "io_error", fmt::format("{}: {}", what, reason), {}};
}

}  // namespace gezel
