// Any bytes as a pattern: an error, or a matcher and a constraint that agree about the text behind the line
// break.
#include <cstdlib>
#include <string_view>

#include "base/utf8.h"
#include "grammar/lark_text.h"
#include "grammar/matcher.h"
#include "grammar/pattern.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace gezel;
  using namespace gezel::grammar;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const auto split = all.find('\n');
  const auto pattern = all.substr(0, split);
  const auto text = split == std::string_view::npos ? std::string_view{} : all.substr(split + 1);
  if (find_invalid_utf8(all) || all.size() > 300) return 0;
  const auto tree = parse_pattern(pattern);
  if (!tree) {
    if (!tree.error().code.starts_with("pattern-") || tree.error().message.empty()) std::abort();
    return 0;
  }
  const auto matcher = PatternMatcher::create(*tree);
  const auto written = pattern_for_constraint(*tree);
  if (!matcher || !written) return 0;
  const auto found = matcher->found_in(text);
  if (!found) return 0;
  auto constraint =
      Matcher::compile(Vocabulary::of_bytes(), Notation::lark, "start: " + lark_regex(*written) + "\n");
  if (!constraint) return 0;  // too large for the library, or never matching
  bool accepted = true;
  for (const char c : text) {
    accepted = !constraint->stopped() && constraint->consume(static_cast<unsigned char>(c)).has_value();
    if (!accepted) break;
  }
  if ((accepted && constraint->accepting()) != *found) std::abort();
  return 0;
}
