// api/chat_constraints.h
//
// Whether the form that a request asks for can be enforced: looked at before any model is loaded, so that
// what cannot be is a 400 and not half an answer (spec 50 section 8.3.1). And whether a finished answer has
// it.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/error.h"
#include "prompt/request.h"

namespace gezel::api {

// Compiles the output format against a byte vocabulary and walks the tools' schemas: up to some hundred
// milliseconds, so call it on the pool. The result is warnings for the client: what was left out of schemas
// that are not strict, and keywords that are ignored. Errors: `unsupported_response_format` with the JSON
// pointer of the keyword, `invalid_tool_schema` for a strict function.
ApiResult<std::vector<std::string>> check_constraints(const prompt::GenerateRequest& request);
// False: there is nothing to check.
bool has_constraints(const prompt::GenerateRequest& request);

// The check on the engine's work: an answer that left its schema is never delivered as a success (8.3.7).
class AnswerCheck {
 public:
  // Judges answers to JSON formats; for the others it knows nothing to say.
  explicit AnswerCheck(const prompt::OutputFormat& format);
  ~AnswerCheck();

  // `constraint_failed` when the content, complete, is not what was asked for.
  std::optional<ApiError> judge(std::string_view content) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gezel::api
