// worker/sandbox.h
//
// The worker parses files that strangers made. Before it reads the first byte of one it gives up everything
// it does not need, in two steps, because the two mechanisms cover threads differently:
//
//   1. restrict_files: Landlock covers the calling thread and the threads it starts later. Call it while the
//   process still
//      has one thread, as soon as the model's files are known.
//   2. restrict_syscalls: a seccomp filter is laid on all threads at once. Call it when the pools run.
//
// Both are final, and inherited. What is open keeps working: the socket to the daemon, standard error, files
// opened before. Things that stop working and have a replacement: facts about this process (open them first,
// see system/process_usage.h), the local time zone (call tzset() first and use localtime_r()), loading shared
// libraries.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"

namespace gezel::worker {

// From now on this thread may read exactly `read_files` and what the processor is, read and write below
// `writable_folder` (an existing folder; "" = none), and open nothing else; it may start no program from any
// file, and where the kernel can tell, use no TCP port and signal nobody outside. Returns sandbox_status(): a
// kernel without Landlock is no error but is told. Errors: a file that cannot be opened
// (`model-unreadable`, naming it without its folder), more than one thread, a call the kernel refused
// (`engine-sandbox`).
Result<std::string> restrict_files(const std::vector<std::string>& read_files,
                                   const std::string& writable_folder);

// From now on no thread may create a socket of any kind (connected ones keep working), start a program or a
// process, look into or signal another process, change mounts, namespaces, modules, keys, clocks, owners or
// access rights of files, or use a system call younger than this file; each attempt fails with EPERM or
// ENOSYS. System calls of another architecture end the process. Returns sandbox_status(); a kernel without
// seccomp is no error but is told.
Result<std::string> restrict_syscalls();

// "full", or what this kernel lacks for the above.
std::string sandbox_status();

}  // namespace gezel::worker
