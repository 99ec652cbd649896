#include "models/mirrors.h"

#include <fmt/format.h>

#include <algorithm>

#include "downloads/url.h"

namespace gezel::models {
namespace {

std::unexpected<Error> bad_mirrors(std::string message) {
  return fail(ErrorKind::invalid, "invalid_mirrors", std::move(message), "mirrors");
}

// Without the slashes at its end.
Result<std::string> base_of(const std::string& mirror) {
  // What stands behind '?' may be a key.
  const std::string shown = mirror.substr(0, std::min<std::size_t>(mirror.find('?'), 200));
  if (mirror.size() > kMaxMirrorBytes)
    return bad_mirrors(
        fmt::format("\"{}\" has {} bytes; a mirror may have {}", shown, mirror.size(), kMaxMirrorBytes));
  const auto url = downloads::parse_url(mirror);
  if (!url) return bad_mirrors(fmt::format("\"{}\" cannot be asked: {}", shown, url.error().message));
  if (mirror.find_first_of("?#") != std::string::npos)
    return bad_mirrors(fmt::format("\"{}\" must end where the paths of files begin, without ? and #", shown));
  std::string out = url->text;
  while (out.ends_with('/')) out.pop_back();
  return out;
}

// What of a file's first address is behind the base; "" = there is no such part.
std::string path_below_base(const InstallPlan& plan, const PlannedFile& file) {
  std::string_view url = file.urls.front();
  if (!plan.repository.empty()) {
    const std::string mark = fmt::format("/{}/resolve/", downloads::percent_encoded_path(plan.repository));
    const std::size_t at = url.find(mark);
    return at == url.npos ? std::string() : std::string(url.substr(at));
  }
  url = url.substr(0, url.find_first_of("?#"));
  const std::size_t slash = url.rfind('/');
  return slash == url.npos ? std::string() : std::string(url.substr(slash));
}

}  // namespace

Result<> add_mirrors(InstallPlan& plan, const std::vector<std::string>& mirrors) {
  if (mirrors.size() > kMostMirrors)
    return bad_mirrors(
        fmt::format("there are {} mirrors; at most {} are asked", mirrors.size(), kMostMirrors));
  std::vector<std::string> bases;
  for (const auto& mirror : mirrors) {
    GEZEL_TRY(auto base, base_of(mirror));
    if (std::ranges::find(bases, base) == bases.end()) bases.push_back(std::move(base));
  }
  if (bases.empty()) return {};
  for (auto& file : plan.files) {
    if (file.sha256.empty())
      return bad_mirrors(
          fmt::format("no digest of {} is known, so that nothing tells whether a mirror has the "
                      "same file; give its sha256, or no mirrors",
                      file.name));
    const std::string path = path_below_base(plan, file);
    if (path.size() < 2)
      return bad_mirrors(fmt::format("where {} is on a mirror cannot be told from its address", file.name));
    for (const auto& base : bases) file.mirrors.push_back(base + path);
  }
  return {};
}

std::vector<FileSource> sources_of(const InstallPlan& plan, const PlannedFile& file) {
  std::vector<FileSource> out;
  const bool foreign = plan.source == kFromUrl;
  const auto add = [&](const std::string& url, bool public_only) {
    if (std::ranges::find(out, url, &FileSource::url) == out.end()) out.push_back({url, public_only});
  };
  for (std::size_t i = 0; i < file.urls.size(); ++i) {
    add(file.urls[i], foreign);
    if (i > 0) continue;
    for (const auto& mirror : file.mirrors) add(mirror, true);
  }
  return out;
}

}  // namespace gezel::models
