#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "system/process_usage.h"
#include "system/text_file.h"

namespace gezel::system {

ProcessUsage::ProcessUsage()
    : statm_(open("/proc/self/statm", O_RDONLY | O_CLOEXEC)),
      fds_(open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}

Bytes ProcessUsage::statm(std::size_t field) const {
  std::array<char, 256> text;
  const ssize_t size = statm_ ? pread(statm_.get(), text.data(), text.size(), 0) : -1;
  if (size <= 0) return 0;
  const auto fields = words({text.data(), static_cast<std::size_t>(size)});
  const auto pages = fields.size() > field ? parse_unsigned(fields[field]) : std::nullopt;
  return pages.value_or(0) * static_cast<Bytes>(sysconf(_SC_PAGESIZE));
}

Bytes ProcessUsage::resident_bytes() const {
  return statm(1);
}

Bytes ProcessUsage::anonymous_bytes() const {
  const Bytes resident = statm(1), shared = statm(2);
  return resident > shared ? resident - shared : 0;
}

int ProcessUsage::open_descriptors() const {
  if (!fds_ || lseek(fds_.get(), 0, SEEK_SET) != 0) return 0;
  int count = 0;
  alignas(8) std::array<char, 8192> buffer;
  for (;;) {
    const long size = syscall(SYS_getdents64, fds_.get(), buffer.data(), buffer.size());
    if (size <= 0) break;
    for (long at = 0; at < size;) {
      // struct linux_dirent64: 8 bytes inode, 8 offset, 2 record length, 1 type, name
      std::uint16_t length = 0;
      std::memcpy(&length, buffer.data() + at + 16, sizeof length);
      if (buffer[static_cast<std::size_t>(at) + 19] != '.') ++count;
      at += length;
    }
  }
  return count - (statm_ ? 1 : 0) - 1;
}

}  // namespace gezel::system
