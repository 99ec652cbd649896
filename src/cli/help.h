// cli/help.h
//
// Help that teaches: what it does, what it takes, examples to copy.
#pragma once
#include <string>

#include "cli/command.h"

namespace gezel::cli {

std::string general_help(const std::string& version, bool color);
std::string command_help(const Command& command, bool color);

}  // namespace gezel::cli
