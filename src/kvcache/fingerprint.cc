#include "kvcache/fingerprint.h"

#include "kvcache/bytes_io.h"

namespace gezel::kvcache {

// Every field with its length, so that no two sets of fields write the same bytes.
Digest Fingerprint::digest() const {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  const auto text = [&](std::string_view value) {
    out.write(static_cast<std::uint64_t>(value.size()));
    out.append(std::as_bytes(std::span(value)));
  };
  out.write(kCodecVersion);
  out.write(static_cast<std::uint64_t>(shards.size()));
  for (const Shard& shard : shards) {
    out.write(shard.size);
    text(shard.digest);
  }
  for (const std::string* field : {&type_k, &type_v, &rope, &adapters, &projector, &backend, &library})
    text(*field);
  out.write(full_window_cache);
  out.write(rotation_disabled);
  out.write(state_version);
  out.write(mode);
  out.write(opaque.has_value());
  if (opaque) {
    out.write(static_cast<std::int64_t>(opaque->slots));
    out.write(opaque->flash_attention);
  }
  return sha256(bytes);
}

std::string folder_name(const Digest& fingerprint) {
  return hex(fingerprint).substr(0, 24);
}

}  // namespace gezel::kvcache
