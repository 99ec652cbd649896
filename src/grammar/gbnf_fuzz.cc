// Any bytes as a GBNF grammar: an error with its place, or Lark that the library compiles or refuses within
// its limits.
#include <cstdlib>
#include <string_view>

#include "grammar/gbnf.h"
#include "grammar/matcher.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace gezel::grammar;
  const auto lark =
      gbnf_to_lark({reinterpret_cast<const char*>(data), size}, {.depth = 100, .symbols = 2000});
  if (!lark) {
    if (lark.error().code != "grammar-invalid" || !lark.error().message.starts_with("line ")) std::abort();
    return 0;
  }
  const auto checked = check_grammar(*Vocabulary::of_bytes(), Notation::lark, *lark);
  if (checked) return 0;
  // What we write is Lark; only its size may be too much for the library.
  for (const auto* limit : {"too big", "too large", "limit", "too many", "fuel"}) {
    if (checked.error().message.find(limit) != std::string::npos) return 0;
  }
  std::abort();
}
