// cli/run_cli.h
//
// The whole command line: words in, exit status out (exit_codes.h).
#pragma once
#include <string>
#include <vector>

#include "cli/environment.h"

namespace gezel::cli {

// `words`: the arguments without the program's name.
int run_cli(const std::vector<std::string>& words, Environment env);

}  // namespace gezel::cli
