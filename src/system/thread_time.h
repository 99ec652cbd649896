// system/thread_time.h
//
// How long this thread has really run on a processor.
#pragma once

namespace gezel::system {

// Milliseconds since the thread began; 0 where the system does not say.
double thread_cpu_ms();

}  // namespace gezel::system
