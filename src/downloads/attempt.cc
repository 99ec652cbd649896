#include "downloads/attempt.h"

#include <fmt/format.h>

#include <utility>

namespace gezel::downloads {

Attempt follow(HttpClient& client, const std::string& address, const AccessToken& token, Target& target,
               const Cancellation& cancellation) {
  auto url = parse_source(address);
  if (!url) return stopped(std::move(url).error(), false);
  bool trusted = !token.value.empty() && url->origin() == token.origin;
  const std::string home = url->origin();
  bool at_home = true;
  // Whoever named this machine meant it; no other host may lead here.
  const bool public_only = target.public_only() && !is_loopback(url->host);
  for (int redirects = 0;; ++redirects) {
    target.asking(at_home);
    auto got = client.get({.url = *url,
                           .offset = target.offset(),
                           .bearer = trusted ? token.value : std::string(),
                           .length = target.length(),
                           .unless_etag = target.unless_etag(),
                           .public_only = public_only},
                          target, cancellation);
    if (!got) return target.finish(std::move(got).error());
    if (target.decision().action != Action::redirect) return target.finish({});
    if (redirects == kMaxRedirects) {
      return stopped({ErrorKind::unavailable,
                      "too_many_redirects",
                      fmt::format("the host redirects more than {} times", kMaxRedirects),
                      {}},
                     false);
    }
    auto next = resolve_redirect(*url, target.location());
    if (!next) return stopped(std::move(next).error(), false);
    // Once another host came into play the token is not shown again, wherever the chain leads.
    trusted = trusted && next->origin() == token.origin;
    at_home = at_home && next->origin() == home;
    url = std::move(next);
  }
}

Error after_attempts(Error reason, int attempts) {
  if (attempts > 1) reason.message += fmt::format(" (after {} attempts)", attempts);
  return reason;
}

}  // namespace gezel::downloads
