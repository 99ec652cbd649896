#include "grammar/gbnf_lexemes.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace gezel::grammar {

namespace {

using Kind = GbnfNode::Kind;

constexpr std::uint32_t kMostPlaces = 400;  // characters of one lexeme, repetitions written out
constexpr std::uint32_t kMostHeight = 50;   // rules inside rules of one lexeme
// Pairs of places looked at, and rounds of breaking up. Beyond them every lexeme of more than one character
// is broken up, which is always correct.
constexpr std::uint64_t kMostWork = 50'000'000;
constexpr int kMostRounds = 40;

}  // namespace

GbnfLexemes::GbnfLexemes(const GbnfGrammar& grammar) : grammar_(grammar) {
  find_recursion();
  measure();
  for (auto& rule : grammar_.rules) rule = joined(rule);
  measure();
  for (int round = 0;; ++round) {
    collect_all();
    if (round >= kMostRounds) {
      if (break_all()) continue;
      break;
    }
    compute_follow();
    if (!break_conflicts()) break;
  }
}

// ---- which rules refer to themselves

void GbnfLexemes::find_recursion() {
  const auto count = grammar_.rules.size();
  uses_.assign(count, {});
  for (std::size_t i = 0; i < count; ++i) {
    std::function<void(const GbnfNode&)> look = [&](const GbnfNode& node) {
      if (node.kind == Kind::rule) uses_[i].push_back(node.rule);
      for (const auto& part : node.parts) look(part);
    };
    look(grammar_.rules[i]);
  }
  order_rules();
  // Rules that can reach each other, by the second half of Kosaraju's algorithm: along the reversed uses, in
  // reversed order.
  std::vector<std::vector<std::size_t>> used_by(count);
  for (std::size_t i = 0; i < count; ++i) {
    for (const auto used : uses_[i]) used_by[static_cast<std::size_t>(used)].push_back(i);
  }
  recursive_.assign(count, false);
  std::vector<bool> seen(count);
  for (auto root = order_.rbegin(); root != order_.rend(); ++root) {
    std::vector<std::size_t> group;
    std::vector<std::size_t> todo = {*root};
    while (!todo.empty()) {
      const auto next = todo.back();
      todo.pop_back();
      if (seen[next]) continue;
      seen[next] = true;
      group.push_back(next);
      todo.insert(todo.end(), used_by[next].begin(), used_by[next].end());
    }
    for (const auto member : group) {
      recursive_[member] = group.size() > 1 ||
                           std::ranges::find(uses_[member], static_cast<int>(member)) != uses_[member].end();
    }
  }
}

// Without recursion of our own: grammars may have long chains of rules.
void GbnfLexemes::order_rules() {
  enum class Mark : char { none, open, done };
  std::vector<Mark> marks(grammar_.rules.size(), Mark::none);
  for (std::size_t i = 0; i < marks.size(); ++i) {
    std::vector<std::size_t> todo = {i};
    while (!todo.empty()) {
      const auto next = todo.back();
      if (marks[next] == Mark::none) {
        marks[next] = Mark::open;
        for (const auto used : uses_[next]) {
          if (marks[static_cast<std::size_t>(used)] == Mark::none)
            todo.push_back(static_cast<std::size_t>(used));
        }
        continue;
      }
      todo.pop_back();
      if (marks[next] == Mark::done) continue;
      marks[next] = Mark::done;
      order_.push_back(next);
    }
  }
}

// ---- how large, whether it may be nothing, and which characters it may begin with

std::uint32_t GbnfLexemes::size_of(const GbnfNode& node) const {
  const auto limited = [](std::uint64_t size) {
    return size > kMostPlaces ? 0U : static_cast<std::uint32_t>(size);
  };
  switch (node.kind) {
    case Kind::set:
      return 1;
    case Kind::rule:
      return rule_sizes_[static_cast<std::size_t>(node.rule)];
    case Kind::repeat: {
      const std::uint64_t times = node.max == kNoEnd ? std::max(node.min, 1U) : std::max(node.max, 1U);
      return limited(size_of(node.parts[0]) * times);
    }
    default:
      break;
  }
  std::uint64_t all = node.parts.empty() ? 1 : 0;
  for (const auto& part : node.parts) {
    const auto size = size_of(part);
    if (size == 0) return 0;
    all += size;
  }
  return limited(all);
}

