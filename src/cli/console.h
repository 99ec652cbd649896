// cli/console.h
//
// The few operating-system facts a command line needs: terminals, Ctrl-C, standard input and waiting for a
// child. The only file of this module that talks to the system directly.
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/process.h"
#include "base/result.h"

namespace gezel::cli {

bool is_terminal(int descriptor);
int terminal_columns(int descriptor);  // 80 when unknown
// True where waiting for input makes sense: a pipe, a file or a socket, but not a terminal and not /dev/null.
bool has_piped_input(int descriptor);
// This program's file, absolute; empty when the system does not tell.
std::filesystem::path executable_path();

// While one of these lives, Ctrl-C (SIGINT) and SIGTERM set a flag instead of ending the program, and
// everything here that waits gives up with `interrupted`. May be nested.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  static bool raised();
  static void clear();
};

// Waits until there is something to read or the input ended; false: Ctrl-C came first.
bool wait_for_input(int descriptor);

// Everything until the end of input. `too_large` above `limit`, `interrupted` on Ctrl-C. `on_wait` is called
// once when nothing has arrived for two seconds; false = do not wait for it any longer, the input counts as
// empty.
Result<std::string> read_input(int descriptor, Bytes limit, const std::function<bool()>& on_wait);

// A child's end: nothing while it runs.
std::optional<ExitStatus> try_wait(pid_t pid);
bool process_alive(pid_t pid);  // false also for one that ended and waits to be collected

struct ProgramResult {
  ExitStatus status;
  std::string output;  // stdout and stderr together
};
// Runs a program to its end. A program that outlives `limit` or says more than 16 MiB is killed and reported
// as an error; so is one that cannot be started.
Result<ProgramResult> run_program(const std::filesystem::path& program,
                                  const std::vector<std::string>& arguments, Millis limit);

// Makes every character count in the user's language: UTF-8 even where the locale says C.
void use_utf8_locale();

}  // namespace gezel::cli
