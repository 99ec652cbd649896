#include "cli/printer.h"

#include <fmt/format.h>

#include <array>
#include <ostream>

#include "api/error.h"
#include "cli/table.h"

namespace gezel::cli {
namespace {

struct Remedy {
  std::string_view code;
  std::string_view text;
};

// One row per code whose message, written for API clients, does not name the command that helps.
constexpr std::array kRemedies{
    Remedy{"model_not_found",
           "`gezel models` lists what is installed; `gezel pull MODEL` or `gezel import FILE.gguf` adds a "
           "model."},
    Remedy{"unknown_model",
           "`gezel models --available` lists the catalog; hf:ORG/REPO names any repository with GGUF files."},
    Remedy{
        "gated_or_denied",
        "Accept the model's terms at its publisher, then start the daemon with HF_TOKEN set to your token."},
    Remedy{"insufficient_disk", "`gezel rm MODEL` deletes a model; `gezel models` shows how large each is."},
    Remedy{kCodeUnreachable,
           "Start it with `gezel serve`; `gezel run` and `gezel chat` start it by themselves."},
    Remedy{"invalid_api_key",
           "The daemon was restarted or uses another GEZEL_HOME; check with `gezel doctor`."},
    Remedy{
        "capacity_denied",
        "Free memory with `gezel stop MODEL`, or run `gezel serve` with fewer --slots or a smaller --ctx."},
    Remedy{"context_length_exceeded",
           "Shorten the prompt, or run `gezel serve --ctx N` with a larger window."},
    Remedy{"engine_crashed",
           "Ask again: the next request restarts the engine. `gezel doctor` shows what is known."},
    Remedy{"engine_unusable", "Run `gezel doctor --deep` to see which computations fail on this machine."},
    Remedy{"engine_launch", "Run `gezel doctor` to see which engine program is used."},
    Remedy{"slow_down", "Other requests are ahead; try again in a moment. `gezel ps` shows the queue."},
    Remedy{"shutting_down", "Wait for it to end, then try again."},
    Remedy{"model_in_use", "The option for that is --force."},
    Remedy{"model_busy", "The option for that is --force."},
    Remedy{"busy", "The option for that is --force."},
};

constexpr std::array<std::string_view, 6> kCodes{"",         "\x1b[1m",  "\x1b[2m",
                                                 "\x1b[31m", "\x1b[32m", "\x1b[33m"};

}  // namespace

ExitCode exit_code_for(const Error& error) {
  if (error.code == kCodeInterrupted) return kInterrupted;
  if (error.code == kCodeUsage) return kUsage;
  if (error.code == kCodeUnreachable) return kUnreachable;
  if (error.code == "model_not_found" || error.code == "gezel_not_found" || error.code == "unknown_model")
    return kNoSuchModel;
  return kFailure;
}

std::string paint(Tone tone, std::string_view text, bool color) {
  if (!color || tone == Tone::plain || text.empty()) return std::string(text);
  return fmt::format("{}{}\x1b[0m", kCodes[static_cast<std::size_t>(tone)], text);
}

bool color_out(const Environment& env) {
  return env.out_is_terminal && !env.no_color;
}
bool color_err(const Environment& env) {
  return env.err_is_terminal && !env.no_color;
}

std::string_view remedy_for(std::string_view code) {
  const std::string spelled = api::wire_code(code);
  for (const Remedy& row : kRemedies) {
    if (row.code == spelled) return row.text;
  }
  return {};
}

ExitCode print_error(const Environment& env, const Error& error) {
  const bool color = color_err(env);
  if (error.code == kCodeInterrupted) {
    *env.err << "interrupted\n" << std::flush;
    return kInterrupted;
  }
  *env.err << paint(Tone::red, "error:", color) << ' ' << terminal_text(error.message);
  if (!error.message.ends_with('.') && !error.message.ends_with('?')) *env.err << '.';
  if (const std::string_view remedy = remedy_for(error.code); !remedy.empty()) *env.err << ' ' << remedy;
  if (!error.code.empty() && error.code != kCodeUsage) {
    *env.err << ' ' << paint(Tone::dim, fmt::format("({})", api::wire_code(error.code)), color);
  }
  *env.err << '\n' << std::flush;
  return exit_code_for(error);
}

void print_note(const Environment& env, std::string_view text) {
  *env.err << paint(Tone::dim, text, color_err(env)) << '\n' << std::flush;
}

std::string terminal_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 && byte != '\n' && byte != '\t') continue;
    if (byte == 0x7f) continue;
    // C1 controls are U+0080 to U+009F, two bytes in UTF-8.
    if (byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0) {
      ++i;
      continue;
    }
    out += text[i];
  }
  return out;
}

StatusLine::StatusLine(const Environment& env) : env_(env) {}
StatusLine::~StatusLine() {
  clear();
}

void StatusLine::show(std::string_view text) {
  if (!env_.err_is_terminal) return;
  // A line longer than the terminal would wrap and could not be overwritten.
  std::string line = fit_width(text, static_cast<std::size_t>(env_.columns > 1 ? env_.columns - 1 : 79));
  if (line == shown_) return;
  *env_.err << "\r\x1b[K" << paint(Tone::dim, line, color_err(env_)) << std::flush;
  shown_ = std::move(line);
}

void StatusLine::clear() {
  if (shown_.empty()) return;
  *env_.err << "\r\x1b[K" << std::flush;
  shown_.clear();
}

}  // namespace gezel::cli
