#include "downloads/local_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

namespace gezel::downloads {
namespace {

constexpr std::size_t kReadBytes = 1 << 20;

}  // namespace

Result<> LocalFiles::get(const HttpGet& request, HttpSink& sink, const Cancellation& cancellation) {
  if (request.url.scheme != "file") return network_.get(request, sink, cancellation);
  const std::filesystem::path path = file_path(request.url);
  ResponseHead head;
  std::error_code error;
  const auto size =
      std::filesystem::is_regular_file(path, error) ? std::filesystem::file_size(path, error) : 0;
  std::ifstream file;
  if (!error && size > 0) file.open(path, std::ios::binary);
  if (!file.is_open()) {
    head.status = 404;
    sink.on_head(head);
    return {};
  }
  if (request.offset >= size) {
    head.status = 416;
    head.content_range = ContentRange{{}, {}, size};
    sink.on_head(head);
    return {};
  }
  const Bytes rest = size - request.offset;
  Bytes left = request.length > 0 ? std::min<Bytes>(request.length, rest) : rest;
  const bool part = request.offset > 0 || left < rest;
  head.status = part ? 206 : 200;
  head.content_length = left;
  if (part) head.content_range = ContentRange{request.offset, request.offset + left - 1, size};
  if (!sink.on_head(head)) return {};
  file.seekg(static_cast<std::streamoff>(request.offset));
  std::vector<char> buffer(kReadBytes);
  while (!cancellation.cancelled()) {
    file.read(buffer.data(), static_cast<std::streamsize>(std::min<Bytes>(buffer.size(), left)));
    const auto got = static_cast<std::size_t>(file.gcount());
    if (got > 0) GEZEL_CHECK(sink.on_body({buffer.data(), got}));
    left -= got;
    if (file.eof() || left == 0) return {};
    if (!file)
      return fail(ErrorKind::unavailable, "dropped",
                  fmt::format("{} cannot be read any further", path.string()));
  }
  return fail(ErrorKind::cancelled, "cancelled", "the download was cancelled");
}

}  // namespace gezel::downloads
