// catalog/test_items.h
//
// Small catalog entries for tests, as JSON text with the parts that a test is about replaced.
#pragma once
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "catalog/parse.h"

namespace gezel::catalog::testing {

inline std::string sha(char digit) {
  return std::string(64, digit);
}

// A version with one GGUF file. `more` is further members, such as R"("minServiceVersion":"2")".
inline std::string version_json(std::string_view version, std::string_view more = {}) {
  return fmt::format(
      R"({{"version":"{}","releasedAt":"2026-08-01T00:00:00Z","approxSizeBytes":1000,)"
      R"("llamaCpp":{{"huggingfaceRepo":"org/model","filename":"m.gguf","sha256":"{}","approxSizeBytes":1000}}{}{}}})",
      version, sha('a'), more.empty() ? "" : ",", more);
}

inline std::string identity_json(std::string_view id, std::string_view more = {}) {
  return fmt::format(
      R"({{"id":"{}","name":"Model {}","description":"A model.","maintainer":{{"name":"Org"}},)"
      R"("parameterSize":"9B","supportsTools":true{}{}}})",
      id, id, more.empty() ? "" : ",", more);
}

inline std::string entry_json(std::string_view id, std::string_view versions, std::string_view more = {}) {
  return identity_json(id, fmt::format(R"("versions":[{}]{}{})", versions, more.empty() ? "" : ",", more));
}

inline std::string packed_json(std::initializer_list<std::string> entries,
                               std::string_view kind = "chat-model") {
  std::string list;
  for (const auto& entry : entries) list += (list.empty() ? "" : ",") + entry;
  return fmt::format(
      R"({{"schemaVersion":1,"kind":"{}","contentVersion":"1.0.0","count":{},"entries":[{}]}})", kind,
      entries.size(), list);
}

}  // namespace gezel::catalog::testing
