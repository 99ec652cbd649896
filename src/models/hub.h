// models/hub.h
//
// Models straight from a repository of the hub: "hf:<org>/<repo>[@<revision>][:<file or quantization>]" (spec
// 60 section 17.2). Reading ids and listings and choosing files is pure; resolve_hub() asks the hub.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "downloads/transfer.h"
#include "models/plan.h"

namespace gezel::models {

inline constexpr Bytes kMaxListingBytes = 16 * kMiB;  // of one page
inline constexpr int kMaxListingPages = 64;
inline constexpr std::size_t kMaxListedFiles = 65'536;  // of all pages

struct HubId {
  std::string repository, revision = "main";
  std::string selector;  // a file or a quantization tag; "" = the best known one
};
// Error `invalid_hub_id`.
Result<HubId> parse_hub_id(std::string_view text);
inline bool is_hub_id(std::string_view text) {
  return text.starts_with("hf:");
}

struct HubFile {
  std::string path;
  Bytes size_bytes = 0;
  std::string sha256;  // "" = the hub does not say: the file is hashed, not checked
};
// The answer to /api/models/<repository>/tree/<commit>?recursive=true. Entries that are no files, or have no
// safe path, are left out. Error `bad_listing`.
Result<std::vector<HubFile>> parse_listing(std::string_view text);
// The 40 hexadecimal digits in the answer to /api/models/<repository>/revision/<revision>.
Result<std::string> parse_commit(std::string_view text);

// The files of one model, a split set whole and in order. The exact file; else the one whose name has the
// tag; else the first of Q4_K_M, Q4_K_S, Q4_0, Q5_K_M, Q6_K, Q8_0 that is there; else the only one. Error
// `no_such_file` lists what there is.
Result<std::vector<HubFile>> choose_files(const std::vector<HubFile>& files, std::string_view selector);

// An ordinary plan with the pins of the listing, id local-<slug>, or distinct_id() where that is too long.
Result<InstallPlan> plan_hub(const HubId& id, std::string_view commit, const std::vector<HubFile>& chosen,
                             const Hub& hub);

// What the hub says of revision and files, page by page, and the plan. Error `listing_too_long` beyond the
// limits above. Blocking.
Result<InstallPlan> resolve_hub(std::string_view text, const Hub& hub, const downloads::Transfers& transfers,
                                const downloads::AccessToken& token,
                                const downloads::Cancellation& cancellation);

}  // namespace gezel::models
