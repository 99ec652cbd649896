// cli/parser.h
//
// Words of a command line into the arguments of one command.
#pragma once
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/command.h"

namespace gezel::cli {

// `words`: what follows the command's name. Errors have code `usage` and name the flag, the value and what is
// allowed; a flag that does not exist comes with the one most like it. `--help` anywhere sets only "--help".
Result<Arguments> parse_arguments(const Command& command, const std::vector<std::string>& words);

}  // namespace gezel::cli
