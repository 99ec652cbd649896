// grammar/gbnf_lexemes.h
//
// Which parts of a character grammar may be read as one lexeme.
//
// The library reads the longest lexeme there is. Say the text so far ends in w, one lexeme ends with w, and
// another, or the same one, goes on from w with the character c. The library goes on. That excludes a text
// only if, in the grammar, the first lexeme may be followed by c. If no two lexemes are in that situation,
// longest-match reading and the grammar agree.
//
// The search begins with the largest regular parts (those without recursion) and breaks up the lexemes that
// conflict, until none do. Single characters never conflict, so it ends.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "grammar/gbnf_tree.h"

namespace gezel::grammar {

class GbnfLexemes {
 public:
  explicit GbnfLexemes(const GbnfGrammar& grammar);

  // Whether this node of the grammar is read as one lexeme. Parts of sequences that stand next to each other
  // and are regular have been joined; see grammar().
  bool is_lexeme(const GbnfNode& node) const;
  // The grammar with neighbouring regular parts of sequences joined.
  const GbnfGrammar& grammar() const { return grammar_; }
  // A regular expression for a lexeme, of the library's dialect.
  std::string regex(const GbnfNode& node) const;
  bool nullable(const GbnfNode& node) const;

 private:
  // The characters of a regular part as numbered places, and which place may follow which.
  struct Places {
    bool nullable = false;
    std::vector<CharSet> sets;
    std::vector<std::vector<std::uint32_t>> next;
    std::vector<std::uint32_t> first;
    std::vector<bool> last;
    CharSet first_chars;
  };
  // All occurrences of the same regular expression are one lexeme.
  struct Lexeme {
    const GbnfNode* node = nullptr;
    Places places;
    CharSet follow;  // what may stand behind it
    bool single = false;
    bool broken = false;
  };
  struct Part {
    bool nullable = false;
    std::vector<std::uint32_t> first;
    std::vector<std::uint32_t> last;
  };

  void find_recursion();
  void order_rules();
  void measure();
  GbnfNode joined(const GbnfNode& node) const;
  std::uint32_t size_of(const GbnfNode& node) const;
  std::uint32_t height_of(const GbnfNode& node) const;
  Part place(const GbnfNode& node, Places& places) const;
  void collect(const GbnfNode& node, std::vector<int>& rules);
  void collect_all();
  Lexeme* lexeme_of(const GbnfNode& node);
  const Lexeme* lexeme_of(const GbnfNode& node) const;
  CharSet first_chars(const GbnfNode& node) const;
  bool follow(const GbnfNode& node, const CharSet& behind);
  void compute_follow();
  bool conflict(const Lexeme& ends, const Lexeme& goes_on);
  bool break_conflicts();
  bool break_all();

  GbnfGrammar grammar_;
  std::vector<std::vector<int>> uses_;  // of each rule: the rules it names
  std::vector<std::size_t>
      order_;  // of the rules: those a rule names before it, as far as there is such an order
  std::vector<bool> recursive_;
  std::vector<std::uint32_t> rule_sizes_;    // places, 0: not regular, too large or too deep
  std::vector<std::uint32_t> rule_heights_;  // rules inside rules
  std::vector<bool> rule_nullable_;
  std::vector<CharSet> rule_first_;
  std::vector<CharSet> rule_follow_;
  std::map<std::string, Lexeme> lexemes_;
  std::map<const GbnfNode*, std::string> texts_;  // of candidate nodes
  std::vector<bool> visited_;
  std::uint64_t work_ = 0;
};

}  // namespace gezel::grammar
