// models/url_source.h
//
// Models of any address: "https://host/x.gguf", also written "url:https://host/x.gguf#sha256=<64 digits>"
// (spec 10 section 9). The name of the file is the last segment of its path; where that is the name of a part
// ("x-00001-of-00003.gguf"), the model is all parts, which lie side by side.
#pragma once
#include <string>
#include <string_view>

#include "downloads/transfer.h"
#include "models/plan.h"
#include "models/remote_header.h"

namespace gezel::models {

// Whether a text is an address rather than any other name of a model.
bool is_url(std::string_view text);

// `id` "" = derived from the file's name, `sha256` "" = what the address itself says, if anything. Without a
// digest what arrives is hashed and recorded, not checked. Pure. Errors: `bad_url`, `invalid-model-id`,
// `invalid_sha256`.
Result<InstallPlan> plan_url(std::string_view text, std::string_view id = {}, std::string_view sha256 = {});

// "hf:<org>/<repository>@<revision>:<path>" for the address of a file of the hub, or of the page that shows
// it: the hub has a digest for it. "" = it is none.
std::string hub_id_of_url(std::string_view text, const Hub& hub);

// What the first file says about itself, before anything is downloaded, and the sizes of all of them, which
// the plan then has. Blocking. Errors: those of read_remote_header() and Transfers::fetch_prefix().
Result<RemoteHeader> look_at_url(InstallPlan& plan, const downloads::Transfers& transfers,
                                 const downloads::AccessToken& token,
                                 const downloads::Cancellation& cancellation);
// The sizes of the parts after the first.
Result<> measure_parts(InstallPlan& plan, const downloads::Transfers& transfers,
                       const downloads::AccessToken& token, const downloads::Cancellation& cancellation);

}  // namespace gezel::models
