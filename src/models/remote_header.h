// models/remote_header.h
//
// What a model that is not here says about itself: the GGUF header of its first file, read over the network
// and nothing else of it (spec 20 sections 5.2, 5.4 and 7). Blocking, bounded.
#pragma once
#include <string>

#include "base/result.h"
#include "downloads/transfer.h"
#include "gguf/metadata.h"
#include "models/plan.h"

namespace gezel::models {

inline constexpr Bytes kMostHeaderBytes = 32 * kMiB;

struct RemoteHeader {
  // Without what planning does not need: single values, the chat template and the tensor table.
  gguf::Metadata metadata;
  Bytes file_bytes = 0;    // of the first file
  Bytes read_bytes = 0;    // that came over the network
  std::string etag;        // "" = the host gives none
  bool unchanged = false;  // the file still has the ETag that was asked with; `metadata` is empty
};

// The files of the model itself, in order: no projector, no draft model.
std::vector<const PlannedFile*> weight_files(const InstallPlan& plan);

// The first file's header, from the first of its addresses that answers. `unless_etag` as in PrefixRequest.
// Errors name the file, the host and what to do: those of Transfers::fetch_prefix(), and `model-invalid` for
// what is no GGUF file, or a part of a model whose other parts are not in the plan.
Result<RemoteHeader> read_remote_header(const InstallPlan& plan, const std::string& unless_etag,
                                        const downloads::Transfers& transfers,
                                        const downloads::AccessToken& token,
                                        const downloads::Cancellation& cancellation);

}  // namespace gezel::models
