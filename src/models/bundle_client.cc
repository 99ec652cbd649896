#include "models/bundle_client.h"

#include <algorithm>

namespace gezel::models {

Result<> BundleClient::get(const downloads::HttpGet& request, downloads::HttpSink& sink,
                           const downloads::Cancellation& cancellation) {
  std::string path =
      downloads::file_path({.text = "file://" + request.url.text.substr(request.url.text.find('/', 8)),
                            .scheme = {},
                            .host = {},
                            .port = 0});
  path.erase(0, 1);
  const auto& files = bundle_.manifest.files;
  const auto file = std::ranges::find(files, path, &BundleFile::path);
  downloads::ResponseHead head;
  if (file == files.end()) {
    head.status = 404;
    sink.on_head(head);
    return {};
  }
  if (request.offset > 0 && request.offset >= file->size_bytes) {
    head.status = 416;
    head.content_range = downloads::ContentRange{.first = {}, .last = {}, .total = file->size_bytes};
    sink.on_head(head);
    return {};
  }
  head.status = request.offset > 0 ? 206 : 200;
  head.content_length = file->size_bytes - request.offset;
  if (request.offset > 0)
    head.content_range = downloads::ContentRange{
        .first = request.offset, .last = file->size_bytes - 1, .total = file->size_bytes};
  if (!sink.on_head(head)) return {};
  const std::function<Result<>(std::string_view)> pass = [&](std::string_view piece) -> Result<> {
    if (cancellation.cancelled()) return fail(ErrorKind::cancelled, "cancelled", "the import was cancelled");
    return sink.on_body(piece);
  };
  return zip::unpack(source_, bundle_.entries[static_cast<std::size_t>(file - files.begin())], pass,
                     request.offset);
}

}  // namespace gezel::models
