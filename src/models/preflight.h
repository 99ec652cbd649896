// models/preflight.h
//
// Is there room for an install? (spec 60 section 10.6). Pure: sizes and free space are passed in.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace gezel::models {

struct FetchedFile {
  Bytes size_bytes = 0;
  Bytes partial_bytes = 0;  // already in its partial file
};

// What is still to be written; a partial counts for no more than its file. A file that will replace another
// is charged in full, because old and new are both there until the publish.
Bytes remaining_bytes(const std::vector<FetchedFile>& files);

// With head-room: 2 GiB, or 2 % where that is more.
Bytes required_bytes(Bytes remaining);

// `others` is what other running installs still write to the same file system; `free` nothing = cannot be
// measured, and then nobody is stopped. Error `insufficient_disk` names the model and both numbers.
Result<> check_disk(std::string_view model, Bytes remaining, Bytes others, std::optional<Bytes> free);

}  // namespace gezel::models
