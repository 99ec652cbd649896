// grammar/tool_values.h
//
// Between the parts of tool_grammar: a dialect's texts and the values of arguments as Lark.
#pragma once
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/tool_grammar.h"

namespace gezel::grammar {

// Turns the texts of a dialect's row into sequences of Lark, with the vocabulary's control tokens where it
// has them.
class DialectText {
 public:
  // Lazy: what begins a call was written before the grammar woke, by its token or spelled out.
  DialectText(const ToolDialect& dialect, const Vocabulary& vocabulary, bool lazy);

  // "\"\"" when there is nothing to write.
  std::string sequence(std::string_view text);
  // Where the first control token of a text begins, and how long its name is.
  struct Place {
    std::size_t begin = 0;
    std::size_t size = 0;
  };
  std::optional<Place> first_token(std::string_view text) const;
  // The terminals that sequences refer to.
  std::string terminals() const;
  std::vector<Token> tokens() const;

 private:
  struct Marker {
    Token token = 0;
    bool control = false;  // no text can hold it
    bool spelled = false;  // its text counts as well
  };
  std::map<std::string, Marker, std::less<>> markers_;  // those the vocabulary has
  bool uses_id_ = false;
};

class ToolValues {
 public:
  ToolValues(const ToolDialect& dialect, DialectText& text) : dialect_(dialect), text_(text) {}

  struct Argument {
    std::string rule;  // key, value and what is around them
    bool required = false;
  };
  // The arguments that a tool declares, in the order of its schema.
  std::vector<Argument> arguments(const WalkedSchema& schema);
  // Of a tool that declares none: any, or nothing when it allows none.
  std::string any_arguments(const WalkedSchema& schema);
  // A value as JSON by a part of a schema.
  std::string json(const WalkedSchema& schema, const json::value& part);
  std::string rules() const { return rules_; }

 private:
  struct Facts;
  Facts facts_of(const WalkedSchema& schema, const json::value& part, int depth) const;
  std::string rule(std::string prefix, const std::string& body);
  std::string argument(const WalkedSchema& schema, std::string_view key, const json::value& part);
  std::string tagged(const WalkedSchema& schema, std::string_view key, const json::value& part);
  std::string text_until(std::string_view end);
  std::string after_value(std::string_view key) const;
  std::string quoted(std::string_view text);
  std::string gemma(const WalkedSchema& schema, const json::value& part);
  std::string gemma_any();
  std::string keyword(const WalkedSchema& schema, const json::value& part);

  const ToolDialect& dialect_;
  DialectText& text_;
  std::map<std::string, std::string, std::less<>> known_;  // body of a rule to its name
  std::string rules_;
  bool gemma_any_ = false;
};

}  // namespace gezel::grammar
