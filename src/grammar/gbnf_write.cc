#include <fmt/format.h>

#include <map>
#include <set>

#include "grammar/gbnf_lexemes.h"
#include "grammar/gbnf_tree.h"
#include "grammar/lark_text.h"

namespace gezel::grammar {

namespace {

using Kind = GbnfNode::Kind;

class Writer {
 public:
  explicit Writer(const GbnfGrammar& grammar) : lexemes_(grammar) {}

  std::string run() {
    const auto& grammar = lexemes_.grammar();
    std::string text = "start: " + symbol(grammar.rules[static_cast<std::size_t>(grammar.root)]) + "\n";
    while (!todo_.empty()) {
      const auto [name, node] = todo_.back();
      todo_.pop_back();
      text += name + ": " + body(*node) + "\n";
    }
    for (const auto& [regex, name] : terminals_) {
      text += fmt::format("{}: {}", name, lark_regex(regex));
      if (nullable_.contains(name)) text += " & /(?s:.+)/";
      text += "\n";
    }
    return text;
  }

 private:
  // A name for a node. Groups inside groups become rules of their own, so that no nesting is too deep for the
  // library.
  std::string symbol(const GbnfNode& node) {
    if (lexemes_.is_lexeme(node)) return terminal(node);
    if (node.kind == Kind::rule) return rule(lexemes_.grammar().rules[static_cast<std::size_t>(node.rule)]);
    if (node.parts.empty()) return "\"\"";
    return rule(node);
  }

  std::string terminal(const GbnfNode& node) {
    const auto [known, is_new] =
        terminals_.emplace(lexemes_.regex(node), fmt::format("T{}", terminals_.size()));
    if (!lexemes_.nullable(node)) return known->second;
    nullable_.insert(known->second);
    return known->second + "?";
  }

  std::string rule(const GbnfNode& node) {
    const auto [known, is_new] = rules_.emplace(&node, fmt::format("r{}", rules_.size()));
    if (is_new) todo_.emplace_back(known->second, &node);
    return known->second;
  }

  std::string body(const GbnfNode& node) {
    if (lexemes_.is_lexeme(node) || node.kind == Kind::rule || node.parts.empty()) return symbol(node);
    if (node.kind == Kind::repeat) {
      if (node.max == 0) return "\"\"";
      const auto part = "(" + symbol(node.parts[0]) + ")";
      if (node.max == kNoEnd)
        return node.min == 0   ? part + "*"
               : node.min == 1 ? part + "+"
                               : fmt::format("{}{{{},}}", part, node.min);
      return fmt::format("{}{{{},{}}}", part, node.min, node.max);
    }
    std::string text;
    for (const auto& part : node.parts) {
      if (!text.empty()) text += node.kind == Kind::choice ? " | " : " ";
      text += symbol(part);
    }
    return text;
  }

  GbnfLexemes lexemes_;
  std::map<std::string, std::string> terminals_;  // regular expression to name
  std::set<std::string> nullable_;                // terminals whose expression also matches nothing
  std::map<const GbnfNode*, std::string> rules_;
  std::vector<std::pair<std::string, const GbnfNode*>> todo_;
};

}  // namespace

std::string write_lark(const GbnfGrammar& grammar) {
  return Writer(grammar).run();
}

}  // namespace gezel::grammar
