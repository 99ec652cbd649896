#include "kvcache/prefix_break.h"

#include <algorithm>

namespace gezel::kvcache {
namespace {

std::vector<Key> first(std::span<const Key> keys) {
  const auto count = static_cast<std::ptrdiff_t>(std::min(keys.size(), kBreakTokens));
  return {keys.begin(), keys.begin() + count};
}

std::optional<std::uint32_t> message_at(std::uint32_t token, std::span<const std::uint64_t> token_ends,
                                        std::span<const TextSpan> spans) {
  if (token >= token_ends.size()) return std::nullopt;
  // The token that differs may begin before a message and reach into it: it belongs to where it ends.
  const std::uint64_t last = token_ends[token] == 0 ? 0 : token_ends[token] - 1;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (last >= spans[i].begin && last < spans[i].end) return static_cast<std::uint32_t>(i);
  }
  return std::nullopt;
}

bool continues(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

// Characters cut at either end go whole.
std::string head_of(std::string text) {
  if (text.size() <= kSnippetBytes) return text;
  std::size_t size = kSnippetBytes;
  while (size > 0 && continues(text[size])) --size;
  text.resize(size);
  return text;
}

std::string tail_of(std::string text) {
  if (text.size() <= kSnippetBytes) return text;
  std::size_t from = text.size() - kSnippetBytes;
  while (from < text.size() && continues(text[from])) ++from;
  return text.substr(from);
}

}  // namespace

std::optional<PrefixBreak> compare_prompts(std::span<const Key> previous, std::span<const Key> prompt,
                                           std::span<const std::uint64_t> token_ends,
                                           std::span<const TextSpan> spans) {
  const std::size_t common = common_prefix(previous, prompt);
  if (common == previous.size() || common == prompt.size()) return std::nullopt;
  PrefixBreak found;
  found.matched = static_cast<std::uint32_t>(common);
  found.previous = static_cast<std::uint32_t>(previous.size());
  found.at_message = message_at(found.matched, token_ends, spans);
  const std::size_t from = common - std::min(common, kBreakTokens);
  found.before = first(prompt.subspan(from, common - from));
  found.now = first(prompt.subspan(common));
  found.then = first(previous.subspan(common));
  return found;
}

std::optional<PrefixBreak> find_prefix_break(const Tree& tree, const Digest& domain,
                                             std::span<const Key> prompt,
                                             std::span<const std::uint64_t> token_ends,
                                             std::span<const TextSpan> spans) {
  // The tree goes on differently behind the match, or not at all. An empty match is compared with the most
  // recent sequence, whatever it is.
  std::vector<Key> previous(prompt.begin(), prompt.begin() + tree.match(domain, prompt).matched);
  constexpr std::size_t kLongest = std::size_t{1} << 22;
  const std::vector<Key> rest = tree.behind_match(domain, prompt, kLongest);
  previous.insert(previous.end(), rest.begin(), rest.end());
  return compare_prompts(previous, prompt, token_ends, spans);
}

BreakSnippets snippets(const PrefixBreak& found, const std::function<std::string(Key)>& piece) {
  const auto text = [&](const std::vector<Key>& keys) {
    std::string all;
    for (const Key key : keys) all += is_media(key) ? "" : piece(key);
    return all;
  };
  return {tail_of(text(found.before)), head_of(text(found.now)), head_of(text(found.then))};
}

}  // namespace gezel::kvcache
