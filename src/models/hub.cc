#include "models/hub.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "catalog/grammar.h"
#include "downloads/response.h"
#include "downloads/url.h"
#include "gguf/split.h"
#include "models/ids.h"
#include "models/installer.h"
#include "models/owner.h"

namespace gezel::models {
namespace {

using catalog::lowered;

constexpr std::string_view kPreferred[] = {"Q4_K_M", "Q4_K_S", "Q4_0", "Q5_K_M", "Q6_K", "Q8_0"};
constexpr std::size_t kListed = 20;  // of files in an error

std::unexpected<Error> bad_id(std::string_view text, std::string_view why) {
  return fail(ErrorKind::invalid, "invalid_hub_id",
              fmt::format("\"{}\" {}; write hf:<org>/<repository>[@<revision>][:<file or quantization>]",
                          text.substr(0, 200), why),
              "model");
}

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

// Whether the tag stands by itself in the name: "Q4_K" is no part of "Q4_K_M", nor "Q4_0" of "IQ4_0".
bool has_tag(std::string_view name, std::string_view tag) {
  const std::string text = lowered(name), wanted = lowered(tag);
  if (wanted.empty()) return false;
  for (std::size_t at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at + 1)) {
    const std::size_t end = at + wanted.size();
    const bool before = at == 0 || !(is_word(text[at - 1]) || text[at - 1] == '_');
    const bool after = end == text.size() || !(is_word(text[end]) || text[end] == '_');
    if (before && after) return true;
  }
  return false;
}

// One model: a file, or the parts of a set in order.
struct Candidate {
  std::vector<HubFile> files;
  std::uint32_t parts = 1;  // that there should be
};

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash + 1);
}

std::vector<Candidate> candidates(const std::vector<HubFile>& files) {
  std::map<std::string, Candidate> found;
  for (const auto& file : files) {
    const std::string name = catalog::base_name(file.path), low = lowered(name);
    // Projectors and importance matrices belong to a model but are none.
    if (!low.ends_with(".gguf") || low.find("mmproj") != std::string::npos ||
        low.find("imatrix") != std::string::npos)
      continue;
    const auto split = gguf::parse_split_name(name);
    auto& entry =
        found[split ? folder_of(file.path) + split->prefix + "/" + std::to_string(split->count) : file.path];
    entry.files.push_back(file);
    if (split) entry.parts = split->count;
  }
  std::vector<Candidate> out;
  for (auto& [key, candidate] : found) {
    std::ranges::sort(candidate.files, {}, &HubFile::path);
    out.push_back(std::move(candidate));
  }
  return out;
}

Result<std::vector<HubFile>> whole(const Candidate& candidate) {
  if (candidate.files.size() == candidate.parts) return candidate.files;
  return fail(ErrorKind::not_found, "missing_parts",
              fmt::format("{} is one of {} parts, but the repository has only {} of them",
                          candidate.files.front().path, candidate.parts, candidate.files.size()),
              "model");
}

}  // namespace

Result<HubId> parse_hub_id(std::string_view text) {
  const std::string_view all = text;
  if (!is_hub_id(text)) return bad_id(all, "does not begin with hf:");
  text.remove_prefix(3);
  HubId out;
  // The selector is a path and may hold anything but a colon; a revision has none either.
  if (const std::size_t colon = text.find(':'); colon != std::string_view::npos) {
    out.selector = text.substr(colon + 1);
    text = text.substr(0, colon);
    if (!catalog::is_contained_path(out.selector))
      return bad_id(all, "has no file or quantization after the last ':'");
  }
  if (const std::size_t at = text.find('@'); at != std::string_view::npos) {
    out.revision = text.substr(at + 1);
    text = text.substr(0, at);
    if (!catalog::is_revision(out.revision)) return bad_id(all, "has no revision after '@'");
  }
  out.repository = text;
  if (!catalog::is_repository(out.repository)) return bad_id(all, "names no repository");
  return out;
}

Result<std::vector<HubFile>> parse_listing(std::string_view text) {
  const auto parsed = parse_json(text);
  if (!parsed || !parsed->is_array() || parsed->get_array().size() > kMaxListedFiles)
    return fail(ErrorKind::corrupt, "bad_listing", "the hub's list of files cannot be read");
  std::vector<HubFile> out;
  for (const auto& entry : parsed->get_array()) {
    const auto* members = entry.if_object();
    if (members == nullptr || string_or(*members, "type") != "file") continue;
    HubFile file;
    file.path = string_or(*members, "path");
    file.size_bytes = static_cast<Bytes>(std::max<std::int64_t>(0, int_or(*members, "size", 0)));
    if (const auto* lfs = object_at(*members, "lfs")) {
      const std::string oid = string_or(*lfs, "oid");
      if (catalog::is_sha256(oid)) file.sha256 = lowered(oid);
    }
    if (catalog::is_contained_path(file.path)) out.push_back(std::move(file));
  }
  return out;
}

Result<std::string> parse_commit(std::string_view text) {
  const auto parsed = parse_json(text);
  const std::string sha =
      parsed && parsed->is_object() ? string_or(parsed->get_object(), "sha") : std::string();
  const auto hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (sha.size() == 40 && std::ranges::all_of(sha, hex)) return sha;
  return fail(ErrorKind::corrupt, "bad_listing", "the hub does not say which commit the revision is");
}

