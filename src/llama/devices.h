// llama/devices.h
//
// What this build can compute on beside the processor, as text that a daemon or a person reads (spec 20
// section 2.3).
#pragma once
#include <string>

namespace gezel::llama {

// "Available devices:" and a line "  CUDA0: NVIDIA A10 (22515 MiB, 22000 MiB free)" for each, or "  (none)".
std::string device_list();

}  // namespace gezel::llama
