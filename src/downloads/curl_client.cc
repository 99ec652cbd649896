// One easy handle in a multi handle of its own: curl_multi_poll() returns often enough to look at the clock
// and at the cancellation, which the easy interface does only once a second. Redirects, retries, environment
// and netrc are all switched off: where a request goes and who sees the token is decided in transfer.cc.

#include <curl/curl.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <memory>
#include <optional>

#include "downloads/http_client.h"
#include "downloads/reach.h"

namespace gezel::downloads {
namespace {

constexpr int kPollMs = 50;  // how late a stall or a cancellation may be noticed
constexpr long kBufferBytes = 256 * 1024;

using Easy = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;
using Multi = std::unique_ptr<CURLM, decltype(&curl_multi_cleanup)>;
using Headers = std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)>;

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

bool same_name(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [&](char x, char y) { return lower(x) == lower(y); });
}

// One request under way: what the callbacks of libcurl see.
struct Exchange {
  HttpSink& sink;
  const Cancellation& cancellation;
  const Clock& clock;
  Bytes max_header_bytes;
  ResponseHead head;
  Bytes header_bytes = 0;
  MonotonicTime last_byte;
  bool head_done = false, stopped = false, body_seen = false;
  bool refused_address = false;  // one of the host's addresses is not public
  std::optional<Error> error;

  // False ends the transfer.
  bool header_line(std::string_view line) {
    last_byte = clock.now();
    header_bytes += line.size();
    if (header_bytes > max_header_bytes) {
      error = Error{ErrorKind::too_large,
                    "headers_too_large",
                    fmt::format("the server's answer has more than {} bytes of headers", max_header_bytes),
                    {}};
      return false;
    }
    if (head_done) return true;  // trailers
    line = trimmed(line);
    if (line.starts_with("HTTP/")) {
      // A new block: those of 1xx answers come before the real one.
      head = {};
      const std::size_t space = line.find(' ');
      if (space != std::string_view::npos)
        std::from_chars(line.data() + space + 1, line.data() + line.size(), head.status);
      return true;
    }
    if (line.empty()) return head.status < 200 || finish_head();
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return true;
    const std::string_view name = line.substr(0, colon), value = trimmed(line.substr(colon + 1));
    if (same_name(name, "Location")) head.location = value;
    if (same_name(name, "ETag")) head.etag = value;
    if (same_name(name, "Content-Range")) head.content_range = parse_content_range(value);
    if (same_name(name, "X-Xet-Hash")) head.xet_hash = value;
    if (same_name(name, "Link")) head.link += fmt::format("{}{}", head.link.empty() ? "" : ", ", value);
    if (same_name(name, "Content-Length")) {
      Bytes length = 0;
      const auto [end, failed] = std::from_chars(value.data(), value.data() + value.size(), length);
      if (failed == std::errc() && end == value.data() + value.size()) head.content_length = length;
    }
    return true;
  }

  bool finish_head() {
    head_done = true;
    stopped = !sink.on_head(head);
    return !stopped;
  }

  bool body(std::string_view data) {
    if (cancellation.cancelled()) return false;
    body_seen = true;
    if (auto written = sink.on_body(data); !written) {
      error = std::move(written).error();
      return false;
    }
    last_byte = clock.now();  // after the write: a slow disk is no stalled server
    return true;
  }
};

std::size_t on_header(char* data, std::size_t size, std::size_t count, void* exchange) {
  return static_cast<Exchange*>(exchange)->header_line({data, size * count}) ? size * count : 0;
}

std::size_t on_body(char* data, std::size_t size, std::size_t count, void* exchange) {
  return static_cast<Exchange*>(exchange)->body({data, size * count}) ? size * count : 0;
}

bool is_public(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(address).sin_addr;
    return is_public_address({reinterpret_cast<const unsigned char*>(&in), sizeof in});
  }
  if (address.sa_family != AF_INET6) return false;
  const auto& in = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return is_public_address({reinterpret_cast<const unsigned char*>(&in), sizeof in});
}

