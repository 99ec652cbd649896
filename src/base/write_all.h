// base/write_all.h
//
// One write() may take only a part, or be interrupted by a signal; this goes on until everything is written.
#pragma once
#include <string_view>

namespace gezel {

// False when the system refuses; errno then says why, and a part may have been written.
[[nodiscard]] bool write_all(int fd, std::string_view bytes);

}  // namespace gezel
