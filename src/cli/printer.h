// cli/printer.h
//
// How things are said: answers on standard output, everything else on standard error; colours only on a
// terminal.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/environment.h"
#include "cli/exit_codes.h"

namespace gezel::cli {

enum class Tone { plain, bold, dim, red, green, yellow };

// `text` in a colour when `color`, else as it is.
std::string paint(Tone tone, std::string_view text, bool color);
bool color_out(const Environment& env);
bool color_err(const Environment& env);

// "error: <message>", then what to do where we know more than the message says, then the code in parentheses,
// spelled as the API spells it.
// Returns the exit code that belongs to the error, so that a command can end with `return print_error(env,
// error)`.
ExitCode print_error(const Environment& env, const Error& error);
// One dim line on standard error.
void print_note(const Environment& env, std::string_view text);

// What to do about an error code, or "" when its message says everything.
std::string_view remedy_for(std::string_view code);

// Text of a model, made safe for a terminal: control characters other than newline and tab are dropped, so
// that an answer cannot move the cursor, set the title or write to the clipboard.
std::string terminal_text(std::string_view text);

// A line that is overwritten while something takes long, on a terminal only; cleared when the object goes.
class StatusLine {
 public:
  explicit StatusLine(const Environment& env);
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;
  void show(std::string_view text);
  void clear();

 private:
  const Environment& env_;
  std::string shown_;
};

}  // namespace gezel::cli
