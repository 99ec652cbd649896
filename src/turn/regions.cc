#include "turn/regions.h"

#include <algorithm>

#include "turn/input.h"

namespace gezel::turn {
namespace {

std::size_t leading_space(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::find_if_not(text, is_space) - text.begin());
}
// Offset behind the last byte that is no white space.
std::size_t without_trailing_space(std::string_view text) {
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text.size();
}

// Calls `release` for every full part of a run that grows beyond the limit. Parts end at fixed places of the
// run, wherever the text was cut.
template <class Release>
void hold_space(std::string& held, std::string_view space, Release release) {
  while (held.size() + space.size() > kMaxHeldSpace) {
    const std::size_t part = kMaxHeldSpace - held.size();
    held.append(space.substr(0, part));
    space.remove_prefix(part);
    release();
  }
  held.append(space);
}

}  // namespace

void ContentWriter::hold(std::string_view space, std::string& out) {
  hold_space(held_, space, [&] {
    const bool at_start = !started_ && (drop_leading_ || removed_);
    settle(out);
    started_ = !at_start;
  });
}

void ContentWriter::removed() {
  removed_ = true;
  // From here on only the kind of the white space matters.
  if (held_.size() > 1) held_ = held_.contains('\n') ? "\n" : " ";
}

void ContentWriter::settle(std::string& out) {
  if (removed_) {
    if (started_ && !held_.empty()) out.append(held_.contains('\n') ? "\n\n" : " ");
  } else if (started_ || !drop_leading_) {
    out.append(held_);
  }
  removed_ = false;
  held_.clear();
}

void ContentWriter::text(std::string_view text, std::string& out) {
  const std::size_t begin = leading_space(text);
  hold(text.substr(0, begin), out);
  if (begin == text.size()) return;
  settle(out);
  started_ = true;
  const std::size_t end = without_trailing_space(text);
  out.append(text.substr(begin, end - begin));
  hold(text.substr(end), out);
}

void ContentWriter::finish(std::string& out) {
  if (!removed_) settle(out);
  held_.clear();
}

void ReasoningWriter::text(std::string_view text, std::string& out) {
  const auto hold = [&](std::string_view space) {
    hold_space(held_, space, [&] {
      out.append(held_);
      held_.clear();
    });
  };
  const std::size_t begin = leading_space(text);
  if (in_block_) hold(text.substr(0, begin));
  if (begin == text.size()) return;
  if (any_ && !in_block_) out.append("\n\n");
  any_ = in_block_ = true;
  const std::size_t end = without_trailing_space(text);
  out.append(held_).append(text.substr(begin, end - begin));
  held_.clear();
  hold(text.substr(end));
}

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(leading_space(text));
  return text.substr(0, without_trailing_space(text));
}

}  // namespace gezel::turn
