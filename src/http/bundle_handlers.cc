// Handlers of model bundles (spec 60 section 18).
#include <fmt/format.h>

#include <charconv>

#include "api/field_reader.h"
#include "base/json.h"
#include "http/routes.h"
#include "http/wire.h"

namespace gezel::http {
namespace {

constexpr std::string_view kExport = "/export", kProgress = "/progress";
constexpr std::size_t kNamedArchive = 64 * 1024;  // of a body that only says where the archive is

asio::awaitable<void> reply_or_fail(Call& call, const api::ApiResult<json::value>& result) {
  if (result) {
    co_await call.reply(200, to_json(*result));
  } else {
    co_await call.fail(result.error());
  }
}

std::optional<std::string> tail_before(const Call& call, std::string_view end) {
  if (!call.path_tail.ends_with(end)) return std::nullopt;
  return call.path_tail.substr(0, call.path_tail.size() - end.size());
}

api::ApiError no_such_route(const Call& call) {
  return api::not_found("not_found",
                        fmt::format("there is no route {} for {}", split_target(call.request.target).path,
                                    call.request.method));
}

bool is_json(const Call& call) {
  const auto type = api::find_header(call.request.headers, "content-type").value_or("");
  return lower_case(type.substr(0, type.find(';'))) == "application/json";
}

// A body that came whole, as one that comes in pieces.
class WholeBody final : public api::BodyReader {
 public:
  explicit WholeBody(std::string body) : body_(std::move(body)) {}
  asio::awaitable<Result<std::string>> next() override { co_return std::exchange(body_, {}); }

 private:
  std::string body_;
};

// Nothing: it is larger than any that says where an archive is.
asio::awaitable<Result<std::optional<std::string>>> read_small(api::BodyReader& body) {
  std::string all;
  while (true) {
    auto piece = co_await body.next();
    if (!piece) co_return std::unexpected(std::move(piece).error());
    if (piece->empty()) co_return all;
    all += *piece;
    if (all.size() > kNamedArchive) co_return std::nullopt;
  }
}

// {path, importId?}: an archive of this machine, which stays where it is.
api::ApiResult<service::BundleScan> parse_named(const std::string& body) {
  const auto parsed = parse_json(body);
  if (!parsed) return std::unexpected(api::invalid_request(parsed.error().code, parsed.error().message));
  if (!parsed->is_object())
    return std::unexpected(
        api::invalid_request("invalid_body", "the body must be a JSON object with \"path\""));
  api::Problems problems;
  const api::FieldReader fields(parsed->get_object(), "", problems);
  service::BundleScan out;
  out.path = std::string(fields.string("path").value_or(""));
  out.import_id = fields.string("importId").value_or("");
  if (!out.path.is_absolute() || out.path.string().find('\0') != std::string::npos)
    fields.problem("path", "must be the absolute path of a .gezmodel file");
  if (!problems.empty()) return std::unexpected(problems.to_error());
  return out;
}

std::optional<Bytes> number_of(std::string_view text) {
  Bytes out = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

api::ApiResult<service::BundleScan> parse_upload(const Call& call) {
  service::BundleScan out;
  out.import_id = api::find_header(call.request.headers, "x-gezel-import-id").value_or("");
  for (const std::string_view name : {"x-gezel-upload-bytes", "content-length"}) {
    const auto text = api::find_header(call.request.headers, name);
    if (!text || out.upload_bytes) continue;
    out.upload_bytes = number_of(*text);
    if (!out.upload_bytes)
      return std::unexpected(
          api::invalid_request("invalid_request", fmt::format("{} must be a number of bytes", name)));
  }
  return out;
}

}  // namespace

asio::awaitable<void> export_bundle(Call& call) {
  const auto name = tail_before(call, kExport);
  const std::size_t slash = name ? name->find('/') : std::string::npos;
  if (slash == std::string::npos) {
    co_await call.fail(no_such_route(call));
    co_return;
  }
  const auto made = co_await call.services.inference.bundles().export_model(name->substr(0, slash),
                                                                            name->substr(slash + 1));
  if (!made) {
    co_await call.fail(made.error());
    co_return;
  }
  const auto archive = *made;
  if (!co_await call.response.start_stream(
          200, {{"content-type", std::string(service::kBundleMediaType)},
                {"content-disposition", fmt::format("attachment; filename=\"{}\"", archive->file_name())},
                {"x-gezel-model-bytes", std::to_string(archive->total_bytes())},
                {"cache-control", "no-store"}}))
    co_return;
  if (call.request.method != "HEAD") {
    while (true) {
      auto piece = co_await archive->next();
      // Without an end nobody takes it for a whole archive.
      if (!piece) co_return;
      if (piece->empty()) break;
      if (!co_await call.response.write(std::move(*piece))) co_return;
    }
  }
  co_await call.response.end_stream();
}

asio::awaitable<void> scan_bundle(Call& call) {
  WholeBody whole(std::move(call.request.body));
  api::BodyReader& body = call.request.pieces != nullptr ? *call.request.pieces : whole;
  api::ApiResult<service::BundleScan> request;
  if (is_json(call)) {
    const auto text = co_await read_small(body);
    if (!text) {
      co_await call.fail(api::from_error(text.error()));
      co_return;
    }
    if (!*text) {
      co_await call.fail(api::request_too_large(kNamedArchive));
      co_return;
    }
    request = parse_named(**text);
  } else {
    request = parse_upload(call);
    if (request) request->upload = &body;
  }
  if (!request) {
    co_await call.fail(request.error());
    co_return;
  }
  request->respond_async =
      lower_case(api::find_header(call.request.headers, "prefer").value_or("")) == "respond-async";
  const auto scanned = co_await call.services.inference.bundles().scan(std::move(*request));
  if (scanned) {
    co_await call.reply(scanned->complete ? 200 : 202, to_json(scanned->body));
  } else {
    co_await call.fail(scanned.error());
  }
}

asio::awaitable<void> bundle_progress(Call& call) {
  if (const auto id = tail_before(call, kProgress)) {
    co_await reply_or_fail(call, call.services.inference.bundles().progress(*id));
  } else {
    co_await call.fail(no_such_route(call));
  }
}

asio::awaitable<void> confirm_bundle(Call& call) {
  const auto body = parse_json(call.request.body);
  if (!body || !body->is_object()) {
    co_await call.fail(
        body ? api::invalid_request("invalid_body", "the body must be a JSON object with \"importId\"")
             : api::invalid_request(body.error().code, body.error().message));
    co_return;
  }
  api::Problems problems;
  const api::FieldReader fields(body->get_object(), "", problems);
  const std::string id(fields.string("importId").value_or(""));
  const bool replace = fields.boolean("replace").value_or(false);
  if (!problems.empty()) {
    co_await call.fail(problems.to_error());
  } else {
    co_await reply_or_fail(call, co_await call.services.inference.bundles().confirm(id, replace));
  }
}

asio::awaitable<void> discard_bundle(Call& call) {
  co_await reply_or_fail(call, co_await call.services.inference.bundles().discard(call.path_tail));
}

}  // namespace gezel::http
