// calibration/explain.h
//
// Why a self-test child died, in words that name the instruction family and the remedy.
#pragma once
#include <string>

#include "base/process.h"

namespace gezel::calibration {

// `features`: the instruction sets of the build, when the child could still say.
std::string explain_end(ExitStatus status, const std::string& buffer_type, const std::string& features);

}  // namespace gezel::calibration