std::uint32_t GbnfLexemes::height_of(const GbnfNode& node) const {
  if (node.kind == Kind::rule) return rule_heights_[static_cast<std::size_t>(node.rule)];
  std::uint32_t highest = 0;
  for (const auto& part : node.parts) highest = std::max(highest, height_of(part));
  return highest;
}

bool GbnfLexemes::nullable(const GbnfNode& node) const {
  switch (node.kind) {
    case Kind::set:
      return false;
    case Kind::rule:
      return rule_nullable_[static_cast<std::size_t>(node.rule)];
    case Kind::repeat:
      return node.min == 0 || nullable(node.parts[0]);
    case Kind::sequence:
      return std::ranges::all_of(node.parts, [this](const auto& part) { return nullable(part); });
    case Kind::choice:
      return std::ranges::any_of(node.parts, [this](const auto& part) { return nullable(part); });
  }
  return false;
}

CharSet GbnfLexemes::first_chars(const GbnfNode& node) const {
  switch (node.kind) {
    case Kind::set:
      return node.set;
    case Kind::rule:
      return rule_first_[static_cast<std::size_t>(node.rule)];
    case Kind::repeat:
      return node.max == 0 ? CharSet() : first_chars(node.parts[0]);
    default:
      break;
  }
  CharSet all;
  for (const auto& part : node.parts) {
    all.add(first_chars(part));
    if (node.kind == Kind::sequence && !nullable(part)) break;
  }
  return all;
}

void GbnfLexemes::measure() {
  const auto count = grammar_.rules.size();
  rule_sizes_.assign(count, 0);
  rule_heights_.assign(count, 0);
  for (const auto i : order_)
    rule_heights_[i] = 1 + (recursive_[i] ? kMostHeight : height_of(grammar_.rules[i]));
  rule_nullable_.assign(count, false);
  rule_first_.assign(count, {});
  // Rules that refer to others settle after those; a rule that refers to itself stays without a size.
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto i : order_) {
      const auto& rule = grammar_.rules[i];
      const auto size = rule_heights_[i] > kMostHeight ? 0 : size_of(rule);
      const bool empty = nullable(rule);
      auto first = first_chars(rule);
      changed = changed || size != rule_sizes_[i] || empty != rule_nullable_[i] || first != rule_first_[i];
      rule_sizes_[i] = size;
      rule_nullable_[i] = empty;
      rule_first_[i] = std::move(first);
    }
  }
}

// Neighbours in a sequence that are regular become one part, which may then be one lexeme.
GbnfNode GbnfLexemes::joined(const GbnfNode& node) const {
  GbnfNode copy = node;
  copy.parts.clear();
  for (const auto& part : node.parts) copy.parts.push_back(joined(part));
  if (node.kind != Kind::sequence || size_of(node) != 0) return copy;
  std::vector<GbnfNode> parts;
  GbnfNode run{.kind = Kind::sequence};
  const auto flush = [&] {
    if (run.parts.size() == 1) parts.push_back(std::move(run.parts[0]));
    if (run.parts.size() > 1) parts.push_back(std::move(run));
    run = {.kind = Kind::sequence};
  };
  for (auto& part : copy.parts) {
    GbnfNode longer = run;
    longer.parts.push_back(part);
    if (size_of(longer) == 0) flush();
    if (size_of(part) == 0)
      parts.push_back(std::move(part));
    else
      run.parts.push_back(std::move(part));
  }
  flush();
  copy.parts = std::move(parts);
  return copy;
}

// ---- lexemes

std::string GbnfLexemes::regex(const GbnfNode& node) const {
  switch (node.kind) {
    case Kind::set: {
      if (const auto c = node.set.single()) return regex_char(*c);
      return regex_class(node.set);
    }
    case Kind::rule:
      return regex(grammar_.rules[static_cast<std::size_t>(node.rule)]);
    case Kind::repeat: {
      const auto inner = "(?:" + regex(node.parts[0]) + ")";
      if (node.max == 0) return "(?:)";
      if (node.max == kNoEnd)
        return node.min == 0   ? inner + "*"
               : node.min == 1 ? inner + "+"
                               : fmt::format("{}{{{},}}", inner, node.min);
      if (node.min == 0 && node.max == 1) return inner + "?";
      return fmt::format("{}{{{},{}}}", inner, node.min, node.max);
    }
    default:
      break;
  }
  std::string text;
  for (const auto& part : node.parts) {
    if (node.kind == Kind::choice && !text.empty()) text += '|';
    text += regex(part);
    if (node.kind == Kind::choice && &part == &node.parts.front() && text.empty()) text = "(?:)";
  }
  return node.kind == Kind::choice ? "(?:" + text + ")" : text;
}