Result<std::vector<HubFile>> choose_files(const std::vector<HubFile>& files, std::string_view selector) {
  const auto all = candidates(files);
  const auto first = [&](auto matches) -> const Candidate* {
    const auto found = std::ranges::find_if(all, matches);
    return found == all.end() ? nullptr : &*found;
  };
  const auto tagged = [&](std::string_view tag) {
    return first([&](const Candidate& each) { return has_tag(each.files.front().path, tag); });
  };
  if (!selector.empty()) {
    const auto* exact = first([&](const Candidate& each) {
      return std::ranges::any_of(each.files, [&](const HubFile& file) {
        return file.path == selector || catalog::base_name(file.path) == selector;
      });
    });
    if (exact != nullptr) return whole(*exact);
    if (const auto* found = tagged(selector)) return whole(*found);
  } else {
    for (const auto tag : kPreferred) {
      if (const auto* found = tagged(tag)) return whole(*found);
    }
    if (all.size() == 1) return whole(all.front());
  }
  std::vector<std::string> names;
  for (const auto& candidate : all) names.push_back(candidate.files.front().path);
  const bool more = names.size() > kListed;
  if (more) names.resize(kListed);
  return fail(ErrorKind::not_found, "no_such_file",
              all.empty()
                  ? std::string("the repository has no GGUF file")
                  : fmt::format("{}; the repository has: {}{}",
                                selector.empty() ? std::string("say which file is meant")
                                                 : fmt::format("no file has \"{}\" in its name", selector),
                                fmt::join(names, ", "), more ? ", ..." : ""),
              "model");
}

Result<InstallPlan> plan_hub(const HubId& id, std::string_view commit, const std::vector<HubFile>& chosen,
                             const Hub& hub) {
  InstallPlan out;
  out.source = "huggingface";
  out.repository = id.repository;
  out.revision = commit;
  for (const auto& file : chosen) {
    PlannedFile next;
    next.name = catalog::base_name(file.path);
    next.sha256 = file.sha256;
    next.size_bytes = file.size_bytes;
    next.urls.push_back(repository_url(hub.base, id.repository, commit, file.path));
    for (const auto& mirror : hub.mirrors)
      next.urls.push_back(repository_url(mirror, id.repository, commit, file.path));
    out.files.push_back(std::move(next));
  }
  if (chosen.empty())
    return fail(ErrorKind::not_found, "no_such_file", "the repository has no GGUF file", "model");
  const std::string& name = out.files.front().name;
  const auto split = gguf::parse_split_name(name);
  out.name = split ? split->prefix : name.substr(0, name.size() - std::min<std::size_t>(name.size(), 5));
  out.repository_file = chosen.front().path;
  out.id = whole_local_id(out.name);
  if (out.id.size() > kMaxIdLength) out.id = distinct_id(out);
  GEZEL_CHECK(check_plan(out));
  return out;
}

namespace {

// The page after the one at `url`, "" = that was the last. A list that goes on at another host is none of
// this one.
Result<std::string> next_page(const std::string& url, std::string_view header) {
  const std::string link = downloads::link_target(header, "next");
  if (link.empty()) return std::string();
  GEZEL_TRY(const downloads::Url asked, downloads::parse_url(url));
  GEZEL_TRY(const downloads::Url next, downloads::resolve_redirect(asked, link));
  if (next.origin() == asked.origin()) return next.text;
  return fail(
      ErrorKind::corrupt, "bad_listing",
      fmt::format("the hub's list of files goes on at another host ({}), which is not asked", next.host));
}

Result<std::vector<HubFile>> list_files(std::string url, const downloads::Transfers& transfers,
                                        const downloads::AccessToken& token,
                                        const downloads::Cancellation& cancellation) {
  std::vector<HubFile> out;
  for (int page = 0; page < kMaxListingPages; ++page) {
    GEZEL_TRY(downloads::Page got, transfers.fetch_page(url, kMaxListingBytes, token, cancellation));
    GEZEL_TRY(std::vector<HubFile> files, parse_listing(got.text));
    out.insert(out.end(), std::make_move_iterator(files.begin()), std::make_move_iterator(files.end()));
    if (out.size() > kMaxListedFiles) break;
    GEZEL_TRY(url, next_page(url, got.link));
    if (url.empty()) return out;
  }
  return fail(ErrorKind::too_large, "listing_too_long",
              fmt::format("the repository lists more than {} files or {} pages; download the file yourself "
                          "and run `gezel import` on it",
                          kMaxListedFiles, kMaxListingPages),
              "model");
}

}  // namespace

Result<InstallPlan> resolve_hub(std::string_view text, const Hub& hub, const downloads::Transfers& transfers,
                                const downloads::AccessToken& token,
                                const downloads::Cancellation& cancellation) {
  GEZEL_TRY(const HubId id, parse_hub_id(text));
  std::string base = hub.base;
  while (base.ends_with('/')) base.pop_back();
  const std::string api =
      fmt::format("{}/api/models/{}", base, downloads::percent_encoded_path(id.repository));
  GEZEL_TRY(const std::string revision,
            transfers.fetch_text(fmt::format("{}/revision/{}", api, downloads::percent_encoded(id.revision)),
                                 kMaxListingBytes, token, cancellation));
  GEZEL_TRY(const std::string commit, parse_commit(revision));
  GEZEL_TRY(const auto files, list_files(fmt::format("{}/tree/{}?recursive=true", api, commit), transfers,
                                         token, cancellation));
  GEZEL_TRY(const auto chosen, choose_files(files, id.selector));
  return plan_hub(id, commit, chosen, hub);
}

}  // namespace gezel::models
