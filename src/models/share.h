// models/share.h
//
// Whether a private copy of a model may become one for everybody on this machine (spec 60 section 18, its
// end): only what the catalog has now, to the byte, and nothing beside it. Pure.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "models/drift.h"

namespace gezel::models {

// What is known of the copy.
struct SharedCandidate {
  std::string id;
  std::map<std::string, std::string> sha256;  // by file name, of bytes that were just read
  std::vector<std::string> folder;            // names of all files in the model's folder
};

// Error `not_shareable`: a required file is missing or has another digest than its pin, an optional one has,
// or a file with weights lies there that the catalog does not name.
Result<> check_shareable(const SharedCandidate& candidate, const Payload& payload);

}  // namespace gezel::models
