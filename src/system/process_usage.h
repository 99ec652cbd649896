// system/process_usage.h
//
// What this process itself uses. A locked-down worker may not open files of /proc any more, so everything
// that is needed is opened once, before the lock-down, and read again from the same descriptors.
#pragma once
#include "base/bytes.h"
#include "base/process.h"

namespace gezel::system {

class ProcessUsage {
 public:
  ProcessUsage();  // opens; where /proc is absent every answer is 0
  Bytes resident_bytes() const;
  Bytes anonymous_bytes() const;  // of it, what no file backs
  int open_descriptors() const;   // those of this object left out

 private:
  // Pages of a field of statm: total, resident, shared, ...
  Bytes statm(std::size_t field) const;

  Fd statm_, fds_;
};

}  // namespace gezel::system
