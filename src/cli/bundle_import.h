// cli/bundle_import.h
//
// `gezel import FILE.gezmodel`: the bundle is looked at, what it is is shown, and then it is put into the
// store, by the daemon where one runs.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "cli/command.h"

namespace gezel::cli {

bool is_bundle(std::string_view path);

struct BundleToTake {
  std::string path;  // absolute
  bool replace = false;
  bool dry_run = false;  // only looks
  // Asked about the review before anything is put into the store; an error ends it.
  std::function<Result<>(const json::object& review)> agree = {};
};
// Into the store of the environment's home, by its daemon where one runs. The model's entry, or the review of
// a dry run. Errors: those of models::BundleImports.
Result<json::object> take_bundle(const Environment& env, const BundleToTake& bundle);

// `path` is absolute. The process exit code.
int import_bundle(Environment& env, const Arguments& arguments, const std::string& path);

}  // namespace gezel::cli
