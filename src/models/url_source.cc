#include "models/url_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "catalog/grammar.h"
#include "downloads/url.h"
#include "gguf/split.h"
#include "models/ids.h"
#include "models/owner.h"
#include "models/shards.h"

namespace gezel::models {
namespace {

using catalog::lowered;

constexpr std::string_view kPrefix = "url:", kDigest = "sha256=", kExtension = ".gguf";
constexpr std::size_t kMaxNameLength = 255;
// Of a part only its size is wanted; this is the least that a range asks for.
constexpr Bytes kLook = 4 * kKiB;

std::unexpected<Error> bad_url(std::string_view text, std::string_view why) {
  return fail(ErrorKind::invalid, "bad_url",
              fmt::format("the address \"{}\" {}", downloads::shown_address(text), why), "url");
}

bool is_model_name(std::string_view name) {
  return lowered(name).ends_with(kExtension);
}

// An address in its parts.
struct Address {
  std::string text;  // without the fragment
  std::string path;  // encoded, up to '?'
  std::string name;  // of the file, decoded
  std::string sha256;
};

// Where the path of an address begins, or its end.
std::size_t path_at(std::string_view text) {
  const std::size_t scheme = text.find("://");
  return std::min(text.size(), text.find('/', scheme == std::string_view::npos ? 0 : scheme + 3));
}

Result<Address> parse_address(std::string_view text) {
  if (text.starts_with(kPrefix)) text.remove_prefix(kPrefix.size());
  if (text.starts_with("file:")) {
    return fail(ErrorKind::invalid, "bad_url",
                "a file of this machine is not downloaded; make it usable with `gezel import FILE`", "url");
  }
  Address out;
  if (const std::size_t hash = text.find('#'); hash != std::string_view::npos) {
    const std::string_view fragment = text.substr(hash + 1);
    text = text.substr(0, hash);
    if (fragment.starts_with(kDigest)) {
      out.sha256 = fragment.substr(kDigest.size());
      if (!catalog::is_sha256(out.sha256))
        return bad_url(text, "has no 64 hexadecimal digits after #sha256=");
    }
  }
  GEZEL_TRY(downloads::Url url, downloads::parse_url(text));
  out.text = std::move(url.text);
  const std::size_t begin = path_at(out.text);
  // A host is the same in either case, and so is the model.
  out.text.replace(0, begin, lowered(std::string_view(out.text).substr(0, begin)));
  out.path = out.text.substr(begin, std::min(out.text.find('?', begin), out.text.size()) - begin);
  // As the path of a file: decoded, and without the query.
  out.name = downloads::file_path({.text = "file://" + out.path, .scheme = {}, .host = {}, .port = 0});
  out.name = out.name.substr(out.name.rfind('/') + 1);
  if (out.name.empty()) return bad_url(text, "ends in no file name; give the address of the file itself");
  return out;
}

// A file of that name beside the one at `address`.
std::string sibling(const Address& address, std::string_view name) {
  std::string out = address.text;
  const std::size_t end = path_at(out) + address.path.size();
  const std::size_t begin = out.rfind('/', end - 1) + 1;
  return out.replace(begin, end - begin, downloads::percent_encoded(name));
}

Result<> check_name(const Address& address, const std::string& name) {
  if (name.size() <= kMaxNameLength && catalog::is_contained_path(name) && !name.starts_with('.')) return {};
  return bad_url(address.text,
                 fmt::format("has a last part that cannot be the name of a file here: it may have "
                             "{} bytes, no control character, and no dot at its beginning",
                             kMaxNameLength));
}

PlannedFile planned(std::string name, std::string url) {
  PlannedFile out;
  out.name = std::move(name);
  out.urls = {std::move(url)};
  return out;
}

}  // namespace

bool is_url(std::string_view text) {
  return text.starts_with(kPrefix) || text.find("://") != std::string_view::npos;
}

Result<InstallPlan> plan_url(std::string_view text, std::string_view id, std::string_view sha256) {
  GEZEL_TRY(Address address, parse_address(text));
  if (!sha256.empty() && !catalog::is_sha256(sha256))
    return fail(ErrorKind::invalid, "invalid_sha256", "sha256 must be 64 hexadecimal digits", "sha256");
  if (!sha256.empty() && !address.sha256.empty() && lowered(sha256) != lowered(address.sha256)) {
    return fail(ErrorKind::invalid, "invalid_sha256",
                "sha256 is another one than the address has after #sha256=; give one of them", "sha256");
  }
  if (sha256.empty()) sha256 = address.sha256;
  // An address without the extension may still lead to a model; what it is, its first bytes say.
  if (!is_model_name(address.name)) address.name += kExtension;
  GEZEL_CHECK(check_name(address, address.name));
  InstallPlan out;
  out.source = kFromUrl;
  const auto split = gguf::parse_split_name(address.name);
  out.name = split ? split->prefix : address.name.substr(0, address.name.size() - kExtension.size());
  if (split) {
    if (!sha256.empty()) {
      return fail(ErrorKind::invalid, "invalid_sha256",
                  fmt::format("{} is one of {} parts, and sha256 is of one file only; leave it out",
                              address.name, split->count),
                  "sha256");
    }
    // Before a plan has an address for each: one of 8 KiB would take most of a gigabyte.
    if (split->count > kMaxParts) {
      return fail(
          ErrorKind::invalid, "too_many_parts",
          fmt::format("{} is one of {} parts; at most {} are allowed", address.name, split->count, kMaxParts),
          "url");
    }
    for (std::uint32_t number = 1; number <= split->count; ++number) {
      std::string name = gguf::shard_name(*split, number);
      std::string url = sibling(address, name);
      out.files.push_back(planned(std::move(name), std::move(url)));
    }
  } else {
    out.files.push_back(planned(address.name, address.text));
    out.files.front().sha256 = lowered(sha256);
  }
  // Addresses of storage carry a signature that is another one each time; the path says which file it is.
  out.address = out.files.front().urls.front();
  if (is_model_name(address.path)) out.address = out.address.substr(0, out.address.find('?'));
  out.id = id.empty() ? whole_local_id(out.name) : std::string(id);
  if (id.empty() && out.id.size() > kMaxIdLength) out.id = distinct_id(out);
  GEZEL_CHECK(check_plan(out));
  return out;
}

std::string hub_id_of_url(std::string_view text, const Hub& hub) {
  const auto address = parse_address(text);
  const auto url = address ? downloads::parse_url(address->text) : Result<downloads::Url>{};
  const auto base = downloads::parse_url(hub.base);
  if (!address || !url || !base || url->origin() != base->origin()) return {};
  std::string path =
      downloads::file_path({.text = "file://" + address->path, .scheme = {}, .host = {}, .port = 0});
  std::string_view rest = path;
  const auto take = [&]() -> std::string_view {
    const std::size_t slash = rest.find('/');
    const std::string_view out = rest.substr(0, slash);
    rest = slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
    return out;
  };
  take();  // before the first slash
  const std::string_view owner = take(), name = take();
  const std::string repository = fmt::format("{}/{}", owner, name);
  const std::string_view verb = take(), revision = take();
  if (!(verb == "resolve" || verb == "blob") || !catalog::is_repository(repository) ||
      !catalog::is_revision(revision) || !catalog::is_contained_path(rest) || !is_model_name(rest) ||
      rest.find(':') != std::string_view::npos)
    return {};
  return fmt::format("hf:{}@{}:{}", repository, revision, rest);
}

Result<RemoteHeader> look_at_url(InstallPlan& plan, const downloads::Transfers& transfers,
                                 const downloads::AccessToken& token,
                                 const downloads::Cancellation& cancellation) {
  GEZEL_TRY(RemoteHeader header, read_remote_header(plan, {}, transfers, token, cancellation));
  plan.files.front().size_bytes = header.file_bytes;
  GEZEL_CHECK(measure_parts(plan, transfers, token, cancellation));
  return header;
}

Result<> measure_parts(InstallPlan& plan, const downloads::Transfers& transfers,
                       const downloads::AccessToken& token, const downloads::Cancellation& cancellation) {
  for (std::size_t i = 1; i < plan.files.size(); ++i) {
    auto& file = plan.files[i];
    auto got = transfers.fetch_prefix(
        {.url = file.urls.front(),
         .first_bytes = kLook,
         .most_bytes = kLook,
         .expected_bytes = 0,
         .token = token,
         .unless_etag = {},
         .public_only = true},
        [](std::string_view, Bytes) { return true; }, cancellation);
    if (!got) {
      got.error().message = fmt::format("{}: {}", file.name, got.error().message);
      return std::unexpected(std::move(got).error());
    }
    file.size_bytes = got->file_bytes;
  }
  return {};
}

}  // namespace gezel::models