// Looks at the very address that is about to be asked: what a name meant a moment ago says nothing.
curl_socket_t open_public(void* exchange, curlsocktype, curl_sockaddr* address) {
  if (!is_public(address->addr)) {
    static_cast<Exchange*>(exchange)->refused_address = true;
    return CURL_SOCKET_BAD;
  }
  const int fd = ::socket(address->family, address->socktype, address->protocol);
  if (fd >= 0) static_cast<void>(::fcntl(fd, F_SETFD, FD_CLOEXEC));  // no worker gets it
  return fd;
}

std::unexpected<Error> private_address(const std::string& host) {
  return fail(
      ErrorKind::denied, "private_address",
      fmt::format("{} is an address of this network or machine, and those are not asked; download the "
                  "file yourself and run `gezel import` on it",
                  host),
      "url");
}

std::unexpected<Error> network_error(std::string code, std::string message) {
  return fail(ErrorKind::unavailable, std::move(code), std::move(message));
}

std::unexpected<Error> cancelled() {
  return fail(ErrorKind::cancelled, "cancelled", "the download was cancelled");
}

// In our words: what libcurl says is for programmers.
std::unexpected<Error> reason(CURLcode code, const std::string& host, bool body_seen) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return network_error("host_unreachable",
                           fmt::format("the host {} cannot be found; this machine may be offline", host));
    case CURLE_COULDNT_CONNECT:
      return network_error("connection_refused",
                           fmt::format("{} refused the connection or cannot be reached", host));
    case CURLE_OPERATION_TIMEDOUT:
      return network_error("timed_out", fmt::format("the connection to {} timed out", host));
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_INVALIDCERTSTATUS:
      return network_error(
          "tls_error", fmt::format("the secure connection to {} failed: its certificate is not accepted, or "
                                   "something in between changes it ({})",
                                   host, curl_easy_strerror(code)));
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_HTTP3:
      return network_error("dropped", body_seen
                                          ? fmt::format("{} dropped the connection in mid-transfer", host)
                                          : fmt::format("{} dropped the connection", host));
    default:
      return network_error("network_error",
                           fmt::format("the transfer from {} failed: {}", host, curl_easy_strerror(code)));
  }
}

Headers request_headers(const HttpGet& request) {
  curl_slist* list = nullptr;
  // Bytes are resumed and hashed as they are, so nobody may compress them on the way.
  list = curl_slist_append(list, "Accept-Encoding: identity");
  if (!request.bearer.empty())
    list = curl_slist_append(list, ("Authorization: Bearer " + request.bearer).c_str());
  if (request.length > 0) {
    list = curl_slist_append(
        list, fmt::format("Range: bytes={}-{}", request.offset, request.offset + request.length - 1).c_str());
  } else if (request.offset > 0) {
    list = curl_slist_append(list, fmt::format("Range: bytes={}-", request.offset).c_str());
  }
  if (!request.unless_etag.empty())
    list = curl_slist_append(list, ("If-None-Match: " + request.unless_etag).c_str());
  return {list, &curl_slist_free_all};
}

void set_up(CURL* easy, const CurlOptions& options, const HttpGet& request, curl_slist* headers,
            Exchange& exchange) {
  curl_easy_setopt(easy, CURLOPT_URL, request.url.text.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  curl_easy_setopt(easy, CURLOPT_PROXY, options.proxy.c_str());
  // What the proxy says about the tunnel is no answer of the host.
  curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  // A hub on this machine is behind no proxy.
  curl_easy_setopt(easy, CURLOPT_NOPROXY, "localhost,127.0.0.1,::1");
  if (!options.ca_file.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, options.ca_file.c_str());
  curl_easy_setopt(easy, CURLOPT_USERAGENT, options.user_agent.c_str());
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, kBufferBytes);
  if (options.max_bytes_per_second > 0)
    curl_easy_setopt(easy, CURLOPT_MAX_RECV_SPEED_LARGE,
                     static_cast<curl_off_t>(options.max_bytes_per_second));
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &on_header);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &exchange);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &on_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &exchange);
  if (!request.public_only || !options.proxy.empty()) return;
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, &open_public);
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, &exchange);
}