GbnfLexemes::Lexeme* GbnfLexemes::lexeme_of(const GbnfNode& node) {
  return const_cast<Lexeme*>(std::as_const(*this).lexeme_of(node));
}

const GbnfLexemes::Lexeme* GbnfLexemes::lexeme_of(const GbnfNode& node) const {
  const auto text = texts_.find(&node);
  if (text == texts_.end()) return nullptr;
  const auto& lexeme = lexemes_.at(text->second);
  return lexeme.broken ? nullptr : &lexeme;
}

bool GbnfLexemes::is_lexeme(const GbnfNode& node) const {
  return lexeme_of(node) != nullptr;
}

GbnfLexemes::Part GbnfLexemes::place(const GbnfNode& node, Places& places) const {
  Part all;
  const auto join = [&places](Part& left, const Part& right) {  // left, then right
    for (const auto end : left.last)
      places.next[end].insert(places.next[end].end(), right.first.begin(), right.first.end());
    if (left.nullable) left.first.insert(left.first.end(), right.first.begin(), right.first.end());
    if (right.nullable)
      left.last.insert(left.last.end(), right.last.begin(), right.last.end());
    else
      left.last = right.last;
    left.nullable = left.nullable && right.nullable;
  };
  switch (node.kind) {
    case Kind::set: {
      const auto number = static_cast<std::uint32_t>(places.sets.size());
      places.sets.push_back(node.set);
      places.next.emplace_back();
      return {false, {number}, {number}};
    }
    case Kind::rule:
      return place(grammar_.rules[static_cast<std::size_t>(node.rule)], places);
    case Kind::sequence:
      all.nullable = true;
      for (const auto& part : node.parts) join(all, place(part, places));
      return all;
    case Kind::choice:
      for (const auto& part : node.parts) {
        const auto one = place(part, places);
        all.nullable = all.nullable || one.nullable;
        all.first.insert(all.first.end(), one.first.begin(), one.first.end());
        all.last.insert(all.last.end(), one.last.begin(), one.last.end());
      }
      return all;
    case Kind::repeat:
      break;
  }
  all.nullable = true;
  const std::uint32_t times = node.max == kNoEnd ? std::max(node.min, 1U) : node.max;
  for (std::uint32_t i = 0; i < times; ++i) {
    Part one = place(node.parts[0], places);
    if (node.max == kNoEnd && i + 1 == times) {
      for (const auto end : one.last)
        places.next[end].insert(places.next[end].end(), one.first.begin(), one.first.end());
    }
    if (i >= node.min) one.nullable = true;
    join(all, one);
  }
  return all;
}

// The outermost parts that can be lexemes.
void GbnfLexemes::collect(const GbnfNode& node, std::vector<int>& rules) {
  const bool blank = node.kind != Kind::set && first_chars(node).empty();  // nothing, or nothing that exists
  if (size_of(node) != 0 && !blank) {
    const auto known = texts_.find(&node);
    const auto& text =
        known != texts_.end() ? known->second : texts_.emplace(&node, regex(node)).first->second;
    auto [found, is_new] = lexemes_.try_emplace(text);
    auto& lexeme = found->second;
    if (is_new) {
      lexeme.node = &node;
      const auto part = place(node, lexeme.places);
      lexeme.places.nullable = part.nullable;
      lexeme.places.first = part.first;
      lexeme.places.last.assign(lexeme.places.sets.size(), false);
      for (const auto end : part.last) lexeme.places.last[end] = true;
      for (const auto begin : part.first) lexeme.places.first_chars.add(lexeme.places.sets[begin]);
      lexeme.single = std::ranges::all_of(lexeme.places.next, [](const auto& next) { return next.empty(); });
    }
    if (!lexeme.broken) return;
  }
  if (node.kind == Kind::rule) {
    const auto number = static_cast<std::size_t>(node.rule);
    if (!visited_[number]) rules.push_back(node.rule);
    visited_[number] = true;
  }
  for (const auto& part : node.parts) collect(part, rules);
}

