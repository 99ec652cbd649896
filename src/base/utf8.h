// base/utf8.h
//
// UTF-8 as it arrives: in pieces, sometimes broken.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gezel {

// Offset of the first byte that is not part of well-formed UTF-8 (Unicode 15, table 3-7), or nothing.
std::optional<std::size_t> find_invalid_utf8(std::string_view text);

// Replaces every maximal ill-formed part by U+FFFD.
std::string sanitize_utf8(std::string_view text);

// Joins pieces of text whose characters may be split between pieces: incomplete bytes at the end of a piece
// are held back, ill-formed bytes become U+FFFD at once. The joined output does not depend on where the
// pieces were cut.
class Utf8Assembler {
 public:
  // Returns the part of held-back + `piece` that is complete.
  std::string feed(std::string_view piece);
  // The end of the text: held-back bytes can no longer be completed and become U+FFFD.
  std::string finish();
  std::size_t held() const { return held_.size(); }

 private:
  std::string held_;
};

}  // namespace gezel
