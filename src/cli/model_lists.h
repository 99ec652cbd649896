// cli/model_lists.h
//
// Models that are not installed: what the catalog offers this machine, and what other programs have on it.
// The daemon knows both.
#pragma once
#include "cli/environment.h"

namespace gezel::cli {

// Both start a daemon when none runs, and return the exit code.
int print_available(Environment& env, bool json);
int print_discovered(Environment& env, bool json);

}  // namespace gezel::cli
