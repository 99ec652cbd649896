// kvcache/prefix_break.h
//
// Where a prompt left the closest sequence that was computed before: finds date stamps and reordered tools
// that make every prompt cold (spec 40 section 11.15a.4).
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvcache/boundaries.h"
#include "kvcache/tree.h"

namespace gezel::kvcache {

struct PrefixBreak {
  std::uint32_t matched = 0;   // tokens that both begin with
  std::uint32_t previous = 0;  // tokens of the earlier sequence
  std::optional<std::uint32_t>
      at_message;  // index of the span in which they part; unset: between or behind them
  // Tokens on both sides of the parting, up to kBreakTokens each.
  std::vector<Key> before, now, then;  // what both have; how this prompt goes on; how the earlier one did
};
inline constexpr std::size_t kBreakTokens = 24;

// Nothing when the prompt continues what it was compared with (or shares nothing and nothing is there).
// `spans` and `token_ends` as in boundaries.h.
std::optional<PrefixBreak> find_prefix_break(const Tree& tree, const Digest& domain,
                                             std::span<const Key> prompt,
                                             std::span<const std::uint64_t> token_ends,
                                             std::span<const TextSpan> spans);
// The same against one earlier prompt (a session's last one).
std::optional<PrefixBreak> compare_prompts(std::span<const Key> previous, std::span<const Key> prompt,
                                           std::span<const std::uint64_t> token_ends,
                                           std::span<const TextSpan> spans);

// At most 48 bytes of text of each side, whole UTF-8 characters: the end of `before` for both, then the
// beginnings of `now` and `then`. `piece`: bytes of a token; media show as nothing.
struct BreakSnippets {
  std::string before, now, then;
};
inline constexpr std::size_t kSnippetBytes = 48;
BreakSnippets snippets(const PrefixBreak& found, const std::function<std::string(Key)>& piece);

}  // namespace gezel::kvcache
