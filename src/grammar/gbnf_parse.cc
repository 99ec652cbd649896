#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "base/utf8.h"
#include "grammar/gbnf_tree.h"

namespace gezel::grammar {

namespace {

using Kind = GbnfNode::Kind;

// As in llama.cpp: more repetitions than this are an error as a minimum and no limit at all as a maximum.
constexpr std::uint64_t kMostRepeats = 2000;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_word(char c) {
  return is_digit(c) || c == '-' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

class Parser {
 public:
  Parser(std::string_view text, const GbnfLimits& limits) : text_(text), limits_(limits) {}

  Result<GbnfGrammar> run() {
    if (const auto bad = find_invalid_utf8(text_)) {
      at_ = *bad;
      return error("ill-formed UTF-8");
    }
    skip_space(true);
    while (!at_end()) GEZEL_CHECK(rule());
    for (const auto& [name, number] : numbers_) {
      if (defined_[static_cast<std::size_t>(number)]) continue;
      at_ = used_at_[static_cast<std::size_t>(number)];
      return error(fmt::format("rule '{}' is not defined", name));
    }
    const auto root = numbers_.find("root");
    if (root == numbers_.end()) return error("there is no rule 'root', which says where to begin");
    grammar_.root = root->second;
    if (!can_end())
      return error("no text satisfies 'root': every way through it repeats itself without an end");
    return std::move(grammar_);
  }

 private:
  bool at_end() const { return at_ >= text_.size(); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool take(char c) {
    if (at_end() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::unexpected<Error> error(std::string_view what) const {
    const auto before = text_.substr(0, std::min(at_, text_.size()));
    const auto line = 1 + std::ranges::count(before, '\n');
    const auto column =
        before.size() - (before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1) + 1;
    return fail(ErrorKind::invalid, "grammar-invalid",
                fmt::format("line {}, column {}: {}", line, column, what));
  }

  // Blanks and comments; line breaks where a rule cannot end.
  void skip_space(bool line_breaks) {
    while (!at_end()) {
      const char c = text_[at_];
      if (c == '#') {
        while (!at_end() && text_[at_] != '\r' && text_[at_] != '\n') ++at_;
      } else if (c == ' ' || c == '\t' || (line_breaks && (c == '\r' || c == '\n'))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string_view word() {
    const auto begin = at_;
    while (is_word(peek())) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  int number_of(std::string_view name) {
    const auto [known, is_new] = numbers_.emplace(name, static_cast<int>(numbers_.size()));
    if (is_new) {
      grammar_.rules.emplace_back();
      defined_.push_back(false);
      used_at_.push_back(at_ - name.size());
    }
    return known->second;
  }

  Result<> rule() {
    const auto name = word();
    if (name.empty()) return error("the name of a rule is expected");
    const int number = number_of(name);
    skip_space(false);
    if (text_.substr(at_, 3) != "::=") return error("'::=' is expected");
    at_ += 3;
    skip_space(true);
    GEZEL_TRY(auto body, alternatives(0));
    if (!at_end() && peek() != '\r' && peek() != '\n') return error("the end of the line is expected");
    skip_space(true);
    grammar_.rules[static_cast<std::size_t>(number)] = std::move(body);  // the last definition counts
    defined_[static_cast<std::size_t>(number)] = true;
    return {};
  }

  Result<GbnfNode> alternatives(int depth) {
    if (depth > limits_.depth) return error(fmt::format("groups nest deeper than {}", limits_.depth));
    GbnfNode choice{.kind = Kind::choice};
    while (true) {
      GEZEL_TRY(auto sequence, this->sequence(depth));
      choice.parts.push_back(std::move(sequence));
      if (!take('|')) break;
      skip_space(true);
    }
    if (choice.parts.size() == 1) return std::move(choice.parts[0]);
    return choice;
  }

  Result<GbnfNode> sequence(int depth) {
    GbnfNode all{.kind = Kind::sequence};
    bool repeatable = false;  // the last part is one that a repetition may follow
    while (!at_end()) {
      const char c = peek();
      if (c == '*' || c == '+' || c == '?' || c == '{') {
        if (!repeatable) return error(fmt::format("nothing before '{}' to repeat", c));
        GEZEL_TRY(const auto counts, repetition(depth > 0));
        GbnfNode repeat{.kind = Kind::repeat, .min = counts.first, .max = counts.second};
        repeat.parts.push_back(std::move(all.parts.back()));
        all.parts.back() = std::move(repeat);
        repeatable = counts.second > 0;
        continue;
      }
      if (c != '"' && c != '[' && c != '.' && c != '(' && c != '<' && c != '!' && !is_word(c)) break;
      if (++symbols_ > limits_.symbols)
        return error(fmt::format("the grammar has more than {} symbols", limits_.symbols));
      GEZEL_TRY(auto part, symbol(depth));
      skip_space(depth > 0);
      repeatable = part.kind != Kind::sequence || !part.parts.empty();
      all.parts.push_back(std::move(part));
    }
    if (all.parts.size() == 1) return std::move(all.parts[0]);
    return all;
  }

  Result<GbnfNode> symbol(int depth) {
    const char c = peek();
    if (c == '"') return literal();
    if (c == '[') return char_class();
    if (c == '<' || c == '!') {
      return error("references to tokens are not supported: a grammar is about text; write the text");
    }
    if (take('.')) return GbnfNode{.kind = Kind::set, .set = CharSet::all()};
    if (is_word(c)) return GbnfNode{.kind = Kind::rule, .rule = number_of(word())};
    take('(');
    skip_space(true);
    GEZEL_TRY(auto inner, alternatives(depth + 1));
    if (!take(')')) return error("')' is expected");
    // A group counts as one symbol even when it is empty.
    return GbnfNode{.kind = Kind::choice, .parts = {std::move(inner)}};
  }

  Result<GbnfNode> literal() {
    take('"');
    GbnfNode text{.kind = Kind::sequence};
    while (!take('"')) {
      if (at_end()) return error("a '\"' is missing at the end of a text");
      GEZEL_TRY(const char32_t c, character());
      if (++symbols_ > limits_.symbols)
        return error(fmt::format("the grammar has more than {} symbols", limits_.symbols));
      text.parts.push_back({.kind = Kind::set, .set = CharSet({{c, c}})});
    }
    if (text.parts.size() == 1) return std::move(text.parts[0]);
    return text;
  }

  Result<GbnfNode> char_class() {
    take('[');
    const bool negated = take('^');
    CharSet set;
    bool any = false;
    while (!take(']')) {
      if (at_end()) return error("a ']' is missing at the end of a character class");
      GEZEL_TRY(const char32_t first, character());
      char32_t last = first;
      if (peek() == '-' && peek(1) != ']') {
        ++at_;
        if (at_end()) return error("a ']' is missing at the end of a character class");
        GEZEL_TRY(last, character());
      }
      if (first <= last) set.add(first, last);
      any = true;
    }
    if (!any) return GbnfNode{};  // as in llama.cpp: an empty class stands for nothing, not even a character
    return GbnfNode{.kind = Kind::set, .set = negated ? set.complement() : set};
  }

  Result<char32_t> character() {
    if (peek() != '\\') {
      auto rest = text_.substr(at_);
      const char32_t c = take_scalar(rest);
      at_ = text_.size() - rest.size();
      return c;
    }
    const char c = peek(1);
    at_ += 2;
    switch (c) {
      case 'x':
        return hex(2);
      case 'u':
        return hex(4);
      case 'U':
        return hex(8);
      case 't':
        return U'\t';
      case 'r':
        return U'\r';
      case 'n':
        return U'\n';
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
        return static_cast<char32_t>(c);
      default:
        break;
    }
    at_ -= 2;
    return error("unknown escape; known are \\x \\u \\U \\t \\r \\n \\\\ \\\" \\[ \\] \\-");
  }

  Result<char32_t> hex(int count) {
    std::uint64_t value = 0;
    for (int i = 0; i < count; ++i, ++at_) {
      const char c = peek();
      const int digit = is_digit(c)            ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return error(fmt::format("{} hexadecimal digits are expected", count));
      value = value * 16 + static_cast<unsigned>(digit);
    }
    return static_cast<char32_t>(value);
  }

  std::optional<std::uint64_t> number() {
    if (!is_digit(peek())) return std::nullopt;
    std::uint64_t value = 0;
    for (; is_digit(peek()); ++at_)
      value = std::min<std::uint64_t>(value * 10 + static_cast<unsigned>(peek() - '0'), 1'000'000);
    return value;
  }

  Result<std::pair<std::uint32_t, std::uint32_t>> repetition(bool line_breaks) {
    const auto done = [&](std::uint64_t min, std::uint64_t max) {
      skip_space(line_breaks);
      return std::pair(static_cast<std::uint32_t>(min),
                       max > kMostRepeats ? kNoEnd : static_cast<std::uint32_t>(max));
    };
    if (take('*')) return done(0, kNoEnd);
    if (take('+')) return done(1, kNoEnd);
    if (take('?')) return done(0, 1);
    take('{');
    skip_space(line_breaks);
    const auto min = number();
    if (!min) return error("a number is expected");
    skip_space(line_breaks);
    std::uint64_t max = *min;
    if (take(',')) {
      skip_space(line_breaks);
      max = number().value_or(kNoEnd);
      skip_space(line_breaks);
    }
    if (!take('}')) return error("'}' is expected");
    if (*min > kMostRepeats)
      return error(fmt::format("at most {} repetitions can be required", kMostRepeats));
    if (max < *min) return error("a repetition has its limits the wrong way round");
    return done(*min, max);
  }

  // Whether the root stands for any finite text.
  bool can_end() {
    std::vector<bool> ends(grammar_.rules.size());
    const std::function<bool(const GbnfNode&)> holds = [&](const GbnfNode& node) {
      switch (node.kind) {
        case Kind::set:
          return !node.set.empty();
        case Kind::rule:
          return static_cast<bool>(ends[static_cast<std::size_t>(node.rule)]);
        case Kind::repeat:
          return node.min == 0 || holds(node.parts[0]);
        case Kind::sequence:
          return std::ranges::all_of(node.parts, holds);
        case Kind::choice:
          return std::ranges::any_of(node.parts, holds);
      }
      return false;
    };
    // Rules are numbered as they are first named, so what a rule names mostly comes behind it.
    for (bool grew = true; grew;) {
      grew = false;
      for (std::size_t i = ends.size(); i-- > 0;) {
        if (ends[i] || !holds(grammar_.rules[i])) continue;
        ends[i] = grew = true;
      }
    }
    return ends[static_cast<std::size_t>(grammar_.root)];
  }

  std::string_view text_;
  const GbnfLimits& limits_;
  std::size_t at_ = 0;
  std::size_t symbols_ = 0;
  GbnfGrammar grammar_;
  std::map<std::string, int, std::less<>> numbers_;
  std::vector<bool> defined_;
  std::vector<std::size_t> used_at_;
};

}  // namespace

Result<GbnfGrammar> parse_gbnf(std::string_view text, const GbnfLimits& limits) {
  return Parser(text, limits).run();
}

Result<std::string> gbnf_to_lark(std::string_view text, const GbnfLimits& limits) {
  GEZEL_TRY(const auto grammar, parse_gbnf(text, limits));
  return write_lark(grammar);
}

}  // namespace gezel::grammar
