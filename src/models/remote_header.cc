#include "models/remote_header.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "downloads/url.h"
#include "models/mirrors.h"

namespace gezel::models {
namespace {

std::string host_of(const std::string& address) {
  const auto url = downloads::parse_source(address);
  if (!url) return "an address that cannot be asked";
  return url->host.empty() ? "this machine" : url->host;
}

std::string_view remedy_of(const Error& error) {
  if (error.kind == ErrorKind::unavailable || error.kind == ErrorKind::timeout)
    return "; check the connection and try again";
  if (error.kind == ErrorKind::not_found) return "; check the name";
  // What the reader says of a file has its own.
  if (error.code == "empty_file" || error.code == "header_too_large") return "; choose another file";
  return "";
}

// The same kind and code; for people the file and who was asked.
std::unexpected<Error> told(Error error, const PlannedFile& file, const std::string& address) {
  if (error.kind == ErrorKind::cancelled) return std::unexpected(std::move(error));
  error.message = fmt::format("the header of {} cannot be read from {}: {}{}", file.name, host_of(address),
                              error.message, remedy_of(error));
  error.param = "model";
  return std::unexpected(std::move(error));
}

Result<RemoteHeader> read_from(const std::string& address, const PlannedFile& file,
                               const std::string& unless_etag, bool public_only,
                               const downloads::Transfers& transfers, const downloads::AccessToken& token,
                               const downloads::Cancellation& cancellation) {
  gguf::Limits limits;
  limits.header_bytes = kMostHeaderBytes;
  std::optional<Result<gguf::Metadata>> read;
  const auto enough = [&](std::string_view beginning, Bytes file_bytes) {
    gguf::PrefixSource source(beginning, file_bytes);
    read = gguf::read_metadata(source, file.name, limits);
    return read->has_value() || !source.overran();
  };
  auto got = transfers.fetch_prefix({.url = address,
                                     .most_bytes = kMostHeaderBytes,
                                     .expected_bytes = file.size_bytes,
                                     .token = token,
                                     .unless_etag = unless_etag,
                                     .public_only = public_only},
                                    enough, cancellation);
  if (!got) return told(std::move(got).error(), file, address);
  RemoteHeader out;
  out.file_bytes = got->file_bytes;
  out.read_bytes = got->read_bytes;
  out.etag = std::move(got->etag);
  out.unchanged = got->unchanged;
  if (out.unchanged) return out;
  if (!read) return told({ErrorKind::corrupt, "model-invalid", "nothing came", {}}, file, address);
  if (!*read) return told(std::move(*read).error(), file, address);
  out.metadata = std::move(**read);
  out.metadata.values = {};
  out.metadata.chat_template.reset();
  out.metadata.tensors = {};
  return out;
}

// Of a model in parts every part counts.
Result<> check_parts(const gguf::Metadata& metadata, std::size_t files, const PlannedFile& first) {
  if (metadata.split_count == files && metadata.split_no == 0) return {};
  const std::string what =
      metadata.split_no != 0
          ? fmt::format("it is part {} of {}, not the first", metadata.split_no + 1, metadata.split_count)
          : fmt::format("it is one of {} parts, and {} {} named", metadata.split_count, files,
                        files == 1 ? "is" : "are");
  return fail(ErrorKind::invalid, "missing_parts",
              fmt::format("{} is not a whole model: {}; name the repository (hf:<org>/<repository>:<file>) "
                          "so that all of them count",
                          first.name, what),
              "model");
}

}  // namespace

std::vector<const PlannedFile*> weight_files(const InstallPlan& plan) {
  std::vector<const PlannedFile*> out;
  for (const auto& file : plan.files) {
    if (file.role == FileRole::weights) out.push_back(&file);
  }
  return out;
}

Result<RemoteHeader> read_remote_header(const InstallPlan& plan, const std::string& unless_etag,
                                        const downloads::Transfers& transfers,
                                        const downloads::AccessToken& token,
                                        const downloads::Cancellation& cancellation) {
  const auto files = weight_files(plan);
  if (files.empty())
    return fail(ErrorKind::invalid, "no_source_for_backend", fmt::format("\"{}\" has no model file", plan.id),
                "model");
  const PlannedFile& first = *files.front();
  std::optional<Error> refused;
  for (const auto& source : sources_of(plan, first)) {
    auto header =
        read_from(source.url, first, unless_etag, source.public_only, transfers, token, cancellation);
    if (header) {
      if (!header->unchanged) GEZEL_CHECK(check_parts(header->metadata, files.size(), first));
      return header;
    }
    if (header.error().kind == ErrorKind::cancelled) return header;
    // What the first host says is of more use than what its mirrors say.
    if (!refused) refused = std::move(header).error();
  }
  return std::unexpected(refused.value_or(
      Error{ErrorKind::invalid, "bad_url", fmt::format("{} has no address", first.name), "model"}));
}

}  // namespace gezel::models
