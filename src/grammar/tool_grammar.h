// grammar/tool_grammar.h
//
// A set of tools and the spelling of calls that a model has learned, made into a grammar: names from the
// list, arguments by the tools' schemas.
//
// JSON dialects carry the whole schema. Markup dialects carry names, keys (in any order, each once), required
// keys, listed values of strings, and JSON or the dialect's own notation for values that are not strings;
// what they cannot say (`pattern`, lengths, unions below the top level) is validated behind the call.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "grammar/schema_walk.h"
#include "grammar/vocabulary.h"

namespace gezel::grammar {

struct Tool {
  std::string name;         // 1 to 64 of [A-Za-z0-9_.-]
  WalkedSchema parameters;  // of an object
  bool strict = false;      // all of it is enforced, or the request is refused
};

// When calls are constrained.
enum class ToolMode {
  lazy,   // free text; a call is constrained from its opening marker on
  eager,  // the answer is calls and nothing else
};

struct ToolSet {
  std::vector<Tool> tools;  // those that may be called, in the order of the request
  std::string dialect;      // name of a row of tool_dialects()
  ToolMode mode = ToolMode::lazy;
  bool parallel = true;  // more than one call
  // The answer may also be JSON by this schema instead of calls; makes the mode eager.
  std::optional<WalkedSchema> answer;
};

struct ToolLimits {
  std::size_t tools = 1000;
  std::size_t bytes = 4 * 1024 * 1024;  // of all schemas, as compact JSON
  SchemaLimits schema;                  // of each
};

// Tools as clients send them: {"name", "parameters", "strict"}. A tool with "strict": true is walked
// strictly, others leniently; what was left out is in `warnings`, which name the tool. Errors:
// `invalid_tool_schema`: a bad or repeated name, parameters that are no schema of an object, limits; those of
// walk_schema for strict tools. `param` is "tools[i].function.name" or "tools[i].function.parameters" and the
// JSON pointer.
Result<std::vector<Tool>> walk_tools(const json::array& tools, std::vector<std::string>& warnings,
                                     const ToolLimits& limits = {});

// Makes sure that the library compiles the parameters of all tools. Costs one compilation when it does. What
// it cannot compile is left out with a warning, or, for a strict tool, an error as of walk_tools.
Result<> settle_tools(ToolSet& set, std::vector<std::string>& warnings);

// A text that wakes a lazy grammar.
struct Trigger {
  std::string text;
  std::optional<Token> token;  // the text is this control token
  bool at_start = false;       // only as the first visible text of the answer
};

struct ToolGrammar {
  std::string lark;               // lazy: one envelope of calls, from its opening marker to its end
  std::vector<Trigger> triggers;  // lazy only; each begins a text of the grammar
  std::vector<Token> markers;     // control tokens that the grammar uses: to be shown to the parser as text
};

// Errors: `tool-dialect-unknown`.
Result<ToolGrammar> tool_grammar(const ToolSet& tools, const Vocabulary& vocabulary);

// A tool set as text, for ConstraintSpec.
std::string tool_set_text(const ToolSet& tools);
Result<ToolSet> read_tool_set(std::string_view text);

// ---- Dialects

// How the arguments of a call are written.
enum class ArgumentStyle {
  json,     // one JSON object
  tags,     // every argument between tags; strings as they are, other values as JSON
  gemma,    // {key:value}; strings between quote markers, nested values in the same notation
  keyword,  // key=value, values as JSON with Python's True, False and None
};

// One spelling of calls. In its texts: \v is optional white space, \1 the id or number of a call, \2...\3 an
// optional part.
struct ToolDialect {
  std::string_view name;
  std::string_view row;  // of the dialect catalogue, "S1"
  ArgumentStyle style = ArgumentStyle::json;
  // An envelope holds calls; `between` them, when it can hold several.
  std::string_view open;
  std::string_view between;
  std::string_view close;
  bool several = false;
  // A call: before its name, behind it, behind its arguments.
  std::string_view before_name;
  std::string_view after_name;
  std::string_view after_arguments;
  // tags, gemma, keyword: an argument.
  // In after_value "\4" is the key again.
  std::string_view before_key;
  std::string_view after_key;
  std::string_view after_value;
  std::string_view separator;  // between arguments
  // gemma: around strings. tags: behind the key of a string and of any other value, where that differs.
  std::string_view quote;
  std::string_view after_string_key;
  // Texts that begin a call. With "\4" in it: once for every tool, the name in its place. Comma-separated.
  std::string_view triggers;
  // Texts that may be control tokens of a vocabulary. Comma-separated.
  std::string_view markers;
  bool bare = false;  // nothing marks a call but its place at the beginning of the answer
};

const std::vector<ToolDialect>& tool_dialects();
const ToolDialect* find_tool_dialect(std::string_view name);

}  // namespace gezel::grammar
