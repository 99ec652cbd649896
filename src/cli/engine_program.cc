#include "cli/engine_program.h"

#include <fmt/format.h>

namespace gezel::cli {

Result<fs::path> engine_program(const Environment& env, const Arguments& arguments) {
  fs::path path = env.engine_program();
  if (arguments.has("--engine")) path = arguments.text("--engine");
  std::error_code error;
  path = fs::absolute(path, error).lexically_normal();
  const auto status = fs::status(path, error);
  constexpr auto kExecutable = fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec;
  if (fs::is_regular_file(status) && (status.permissions() & kExecutable) != fs::perms::none) return path;
  return fail(
      ErrorKind::not_found, "engine_missing",
      fmt::format(
          "The engine program {} {}. Build it with `make build`, or name it with --engine or GEZEL_ENGINE",
          path.string(), fs::exists(status) ? "is not an executable file" : "does not exist"));
}

Result<json::object> ask_engine(const fs::path& program, const std::vector<std::string>& arguments,
                                Millis limit) {
  GEZEL_TRY(const ProgramResult result, run_program(program, arguments, limit));
  // The object is whatever lies between a line that begins with '{' and the last '}': logs may stand on both
  // sides.
  const std::string_view output = result.output;
  const std::size_t last = output.rfind('}');
  for (std::size_t at = 0; last != std::string_view::npos && at < last;) {
    if (output[at] == '{') {
      auto value = parse_json(output.substr(at, last + 1 - at));
      if (!value) value = parse_json(output.substr(at, output.find('\n', at) - at));
      if (value && value->is_object()) {
        json::object object = std::move(value->get_object());
        object["exit_status"] = result.status.signal != 0 ? 128 + result.status.signal : result.status.code;
        return object;
      }
    }
    const std::size_t newline = output.find('\n', at);
    if (newline == std::string_view::npos) break;
    at = newline + 1;
  }
  std::string tail(output.substr(output.size() > 500 ? output.size() - 500 : 0));
  while (tail.ends_with('\n')) tail.pop_back();
  return fail(
      ErrorKind::corrupt, "engine_answer",
      fmt::format("{} {} ended with {} and printed no JSON object{}", program.filename().string(),
                  fmt::join(arguments, " "), describe(result.status), tail.empty() ? "" : ": " + tail));
}

}  // namespace gezel::cli
