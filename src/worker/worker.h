// worker/worker.h
//
// The worker process: one loaded GGUF model behind a socket (spec 30 section 13). Threads: the main thread
// decodes, one reads frames, one prepares requests (Intake), one writes (Outbox).
#pragma once
#include <string>

namespace gezel::worker {

// Serves the daemon at the other end of `fd` until it goes away or asks for the end. Returns the exit status.
int run_worker(int fd);

// What `gezel-engine --version` prints.
std::string version_text();
std::string version_json();

}  // namespace gezel::worker
