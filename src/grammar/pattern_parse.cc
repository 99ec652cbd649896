// Recursive descent over the ECMA-262 grammar, with the web's additions (annex B) where they are unambiguous:
// "{" and "]" may stand for themselves and any character that is no letter or digit may be escaped.
#include <fmt/format.h>

#include "grammar/pattern.h"

namespace gezel::grammar {

namespace {

using Kind = PatternNode::Kind;

const CharSet kDigits = {{'0', '9'}};
const CharSet kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CharSet kSpace = {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680},
                        {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                        {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const CharSet kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

PatternNode set_node(CharSet set) {
  return {.kind = Kind::set, .set = std::move(set)};
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

class Parser {
 public:
  Parser(std::string_view text, const PatternLimits& limits) : whole_(text), rest_(text), limits_(limits) {}

  Result<PatternNode> run() {
    if (whole_.size() > limits_.bytes) {
      return invalid(
          fmt::format("a pattern may have {} bytes, this one has {}", limits_.bytes, whole_.size()));
    }
    GEZEL_TRY(auto node, alternatives(0));
    if (!rest_.empty()) return invalid("unmatched ')'");
    return node;
  }

 private:
  std::unexpected<Error> failed(const char* code, std::string_view what) const {
    return fail(ErrorKind::invalid, code, fmt::format("{}, at byte {}", what, whole_.size() - rest_.size()));
  }
  std::unexpected<Error> invalid(std::string_view what) const { return failed("pattern-invalid", what); }
  std::unexpected<Error> unsupported(std::string_view what) const {
    return failed("pattern-unsupported", fmt::format("{} not supported", what));
  }
  bool take(std::string_view expected) {
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }

  Result<PatternNode> alternatives(int depth) {
    if (depth > limits_.depth) return invalid(fmt::format("groups nest deeper than {}", limits_.depth));
    PatternNode all{.kind = Kind::alternate};
    do {
      PatternNode sequence{.kind = Kind::concat};
      while (!rest_.empty() && rest_[0] != '|' && rest_[0] != ')') {
        GEZEL_TRY(auto atom, this->atom(depth));
        GEZEL_TRY(atom, quantified(std::move(atom)));
        sequence.children.push_back(std::move(atom));
      }
      if (sequence.children.size() == 1) {
        all.children.push_back(std::move(sequence.children[0]));
      } else {
        all.children.push_back(sequence.children.empty() ? PatternNode{} : std::move(sequence));
      }
    } while (take("|"));
    if (all.children.size() == 1) return std::move(all.children[0]);
    return all;
  }

  Result<PatternNode> atom(int depth) {
    switch (rest_[0]) {
      case '^':
        rest_.remove_prefix(1);
        return PatternNode{.kind = Kind::text_begin};
      case '$':
        rest_.remove_prefix(1);
        return PatternNode{.kind = Kind::text_end};
      case '.':
        rest_.remove_prefix(1);
        return set_node(kLineEnds.complement());
      case '(':
        return group(depth);
      case '[':
        return char_class();
      case '\\':
        return escape();
      case '*':
      case '+':
      case '?':
        return invalid(fmt::format("nothing before '{}' to repeat", rest_[0]));
      default:
        break;
    }
    const char32_t c = take_scalar(rest_);
    return set_node({{c, c}});
  }

  Result<PatternNode> group(int depth) {
    take("(");
    if (take("?")) {
      if (rest_.starts_with("=") || rest_.starts_with("!")) return unsupported("look-ahead is");
      if (rest_.starts_with("<=") || rest_.starts_with("<!")) return unsupported("look-behind is");
      if (take("<") || take("P<")) {
        const auto end = rest_.find('>');
        if (end == std::string_view::npos) return invalid("a group's name is not closed");
        rest_.remove_prefix(end + 1);
      } else if (!take(":")) {
        return unsupported("flags and special groups are");
      }
    }
    GEZEL_TRY(auto inner, alternatives(depth + 1));
    if (!take(")")) return invalid("a group is not closed");
    return inner;
  }

  std::optional<std::uint32_t> number() {
    std::uint64_t value = 0;
    std::size_t digits = 0;
    while (digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9') {
      value =
          std::min<std::uint64_t>(value * 10 + static_cast<unsigned>(rest_[digits] - '0'), kUnbounded - 1);
      ++digits;
    }
    if (digits == 0) return std::nullopt;
    rest_.remove_prefix(digits);
    return static_cast<std::uint32_t>(value);
  }

  Result<PatternNode> quantified(PatternNode node) {
    std::uint32_t min = 0;
    std::uint32_t max = kUnbounded;
    const auto before = rest_;
    if (take("*")) {
    } else if (take("+")) {
      min = 1;
    } else if (take("?")) {
      max = 1;
    } else if (take("{")) {
      const auto low = number();
      const bool comma = take(",");
      const auto high = comma ? number() : low;
      if (!low || !take("}")) {
        rest_ = before;  // a brace that stands for itself
        return node;
      }
      min = *low;
      max = high.value_or(kUnbounded);
      if (max < min) return invalid(fmt::format("{{{},{}}} has its limits the wrong way round", min, max));
      const auto largest = max == kUnbounded ? min : max;
      if (largest > limits_.repeats) {
        return invalid(
            fmt::format("a repetition may count to {}, this one counts to {}", limits_.repeats, largest));
      }
    } else {
      return node;
    }
    take("?");  // which match is found first makes no difference to whether there is one
    if (node.kind == Kind::text_begin || node.kind == Kind::text_end || node.kind == Kind::word_boundary ||
        node.kind == Kind::no_word_boundary) {
      return invalid("an assertion cannot be repeated");
    }
    if (!rest_.empty() && (rest_[0] == '*' || rest_[0] == '+' || rest_[0] == '?')) {
      return invalid(fmt::format("'{}' after a repetition", rest_[0]));
    }
    PatternNode repeat{.kind = Kind::repeat, .min = min, .max = max};
    repeat.children.push_back(std::move(node));
    return repeat;
  }

  // Hexadecimal digits, exactly `count` of them.
  std::optional<char32_t> hex(std::size_t count) {
    if (rest_.size() < count) return std::nullopt;
    char32_t value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const int digit = hex_value(rest_[i]);
      if (digit < 0) return std::nullopt;
      value = value * 16 + static_cast<char32_t>(digit);
    }
    rest_.remove_prefix(count);
    return value;
  }

  Result<char32_t> unicode_escape() {
    if (take("{")) {
      const auto end = rest_.find('}');
      if (end == std::string_view::npos || end == 0 || end > 8) return invalid("\\u{ without its digits");
      const auto value = hex(end);
      if (!value || *value > kLastScalar || !take("}")) return invalid("\\u{...} is no character");
      return *value;
    }
    const auto high = hex(4);
    if (!high) return invalid("\\u without four digits");
    if (*high < 0xD800 || *high > 0xDFFF) return *high;
    const auto before = rest_;
    if (*high < 0xDC00 && take("\\u")) {
      if (const auto low = hex(4); low && *low >= 0xDC00 && *low <= 0xDFFF) {
        return 0x10000 + ((*high - 0xD800) << 10) + (*low - 0xDC00);
      }
      rest_ = before;
    }
    return invalid("half of a surrogate pair");
  }

  // After the backslash; a class such as \d comes back in `set`, a single character as a set of one.
  Result<PatternNode> escape(bool in_class = false) {
    take("\\");
    if (rest_.empty()) return invalid("a backslash ends the pattern");
    const char c = rest_[0];
    if (c >= '1' && c <= '9') return unsupported("back-references are");
    if (c == 'k' && !in_class) return unsupported("back-references are");
    if (!in_class && (c == 'b' || c == 'B')) {
      rest_.remove_prefix(1);
      return PatternNode{.kind = c == 'b' ? Kind::word_boundary : Kind::no_word_boundary};
    }
    const auto one = [this](char32_t value, std::size_t length) {
      rest_.remove_prefix(length);
      return set_node({{value, value}});
    };
    switch (c) {
      case 'd':
        rest_.remove_prefix(1);
        return set_node(kDigits);
      case 'D':
        rest_.remove_prefix(1);
        return set_node(kDigits.complement());
      case 'w':
        rest_.remove_prefix(1);
        return set_node(kWord);
      case 'W':
        rest_.remove_prefix(1);
        return set_node(kWord.complement());
      case 's':
        rest_.remove_prefix(1);
        return set_node(kSpace);
      case 'S':
        rest_.remove_prefix(1);
        return set_node(kSpace.complement());
      case 'n':
        return one('\n', 1);
      case 'r':
        return one('\r', 1);
      case 't':
        return one('\t', 1);
      case 'v':
        return one('\v', 1);
      case 'f':
        return one('\f', 1);
      case 'b':
        return one('\b', 1);
      case '0':
        return one(0, 1);
      case 'p':
      case 'P':
        return property();
      case 'u': {
        rest_.remove_prefix(1);
        GEZEL_TRY(const char32_t value, unicode_escape());
        return set_node({{value, value}});
      }
      case 'x': {
        rest_.remove_prefix(1);
        const auto value = hex(2);
        if (!value) return invalid("\\x without two digits");
        return set_node({{*value, *value}});
      }
      case 'c':
        if (rest_.size() < 2 || !is_letter(rest_[1])) return invalid("\\c without a letter");
        return one(static_cast<char32_t>(rest_[1] & 0x1F), 2);
      default:
        break;
    }
    if (is_letter(c)) return invalid(fmt::format("unknown escape \\{}", c));
    const char32_t value = take_scalar(rest_);
    return set_node({{value, value}});
  }

  Result<PatternNode> property() {
    const auto end = rest_.find('}');
    if (rest_.size() < 4 || rest_[1] != '{' || end == std::string_view::npos || end < 3) {
      return invalid("\\p without {a property}");
    }
    PatternNode node{.kind = Kind::property, .property = "\\" + std::string(rest_.substr(0, end + 1))};
    for (const char c : rest_.substr(2, end - 2)) {
      if (!is_letter(c) && (c < '0' || c > '9') && c != '_' && c != '=') {
        return invalid("a property's name has letters, digits, '_' and '='");
      }
    }
    rest_.remove_prefix(end + 1);
    return node;
  }

  Result<PatternNode> char_class() {
    take("[");
    const bool negated = take("^");
    CharSet set;
    std::vector<PatternNode> properties;
    while (!take("]")) {
      if (rest_.empty()) return invalid("a character class is not closed");
      GEZEL_TRY(auto low, class_atom());
      if (low.kind == Kind::property) {
        properties.push_back(std::move(low));
        continue;
      }
      if (!rest_.starts_with("-") || rest_.starts_with("-]")) {
        set.add(low.set);
        continue;
      }
      take("-");
      if (rest_.empty()) return invalid("a character class is not closed");
      GEZEL_TRY(auto high, class_atom());
      const auto first = low.set.single();
      const auto last = high.kind == Kind::set ? high.set.single() : std::nullopt;
      if (first && last) {
        if (*last < *first) return invalid("a range of characters runs backwards");
        set.add(*first, *last);
      } else {  // "[\w-.]": a dash that stands for itself
        set.add(low.set);
        set.add('-', '-');
        if (high.kind == Kind::property)
          properties.push_back(std::move(high));
        else
          set.add(high.set);
      }
    }
    if (properties.empty()) return set_node(negated ? set.complement() : set);
    if (negated) return unsupported("a negated class with a Unicode property is");
    PatternNode any{.kind = Kind::alternate, .children = std::move(properties)};
    if (!set.empty()) any.children.push_back(set_node(set));
    return any;
  }

  Result<PatternNode> class_atom() {
    if (rest_[0] == '\\') return escape(true);
    const char32_t c = take_scalar(rest_);
    return set_node({{c, c}});
  }

  std::string_view whole_;
  std::string_view rest_;
  PatternLimits limits_;
};

}  // namespace

Result<PatternNode> parse_pattern(std::string_view text, const PatternLimits& limits) {
  return Parser(text, limits).run();
}

}  // namespace gezel::grammar