void GbnfLexemes::collect_all() {
  visited_.assign(grammar_.rules.size(), false);
  std::vector<int> rules = {grammar_.root};
  while (!rules.empty()) {
    const auto& rule = grammar_.rules[static_cast<std::size_t>(rules.back())];
    rules.pop_back();
    collect(rule, rules);
  }
}

// ---- what may stand behind each lexeme

bool GbnfLexemes::follow(const GbnfNode& node, const CharSet& behind) {
  if (auto* lexeme = lexeme_of(node)) {
    lexeme->follow.add(behind);
    return false;
  }
  bool changed = false;
  if (node.kind == Kind::rule) {
    auto& known = rule_follow_[static_cast<std::size_t>(node.rule)];
    auto more = known;
    more.add(behind);
    changed = more != known;
    known = std::move(more);
  } else if (node.kind == Kind::repeat) {
    auto next = behind;
    if (node.max > 1) next.add(first_chars(node.parts[0]));
    changed = follow(node.parts[0], next);
  } else if (node.kind == Kind::choice) {
    for (const auto& part : node.parts) changed = follow(part, behind) || changed;
  } else if (node.kind == Kind::sequence) {
    auto next = behind;
    for (auto part = node.parts.rbegin(); part != node.parts.rend(); ++part) {
      changed = follow(*part, next) || changed;
      auto before = first_chars(*part);
      if (nullable(*part)) before.add(next);
      next = std::move(before);
    }
  }
  return changed;
}

void GbnfLexemes::compute_follow() {
  rule_follow_.assign(grammar_.rules.size(), {});
  for (auto& [text, lexeme] : lexemes_) lexeme.follow = {};
  for (bool changed = true; changed;) {
    changed = follow(grammar_.rules[static_cast<std::size_t>(grammar_.root)], {});
    for (auto i = order_.rbegin(); i != order_.rend(); ++i) {
      if (visited_[*i]) changed = follow(grammar_.rules[*i], rule_follow_[*i]) || changed;
    }
  }
}

// ---- conflicts

// Whether `ends` can end with a text from which `goes_on` goes on with a character that may stand behind
// `ends`.
bool GbnfLexemes::conflict(const Lexeme& ends, const Lexeme& goes_on) {
  const auto& a = ends.places;
  const auto& b = goes_on.places;
  if (goes_on.single || ends.follow.empty() || !a.first_chars.overlaps(b.first_chars)) return false;
  std::vector<bool> seen(a.sets.size() * b.sets.size());
  std::vector<std::pair<std::uint32_t, std::uint32_t>> todo;
  const auto reach = [&](const std::vector<std::uint32_t>& in_a, const std::vector<std::uint32_t>& in_b) {
    for (const auto x : in_a) {
      for (const auto y : in_b) {
        ++work_;
        if (seen[x * b.sets.size() + y] || !a.sets[x].overlaps(b.sets[y])) continue;
        seen[x * b.sets.size() + y] = true;
        todo.emplace_back(x, y);
      }
    }
  };
  reach(a.first, b.first);
  while (!todo.empty()) {
    const auto [x, y] = todo.back();
    todo.pop_back();
    if (a.last[x] &&
        std::ranges::any_of(b.next[y], [&](auto next) { return b.sets[next].overlaps(ends.follow); }))
      return true;
    reach(a.next[x], b.next[y]);
    if (work_ > kMostWork) return true;
  }
  return false;
}

bool GbnfLexemes::break_all() {
  bool any = false;
  for (auto& [text, lexeme] : lexemes_) {
    any = any || (!lexeme.single && !lexeme.broken);
    lexeme.broken = !lexeme.single;
  }
  return any;
}

bool GbnfLexemes::break_conflicts() {
  bool any = false;
  for (auto& [text, goes_on] : lexemes_) {
    if (goes_on.broken || goes_on.single) continue;
    for (const auto& [other, ends] : lexemes_) {
      if (ends.broken || !conflict(ends, goes_on)) continue;
      goes_on.broken = true;
      any = true;
      break;
    }
  }
  return any;
}

}  // namespace gezel::grammar
