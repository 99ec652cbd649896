#include "catalog/grammar.h"

#include <algorithm>
#include <array>

namespace gezel::catalog {
namespace {

bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_alnum(char c) {
  return is_lower(c) || is_upper(c) || is_digit(c);
}
bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

bool is_device_name(std::string_view name) {
  const std::string upper = lowered(name.substr(0, name.find('.')));
  if (upper == "con" || upper == "prn" || upper == "aux" || upper == "nul") return true;
  return upper.size() == 4 && (upper.starts_with("com") || upper.starts_with("lpt")) && upper[3] >= '1' &&
         upper[3] <= '9';
}

// Every segment is there and leads nowhere else.
bool has_plain_segments(std::string_view path) {
  while (true) {
    const std::size_t end = path.find('/');
    const std::string_view segment = path.substr(0, end);
    if (segment.empty() || segment == "." || segment == "..") return false;
    if (end == std::string_view::npos) return true;
    path.remove_prefix(end + 1);
  }
}

}  // namespace

std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (is_upper(c)) c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

bool is_catalog_id(std::string_view id) {
  if (id.size() < 2 || id.size() > kMaxCatalogIdLength) return false;
  if (!is_lower(id.front()) && !is_digit(id.front())) return false;
  return std::ranges::all_of(
      id, [](char c) { return is_lower(c) || is_digit(c) || c == '.' || c == '-' || c == ':'; });
}

bool is_portable_id(std::string_view id) {
  if (id.empty() || id.size() > 200 || !(is_alnum(id.front()) || id.front() == '@')) return false;
  const auto allowed = [](char c) { return is_alnum(c) || c == '@' || c == '.' || c == '_' || c == '-'; };
  return std::ranges::all_of(id, allowed) && !is_device_name(id);
}

bool is_sha256(std::string_view text) {
  return text.size() == 64 && std::ranges::all_of(text, [](char c) {
           return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
         });
}

bool is_repository(std::string_view text) {
  if (text.size() > 200 || std::ranges::count(text, '/') != 1) return false;
  const auto allowed = [](char c) { return is_alnum(c) || c == '_' || c == '.' || c == '-' || c == '/'; };
  return std::ranges::all_of(text, allowed) && has_plain_segments(text);
}

bool is_revision(std::string_view text) {
  if (text.empty() || text.size() > 200) return false;
  const auto allowed = [](char c) { return is_alnum(c) || c == '_' || c == '.' || c == '-' || c == '/'; };
  return std::ranges::all_of(text, allowed) && has_plain_segments(text);
}

bool is_contained_path(std::string_view path) {
  if (path.empty() || path.size() > kMaxPathLength) return false;
  if (std::ranges::any_of(path, [](char c) { return c == '\\' || is_control(c); })) return false;
  return has_plain_segments(path);
}

bool is_web_url(std::string_view url, bool http) {
  if (url.size() > 4096 || std::ranges::any_of(url, [](char c) { return is_control(c) || c == ' '; }))
    return false;
  const std::string_view scheme = url.starts_with("https://")          ? "https://"
                                  : http && url.starts_with("http://") ? "http://"
                                                                       : "";
  if (scheme.empty()) return false;
  const std::string_view rest = url.substr(scheme.size());
  const std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
  return !authority.empty() && authority.find('@') == std::string_view::npos;
}

std::string base_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

}  // namespace gezel::catalog