// Nothing: it made the tunnel, or there is none. libcurl reports a refusal like a broken connection.
std::optional<Error> proxy_refusal(CURL* easy, const std::string& host) {
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_HTTP_CONNECTCODE, &status);
  if (status < 300) return std::nullopt;
  return Error{status >= 500 ? ErrorKind::unavailable : ErrorKind::denied,
               "proxy_refused",
               fmt::format("the proxy refused to connect to {} (status {}); check HTTPS_PROXY", host, status),
               {}};
}

CURLcode result_of(CURLM* multi) {
  int left = 0;
  const CURLMsg* message = curl_multi_info_read(multi, &left);
  return message == nullptr ? CURLE_RECV_ERROR : message->data.result;
}

}  // namespace

CurlClient::CurlClient(CurlOptions options, const Clock& clock)
    : options_(std::move(options)), clock_(clock) {
  static const CURLcode once = curl_global_init(CURL_GLOBAL_DEFAULT);
  static_cast<void>(once);
}

Result<> CurlClient::get(const HttpGet& request, HttpSink& sink, const Cancellation& cancellation) {
  if (cancellation.cancelled()) return cancelled();
  if (std::ranges::any_of(request.bearer,
                          [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7f; })) {
    return fail(ErrorKind::invalid, "bad_token",
                "the access token has blanks or control characters in it; set it again without them");
  }
  if (request.public_only && !may_be_public(request.url.host)) return private_address(request.url.host);
  const Easy easy(curl_easy_init(), &curl_easy_cleanup);
  const Multi multi(curl_multi_init(), &curl_multi_cleanup);
  if (easy == nullptr || multi == nullptr)
    return fail(ErrorKind::internal, "out_of_memory", "a transfer cannot be started: out of memory");
  Exchange exchange{.sink = sink,
                    .cancellation = cancellation,
                    .clock = clock_,
                    .max_header_bytes = options_.max_header_bytes,
                    .last_byte = clock_.now()};
  const Headers headers = request_headers(request);
  set_up(easy.get(), options_, request, headers.get(), exchange);
  curl_multi_add_handle(multi.get(), easy.get());
  // Before the handles go, whatever way out is taken.
  const std::unique_ptr<CURL, std::function<void(CURL*)>> added(
      easy.get(), [&](CURL* handle) { curl_multi_remove_handle(multi.get(), handle); });

  const MonotonicTime begin = clock_.now();
  for (int running = 1; true;) {
    const CURLMcode status = curl_multi_perform(multi.get(), &running);
    if (status != CURLM_OK) return network_error("network_error", curl_multi_strerror(status));
    if (running == 0) break;
    if (cancellation.cancelled()) return cancelled();
    if (clock_.now() - exchange.last_byte >= options_.stall)
      return network_error("stalled", fmt::format("{} sent nothing for {} s", request.url.host,
                                                  options_.stall.count() / 1000));
    // Bytes that trickle in are no stall, of the head neither.
    if (request.limit > Millis(0) && clock_.now() - begin >= request.limit)
      return network_error("timed_out", fmt::format("the answer of {} was not complete after {} s",
                                                    request.url.host, request.limit.count() / 1'000));
    curl_multi_poll(multi.get(), nullptr, 0, kPollMs, nullptr);
  }
  if (exchange.error) return std::unexpected(std::move(*exchange.error));
  if (exchange.stopped) return {};
  if (cancellation.cancelled()) return cancelled();
  if (const CURLcode code = result_of(multi.get()); code != CURLE_OK) {
    if (auto refused = proxy_refusal(easy.get(), request.url.host))
      return std::unexpected(std::move(*refused));
    if (exchange.refused_address && code == CURLE_COULDNT_CONNECT) return private_address(request.url.host);
    return reason(code, request.url.host, exchange.body_seen);
  }
  if (!exchange.head_done) return network_error("dropped", request.url.host + " sent no answer");
  return {};
}

}  // namespace gezel::downloads
