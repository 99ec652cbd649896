// Three kinds of requests: the hub says where the storage is and gives a token for it, the storage says of
// which chunks the file is made, and those come in segments from addresses that need no token. Bytes go to
// the disk chunk by chunk, so a segment is never in memory as a whole.
#include "downloads/xet_transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "downloads/xet.h"

namespace gezel::downloads::xet {
namespace {

bool is_hash(std::string_view text) {
  return text.size() == 64 &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// The body of one answer, where its status is the wanted one.
class Body final : public HttpSink {
 public:
  Body(int status, Bytes first, std::function<Result<>(std::string_view)> take)
      : wanted_(status), first_(first), take_(std::move(take)) {}
  bool on_head(const ResponseHead& head) override {
    head_ = head;
    const bool elsewhere = head.content_range && head.content_range->first.value_or(first_) != first_;
    accepted_ = head.status == wanted_ && !elsewhere;
    return accepted_;
  }
  Result<> on_body(std::string_view data) override { return take_(data); }
  bool accepted() const { return accepted_; }
  // Why the answer is of no use. `denied_is_transient`: a refusal means that an address or token is too old.
  Error refusal(bool denied_is_transient) const {
    Error out = decide(head_, 0).error;
    if (out.code.empty())
      out = {ErrorKind::unavailable, "wrong_range", "the storage did not send what it was asked for", {}};
    if (denied_is_transient && head_.status == 403) out.kind = ErrorKind::unavailable;
    return out;
  }

 private:
  int wanted_;
  Bytes first_;
  std::function<Result<>(std::string_view)> take_;
  ResponseHead head_;
  bool accepted_ = false;
};

Result<std::string> get_text(HttpClient& client, const Url& url, const std::string& bearer,
                             bool denied_is_transient, const Cancellation& cancellation) {
  std::string text;
  Body body(200, 0, [&](std::string_view data) -> Result<> {
    if (text.size() + data.size() > kMaxAnswerBytes)
      return fail(ErrorKind::too_large, "too_large",
                  fmt::format("the answer has more than {} bytes", kMaxAnswerBytes));
    text += data;
    return {};
  });
  HttpGet request;
  request.url = url;
  request.bearer = bearer;
  GEZEL_CHECK(client.get(request, body, cancellation));
  if (!body.accepted()) return std::unexpected(body.refusal(denied_is_transient));
  return text;
}

class Download {
 public:
  Download(HttpClient& client, Waiter& waiter, FileSink& sink, const Cancellation& cancellation, Url hub)
      : client_(client), waiter_(waiter), sink_(sink), cancellation_(cancellation), hub_(std::move(hub)) {}

  Result<> run(const StoredFile& file, const AccessToken& token) {
    GEZEL_TRY(const Url access_url, resolve_redirect(hub_, file.access_url));
    const bool trusted =
        !token.value.empty() && hub_.origin() == token.origin && access_url.origin() == token.origin;
    GEZEL_TRY(const std::string access_text,
              get_text(client_, access_url, trusted ? token.value : std::string(), false, cancellation_));
    GEZEL_TRY(const Access access, parse_access(access_text));
    GEZEL_TRY(const Url storage,
              resolve_redirect(hub_, fmt::format("{}/v1/reconstructions/{}", access.url, file.hash)));
    GEZEL_TRY(const std::string text, get_text(client_, storage, access.token, true, cancellation_));
    GEZEL_TRY(const Reconstruction plan, parse_reconstruction(text));
    GEZEL_CHECK(sink_.begin(plan.total));
    Bytes skip = plan.skip, end = 0;
    for (const Term& term : plan.terms) {
      const Bytes begin = end;
      end += term.bytes - skip;
      if (end > sink_.have()) GEZEL_CHECK(fetch(term, plan.segments[term.segment], skip, begin, end));
      skip = 0;
    }
    return {};
  }

 private:
  // Bytes [begin, end) of the file are those of the term behind its first `skip`.
  Result<> fetch(const Term& term, const Segment& segment, Bytes skip, Bytes begin, Bytes end) {
    for (const Millis delay : kSegmentDelays) {
      auto got = fetch_once(term, segment, skip, begin, end);
      if (got || got.error().kind != ErrorKind::unavailable) return got;
      if (!waiter_.wait(delay, cancellation_))
        return fail(ErrorKind::cancelled, "cancelled", "the download was cancelled");
    }
    return fetch_once(term, segment, skip, begin, end);
  }

  Result<> fetch_once(const Term& term, const Segment& segment, Bytes skip, Bytes begin, Bytes end) {
    GEZEL_TRY(const Url url, resolve_redirect(hub_, segment.url));
    ChunkReader chunks;
    Bytes unpacked = 0, received = 0;
    // What is there already, from the file's last attempt or this segment's, is not written again.
    const auto take = [&](std::uint32_t number, std::string_view data) -> Result<> {
      const std::uint32_t chunk = segment.chunks.begin + number;
      if (chunk < term.chunks.begin || chunk >= term.chunks.end) return {};
      // Position in the term of the chunk's first byte, and of the first that is still missing.
      const Bytes at = std::exchange(unpacked, unpacked + data.size());
      if (unpacked > term.bytes)
        return fail(ErrorKind::corrupt, "bad_chunk", "the storage sent more than belongs to the file");
      const Bytes missing = skip + (sink_.have() - begin);
      if (missing >= unpacked) return {};
      return sink_.write(data.substr(missing > at ? missing - at : 0));
    };
    Body body(206, segment.first, [&](std::string_view data) -> Result<> {
      received += data.size();
      if (received > segment.last - segment.first + 1)
        return fail(ErrorKind::corrupt, "bad_chunk", "the storage sent more than it was asked for");
      return chunks.feed(data, take);
    });
    HttpGet request;
    request.url = url;
    request.offset = segment.first;
    request.length = segment.last - segment.first + 1;
    GEZEL_CHECK(client_.get(request, body, cancellation_));
    if (!body.accepted()) return std::unexpected(body.refusal(true));
    if (received < segment.last - segment.first + 1)
      return fail(ErrorKind::unavailable, "dropped", "the storage dropped the connection in mid-transfer");
    if (!chunks.complete() || unpacked != term.bytes || sink_.have() < end)
      return fail(ErrorKind::corrupt, "bad_chunk",
                  fmt::format("the storage sent {} bytes for a part of {}", unpacked, term.bytes));
    return {};
  }

  HttpClient& client_;
  Waiter& waiter_;
  FileSink& sink_;
  const Cancellation& cancellation_;
  const Url hub_;
};

}  // namespace

Result<> fetch_stored(HttpClient& client, Waiter& waiter, const StoredFile& file, const AccessToken& token,
                      FileSink& sink, const Cancellation& cancellation) {
  if (!is_hash(file.hash))
    return fail(ErrorKind::corrupt, "bad_reconstruction", "the hub's name of the stored file is no hash");
  GEZEL_TRY(Url hub, parse_url(file.hub));
  return Download(client, waiter, sink, cancellation, std::move(hub)).run(file, token);
}

}  // namespace gezel::downloads::xet
