// cli/bundle_import.h
//
// `gezel import FILE.gezmodel`: the bundle is looked at, what it is is shown, and then it is put into the
// store, by the daemon where one runs.
#pragma once
#include <string_view>

#include "cli/command.h"

namespace gezel::cli {

bool is_bundle(std::string_view path);
// `path` is absolute. The process exit code.
int import_bundle(Environment& env, const Arguments& arguments, const std::string& path);

}  // namespace gezel::cli
