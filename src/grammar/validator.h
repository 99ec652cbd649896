// grammar/validator.h
//
// Whether a JSON value satisfies a JSON Schema, judged by code of our own: the check on what the constraint
// library let through. Reads the client's schema as it came, drafts 4 to 2020-12.
//
// Keywords that cannot be judged (references out of the document, dynamic references, patterns beyond
// pattern.h, checks that would cost too much) are taken as satisfied, and the verdict says that they were.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"

namespace gezel::grammar {

struct Verdict {
  bool valid = true;     // no keyword that could be judged is violated
  std::string message;   // of one violation: where in the value, which keyword, what was expected
  std::string instance;  // JSON pointer of the place in the value
  std::string keyword;   // JSON pointer of the keyword in the schema
  std::vector<std::string> unjudged;  // "#/properties/a/pattern: ..." of what could not be judged
};

class Validator {
 public:
  explicit Validator(json::value schema);
  ~Validator();
  Validator(Validator&&) noexcept;
  Validator& operator=(Validator&&) noexcept;

  // Not from several threads at once: compiled patterns are kept.
  Verdict check(const json::value& instance);

  // Looks at parts of the value, and at keywords, in one check; beyond it the rest counts as unjudged.
  static constexpr std::uint64_t kMostWork = 5'000'000;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gezel::grammar
