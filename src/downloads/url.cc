#include "downloads/url.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>

namespace gezel::downloads {
namespace {

constexpr std::size_t kMaxUrl = 8192;  // signed addresses of storage hosts have a few kilobytes

constexpr std::string_view kFile = "file:///";

using Handle = std::unique_ptr<CURLU, decltype(&curl_url_cleanup)>;

std::string part(CURLU* url, CURLUPart which, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, which, &text, flags) != CURLUE_OK || text == nullptr) return {};
  std::string out(text);
  curl_free(text);
  return out;
}

std::unexpected<Error> bad_url(std::string_view text, std::string_view why) {
  return fail(ErrorKind::invalid, "bad_url", fmt::format("the address \"{}\" {}", shown_address(text), why),
              "url");
}

Result<Url> checked(CURLU* handle, std::string_view shown) {
  Url out;
  out.text = part(handle, CURLUPART_URL);
  out.scheme = part(handle, CURLUPART_SCHEME);
  out.host = part(handle, CURLUPART_HOST);
  for (char& c : out.host) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  const std::string port = part(handle, CURLUPART_PORT, CURLU_DEFAULT_PORT);
  std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (out.host.empty() || out.text.size() > kMaxUrl) return bad_url(shown, "has no host or is too long");
  if (!part(handle, CURLUPART_USER).empty() || !part(handle, CURLUPART_PASSWORD).empty())
    return bad_url(shown, "has a user name or password in it; use an access token instead");
  if (out.scheme == "https" || (out.scheme == "http" && is_loopback(out.host))) return out;
  return bad_url(shown, "must begin with https:// (plain http only goes to this machine itself)");
}

Result<Url> parse(std::string_view base, std::string_view text) {
  const auto odd = [](char c) { return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f; };
  if (text.empty() || text.size() > kMaxUrl || std::ranges::any_of(text, odd))
    return bad_url(text, "is empty, too long, or has blanks or control characters");
  const Handle handle(curl_url(), &curl_url_cleanup);
  if (handle == nullptr) return bad_url(text, "cannot be looked at: out of memory");
  if (!base.empty() && curl_url_set(handle.get(), CURLUPART_URL, std::string(base).c_str(), 0) != CURLUE_OK)
    return bad_url(base, "cannot be read");
  if (const auto error = curl_url_set(handle.get(), CURLUPART_URL, std::string(text).c_str(), 0);
      error != CURLUE_OK)
    return bad_url(text, fmt::format("cannot be read: {}", curl_url_strerror(error)));
  return checked(handle.get(), text);
}

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

}  // namespace

std::string Url::origin() const {
  return fmt::format("{}://{}:{}", scheme, host, port);
}

Result<Url> parse_url(std::string_view text) {
  return parse({}, text);
}

Result<Url> parse_source(std::string_view text) {
  if (!text.starts_with(kFile)) return parse_url(text);
  Url out;
  out.text = text;
  out.scheme = "file";
  if (text.size() > kMaxUrl || file_path(out).find('\0') != std::string::npos)
    return bad_url(text, "is too long or has a zero byte in it");
  return out;
}

std::string file_path(const Url& url) {
  std::string_view text = url.text;
  text.remove_prefix(std::min(text.size(), kFile.size() - 1));  // the last slash begins the path
  text = text.substr(0, text.find('?'));
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const char* digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2) {
      out += static_cast<char>(value);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

Result<Url> resolve_redirect(const Url& from, std::string_view location) {
  auto next = parse(from.text, location);
  // A host of the network must not reach services of this machine through us.
  if (next && from.scheme == "https" && next->scheme != "https")
    return bad_url(location, "leads from a secure host to an insecure one");
  return next;
}

std::string shown_address(std::string_view text) {
  constexpr std::size_t kShown = 200;
  text = text.substr(0, text.find_first_of("?#"));
  std::size_t begin = text.find(":/");
  begin = begin == std::string_view::npos ? 0 : text.find_first_not_of(":/", begin);
  // Up to the last '@': a password may have a '/' in it, which makes the address a wrong one.
  const std::size_t at = text.rfind('@');
  if (at == std::string_view::npos || at < begin) return std::string(text.substr(0, kShown));
  return fmt::format("{}[hidden]{}", text.substr(0, std::min(begin, kShown)), text.substr(at, kShown));
}

bool is_loopback(std::string_view host) {
  if (host == "localhost" || host == "[::1]") return true;
  // 127.0.0.0/8 in dotted form only: "127.evil.example" is a name like any other.
  if (!host.starts_with("127.")) return false;
  return std::ranges::count(host, '.') == 3 &&
         std::ranges::all_of(host, [](char c) { return c == '.' || (c >= '0' && c <= '9'); });
}

std::string percent_encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (is_unreserved(c))
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string percent_encoded_path(std::string_view path) {
  std::string out;
  while (true) {
    const std::size_t end = path.find('/');
    out += percent_encoded(path.substr(0, end));
    if (end == std::string_view::npos) return out;
    out += '/';
    path.remove_prefix(end + 1);
  }
}

}  // namespace gezel::downloads
