// Headers and addresses that servers send: no crash, and no redirect leads anywhere but to https or this
// machine.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "downloads/response.h"
#include "downloads/url.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gezel::downloads;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ResponseHead head;
  head.content_range = parse_content_range(text);
  head.location = text;
  // A target is part of the header, and relations are told apart without regard to case.
  const auto target = link_target(text, "next");
  if (text.find(target) == std::string_view::npos || target != link_target(text, "NEXT")) std::abort();
  for (const int status : {200, 206, 302, 416, 500}) {
    head.status = status;
    const auto decision = decide(head, 1000);
    if (decision.action == Action::complete && decision.truncate_to > 1000) std::abort();
  }
  const auto next = resolve_redirect(parse_url("https://a.example/x").value(), text);
  if (next && next->scheme != "https" && !(next->scheme == "http" && is_loopback(next->host))) std::abort();
  if (const auto file = parse_source(text); file && file->scheme == "file")
    static_cast<void>(file_path(*file));
  return 0;
}
