#include "downloads/xet.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/json.h"
#include "downloads/lz4.h"

namespace gezel::downloads::xet {
namespace {

enum class Scheme : unsigned char { none = 0, lz4 = 1, grouped_lz4 = 2 };

std::unexpected<Error> bad(std::string_view why) {
  return fail(ErrorKind::corrupt, "bad_reconstruction",
              fmt::format("the hub's description of a stored file cannot be used: {}", why));
}

std::unexpected<Error> bad_chunk(std::string_view why) {
  return fail(ErrorKind::corrupt, "bad_chunk", fmt::format("a part of the file cannot be unpacked: {}", why));
}

std::uint32_t u24(std::string_view data) {
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(data[i]));
  };
  return byte(0) | byte(1) << 8 | byte(2) << 16;
}

// A whole number from 0 to `most`, or nothing.
std::optional<std::uint64_t> number_at(const json::object& object, std::string_view key, std::uint64_t most) {
  const auto value = int_or(object, key, -1);
  if (value < 0 || static_cast<std::uint64_t>(value) > most) return std::nullopt;
  return static_cast<std::uint64_t>(value);
}

std::optional<Chunks> chunks_at(const json::object& object, std::string_view key) {
  const auto* range = object_at(object, key);
  if (range == nullptr) return std::nullopt;
  const auto begin = number_at(*range, "start", UINT32_MAX), end = number_at(*range, "end", UINT32_MAX);
  if (!begin || !end || *begin >= *end) return std::nullopt;
  return Chunks{static_cast<std::uint32_t>(*begin), static_cast<std::uint32_t>(*end)};
}

constexpr Bytes kMostBytes = Bytes{2} << 40;

std::optional<Segment> read_segment(const json::object& object) {
  const auto chunks = chunks_at(object, "range");
  const auto* bytes = object_at(object, "url_range");
  Segment out;
  out.url = string_or(object, "url");
  if (!chunks || bytes == nullptr || out.url.empty()) return std::nullopt;
  const auto first = number_at(*bytes, "start", kMostBytes), last = number_at(*bytes, "end", kMostBytes);
  if (!first || !last || *first > *last) return std::nullopt;
  out.chunks = *chunks;
  out.first = *first;
  out.last = *last;
  return out;
}

// The segments of each stored object, by their number.
using Stored = std::map<std::string, std::vector<std::size_t>, std::less<>>;

std::optional<Stored> read_segments(const json::object& members, std::vector<Segment>& segments) {
  Stored out;
  const auto* info = object_at(members, "fetch_info");
  if (info == nullptr) return std::nullopt;
  for (const auto& [hash, list] : *info) {
    if (!list.is_array() || list.get_array().size() > kMaxSegments) return std::nullopt;
    for (const auto& each : list.get_array()) {
      auto segment = each.is_object() ? read_segment(each.get_object()) : std::nullopt;
      if (!segment) return std::nullopt;
      out[hash].push_back(segments.size());
      segments.push_back(std::move(*segment));
    }
  }
  return out;
}

}  // namespace

Result<Access> parse_access(std::string_view text) {
  const auto parsed = parse_json(text);
  Access out;
  if (parsed && parsed->is_object()) {
    out.url = string_or(parsed->get_object(), "casUrl");
    out.token = string_or(parsed->get_object(), "accessToken");
  }
  while (out.url.ends_with('/')) out.url.pop_back();
  if (out.url.empty() || out.token.empty()) return bad("it does not say where the storage is");
  return out;
}

Result<Reconstruction> parse_reconstruction(std::string_view text) {
  const auto parsed = parse_json(text);
  if (!parsed || !parsed->is_object()) return bad("it is no JSON object");
  const auto& members = parsed->get_object();
  const auto* terms = array_at(members, "terms");
  Reconstruction out;
  const auto stored = read_segments(members, out.segments);
  const auto skip = number_at(members, "offset_into_first_range", kMostBytes);
  if (terms == nullptr || !stored || !skip || terms->empty() || terms->size() > kMaxTerms)
    return bad("a member is missing or odd");
  out.skip = *skip;
  for (const auto& each : *terms) {
    const auto* object = each.if_object();
    if (object == nullptr) return bad("a term is odd");
    const auto chunks = chunks_at(*object, "range");
    const auto bytes = number_at(*object, "unpacked_length", kMostBytes);
    const auto known = stored->find(string_or(*object, "hash"));
    if (!chunks || !bytes || *bytes == 0 || known == stored->end()) return bad("a term is odd");
    const auto covers = [&](std::size_t number) {
      const Chunks& has = out.segments[number].chunks;
      return has.begin <= chunks->begin && chunks->end <= has.end;
    };
    const auto segment = std::ranges::find_if(known->second, covers);
    if (segment == known->second.end()) return bad("a term cannot be fetched");
    out.total += *bytes;
    if (out.total > kMostBytes) return bad("the file is larger than any that is downloaded");
    out.terms.push_back({*chunks, *bytes, *segment});
  }
  if (out.skip >= out.terms.front().bytes) return bad("the file begins after its first term");
  out.total -= out.skip;
  return out;
}

Result<std::size_t> ChunkReader::packed_size(std::string_view data) {
  if (data.size() < kChunkHeader) return 0;
  if (data[0] != 0) return bad_chunk(fmt::format("version {} is not known", static_cast<int>(data[0])));
  return kChunkHeader + u24(data.substr(1));
}

Result<std::string> ChunkReader::unpack(std::string_view chunk) {
  const auto scheme = static_cast<Scheme>(static_cast<unsigned char>(chunk[4]));
  const std::size_t size = u24(chunk.substr(5));
  const std::string_view packed = chunk.substr(kChunkHeader);
  if (scheme == Scheme::none) {
    if (packed.size() != size) return bad_chunk("its sizes differ");
    return std::string(packed);
  }
  if (scheme != Scheme::lz4 && scheme != Scheme::grouped_lz4)
    return bad_chunk(fmt::format("scheme {} is not known", static_cast<int>(scheme)));
  GEZEL_TRY(std::string bytes, read_lz4_frame(packed, size));
  if (scheme == Scheme::lz4) return bytes;
  // Every fourth byte together, from the first, the second, the third and the fourth on.
  std::string out(size, '\0');
  std::size_t from = 0;
  for (std::size_t plane = 0; plane < 4; ++plane) {
    for (std::size_t to = plane; to < size; to += 4) out[to] = bytes[from++];
  }
  return out;
}

}  // namespace gezel::downloads::xet
