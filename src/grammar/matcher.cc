#include "grammar/matcher.h"

#include "base/big_stack.h"
#include "base/bytes.h"
#include "llguidance.h"

namespace gezel::grammar {

namespace {

constexpr std::size_t kMostForced = 4096;  // tokens asked for at once; more follow with the next call
// The library compiles recursively. A stack overflow would end the process, so it gets a stack that the
// bounds on what is compiled cannot exhaust; only what is used of it takes memory.
constexpr std::size_t kCompileStack = 256 * kMiB;

const char* notation_name(Notation notation) {
  return notation == Notation::json_schema ? "json_schema" : "lark";
}

LlgConstraintInit init_for(const Vocabulary& vocabulary, const MatcherLimits& limits) {
  LlgConstraintInit init = {};
  llg_constraint_init_set_defaults(&init, vocabulary.handle());
  init.log_buffer_level = 0;
  init.log_stderr_level = 0;
  init.limits = {};
  init.limits.max_items_in_row = limits.row_items;
  init.limits.initial_lexer_fuel = limits.compile_fuel;
  init.limits.step_lexer_fuel = limits.step_fuel;
  init.limits.step_max_items = limits.step_items;
  init.limits.max_lexer_states = limits.lexer_states;
  init.limits.max_grammar_size = limits.grammar_size;
  init.limits.precompute_large_lexemes = true;
  init.limits.verbose_errors = false;
  return init;
}

// What the library says, without the dumps of its state and of backtraces that it appends.
std::string first_part(std::string_view message) {
  for (const std::string_view tail : {"\n<non-verbose/>", "\n<state>", "\n<backtrace>"}) {
    message = message.substr(0, message.find(tail));
  }
  while (!message.empty() && (message.back() == '\n' || message.back() == ' ')) message.remove_suffix(1);
  return std::string(message.substr(0, 2000));
}

std::unexpected<Error> unusable(std::string_view message) {
  return fail(ErrorKind::invalid, "constraint-unusable", first_part(message));
}

std::unexpected<Error> no_thread() {
  return fail(
      ErrorKind::unavailable, "constraint-unusable",
      "No thread could be started to compile the constraint; the machine is short of memory or threads.");
}

Result<> fits_c_string(const std::string& text) {
  if (text.find('\0') == std::string::npos) return {};
  return unusable("the text has a NUL character");
}

}  // namespace

Result<> check_grammar(const Vocabulary& vocabulary, Notation notation, const std::string& text,
                       const MatcherLimits& limits) {
  GEZEL_CHECK(fits_c_string(text));
  const auto init = init_for(vocabulary, limits);
  std::string message(8192, '\0');
  std::int32_t outcome = -1;
  if (!run_on_big_stack(kCompileStack, [&] {
        outcome = llg_validate_grammar(&init, notation_name(notation), text.c_str(), message.data(),
                                       message.size());
      })) {
    return no_thread();
  }
  if (outcome < 0) return unusable(message.c_str());
  return {};
}

void Matcher::Free::operator()(LlgMatcher* handle) const {
  llg_free_matcher(handle);
}

Matcher::Matcher(std::shared_ptr<const Vocabulary> vocabulary, LlgMatcher* handle)
    : vocabulary_(std::move(vocabulary)), handle_(handle) {}

Result<Matcher> Matcher::compile(std::shared_ptr<const Vocabulary> vocabulary, Notation notation,
                                 const std::string& text, const MatcherLimits& limits) {
  GEZEL_CHECK(fits_c_string(text));
  const auto init = init_for(*vocabulary, limits);
  LlgMatcher* handle = nullptr;
  if (!run_on_big_stack(kCompileStack,
                        [&] { handle = llg_new_matcher(&init, notation_name(notation), text.c_str()); })) {
    return no_thread();
  }
  Matcher made(std::move(vocabulary), handle);
  if (const auto error = made.error(); !error.empty()) return unusable(error);
  return made;
}

Matcher Matcher::clone() const {
  return {vocabulary_, llg_clone_matcher(handle_.get())};
}

Result<> Matcher::failure() const {
  return fail(ErrorKind::internal, "constraint_failed",
              "The constraint cannot be followed any further: " + error() + ".");
}

Result<> Matcher::compute_mask(std::span<std::uint32_t> mask) {
  if (llg_matcher_compute_mask_into(handle_.get(), mask.data(), mask.size_bytes()) != 0) return failure();
  return {};
}

Result<> Matcher::consume(Token token) {
  // The library would take an end token where the text is incomplete for an ordinary one and report something
  // else.
  if (llg_matcher_consume_token(handle_.get(), static_cast<std::uint32_t>(token)) != 0) return failure();
  return {};
}

std::size_t Matcher::allowed(std::span<const Token> tokens) {
  const std::vector<std::uint32_t> ids(tokens.begin(), tokens.end());
  const auto count = llg_matcher_validate_tokens(handle_.get(), ids.data(), ids.size());
  return count < 0 ? 0 : static_cast<std::size_t>(count);
}

std::vector<Token> Matcher::forced() {
  if (!vocabulary_->forces() || stopped()) return {};
  std::vector<std::uint32_t> ids(kMostForced);
  const auto count = llg_matcher_compute_ff_tokens(handle_.get(), ids.data(), ids.size());
  if (count <= 0) return {};
  return {ids.begin(), ids.begin() + count};
}

Result<> Matcher::rollback(std::size_t count) {
  if (count == 0) return {};
  if (llg_matcher_rollback(handle_.get(), count) != 0) return failure();
  return {};
}

bool Matcher::accepting() {
  return llg_matcher_is_accepting(handle_.get());
}

bool Matcher::stopped() const {
  return llg_matcher_is_stopped(handle_.get());
}

std::string Matcher::error() const {
  const char* message = llg_matcher_get_error(handle_.get());
  return message == nullptr ? std::string() : first_part(message);
}

}  // namespace gezel::grammar
