// Thompson's simulation: the pattern becomes a list of steps, and the set of steps that are alive moves along
// the text.
#include <fmt/format.h>

#include <algorithm>

#include "grammar/pattern.h"

namespace gezel::grammar {

namespace {

bool is_word(std::optional<char32_t> c) {
  return c && (*c == '_' || (*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z'));
}

bool has_property(const PatternNode& node) {
  return node.kind == PatternNode::Kind::property || std::ranges::any_of(node.children, has_property);
}

}  // namespace

// Appends the steps of `node`; whatever matches it goes on behind the last of them.
bool PatternMatcher::emit(const PatternNode& node, bool* too_many) {
  using Kind = PatternNode::Kind;
  const auto here = [this] { return static_cast<std::uint32_t>(steps_.size()); };
  if (steps_.size() > kMostSteps) *too_many = true;
  if (*too_many) return false;
  switch (node.kind) {
    case Kind::empty:
    case Kind::property:
      return true;
    case Kind::set: {
      const auto known = std::ranges::find(sets_, node.set);
      const auto index = static_cast<std::uint32_t>(known - sets_.begin());
      if (known == sets_.end()) sets_.push_back(node.set);
      steps_.push_back({.kind = Step::Kind::set, .set = index, .next = here() + 1});
      return true;
    }
    case Kind::text_begin:
    case Kind::text_end:
    case Kind::word_boundary:
    case Kind::no_word_boundary:
      steps_.push_back({.kind = Step::Kind::assertion, .assertion = node.kind, .next = here() + 1});
      return true;
    case Kind::concat:
      return std::ranges::all_of(node.children, [&](const auto& child) { return emit(child, too_many); });
    case Kind::alternate: {
      std::vector<std::uint32_t> ends;  // forks used as jumps
      for (std::size_t i = 0; i < node.children.size(); ++i) {
        const bool last = i + 1 == node.children.size();
        const auto fork = here();
        if (!last) steps_.push_back({.kind = Step::Kind::fork, .next = fork + 1});
        if (!emit(node.children[i], too_many)) return false;
        if (last) break;
        ends.push_back(here());
        steps_.push_back({.kind = Step::Kind::fork});
        steps_[fork].other = here();
      }
      for (const auto end : ends) steps_[end].next = steps_[end].other = here();
      return true;
    }
    case Kind::repeat:
      break;
  }
  const auto& child = node.children[0];
  for (std::uint32_t i = 0; i < node.min; ++i) {
    if (!emit(child, too_many)) return false;
  }
  if (node.max == kUnbounded) {
    const auto fork = here();
    steps_.push_back({.kind = Step::Kind::fork, .next = fork + 1});
    if (!emit(child, too_many)) return false;
    steps_.push_back({.kind = Step::Kind::fork, .next = fork, .other = fork});
    steps_[fork].other = here();
    return true;
  }
  std::vector<std::uint32_t> forks;
  for (std::uint32_t i = node.min; i < node.max; ++i) {
    forks.push_back(here());
    steps_.push_back({.kind = Step::Kind::fork, .next = here() + 1});
    if (!emit(child, too_many)) return false;
  }
  for (const auto fork : forks) steps_[fork].other = here();
  return true;
}

Result<PatternMatcher> PatternMatcher::create(const PatternNode& node) {
  if (has_property(node)) {
    return fail(ErrorKind::invalid, "pattern-unsupported", "Unicode properties (\\p) are not supported");
  }
  PatternMatcher made;
  bool too_many = false;
  if (!made.emit(node, &too_many)) {
    return fail(ErrorKind::invalid, "pattern-unsupported",
                fmt::format("the pattern has more than {} states", kMostSteps));
  }
  made.steps_.push_back({.kind = Step::Kind::match});
  return made;
}

// The steps alive at one place of the text.
struct PatternMatcher::Run {
  explicit Run(const PatternMatcher& pattern) : pattern(pattern), seen(pattern.steps_.size()) {}

  // Adds a step and what follows it without reading a character. True: the pattern has matched.
  bool add(std::uint32_t first, std::uint32_t stamp, std::optional<char32_t> before,
           std::optional<char32_t> after) {
    using Kind = PatternNode::Kind;
    todo.assign(1, first);
    while (!todo.empty()) {
      const auto index = todo.back();
      todo.pop_back();
      if (seen[index] == stamp) continue;
      seen[index] = stamp;
      const Step& step = pattern.steps_[index];
      switch (step.kind) {
        case Step::Kind::match:
          return true;
        case Step::Kind::set:
          alive.push_back(index);
          break;
        case Step::Kind::fork:
          todo.push_back(step.other);
          todo.push_back(step.next);
          break;
        case Step::Kind::assertion: {
          const bool border = is_word(before) != is_word(after);
          const bool holds = step.assertion == Kind::text_begin      ? !before
                             : step.assertion == Kind::text_end      ? !after
                             : step.assertion == Kind::word_boundary ? border
                                                                     : !border;
          if (holds) todo.push_back(step.next);
          break;
        }
      }
    }
    return false;
  }

  const PatternMatcher& pattern;
  std::vector<std::uint32_t> alive;
  std::vector<std::uint32_t> seen;
  std::vector<std::uint32_t> todo;
};

Result<bool> PatternMatcher::found_in(std::string_view text) const {
  Run run(*this);
  std::vector<std::uint32_t> previous;
  std::uint64_t work = 0;
  std::uint32_t stamp = 0;
  std::optional<char32_t> before;
  while (true) {
    ++stamp;
    auto rest = text;
    const auto after = text.empty() ? std::nullopt : std::optional(take_scalar(rest));
    // What was alive has read `before`; a match may also begin here.
    previous.swap(run.alive);
    run.alive.clear();
    for (const auto index : previous) {
      const Step& step = steps_[index];
      if (sets_[step.set].contains(*before) && run.add(step.next, stamp, before, after)) return true;
    }
    if (run.add(0, stamp, before, after)) return true;
    if (!after) return false;
    work += run.alive.size() + 1;
    if (work > kMostWork) {
      return fail(ErrorKind::too_large, "pattern-too-costly",
                  "the pattern costs too much on a text of this length");
    }
    before = after;
    text = rest;
  }
}

}  // namespace gezel::grammar
