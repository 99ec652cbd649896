#include "kvcache/keys.h"

#include <openssl/evp.h>

#include <algorithm>
#include <memory>

#include "kvcache/bytes_io.h"

namespace gezel::kvcache {

std::vector<Key> token_keys(std::span<const std::int32_t> tokens) {
  std::vector<Key> keys(tokens.size());
  std::transform(tokens.begin(), tokens.end(), keys.begin(), token_key);
  return keys;
}

Key media_key(const Digest& content, std::string_view preprocessing) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  out.write(content);
  out.append(std::as_bytes(std::span(preprocessing)));
  const Digest digest = sha256(bytes);
  Key key = 0;
  std::memcpy(&key, digest.data(), sizeof(key));
  return key | Key{1} << 63;
}

std::uint64_t session_tag(std::string_view session) {
  const Digest digest = sha256(std::as_bytes(std::span(session)));
  std::uint64_t tag = 0;
  std::memcpy(&tag, digest.data(), sizeof(tag));
  return tag;
}

std::size_t outside_media(std::span<const Key> keys, std::size_t count) {
  while (count > 0 && count < keys.size() && is_media(keys[count]) && keys[count] == keys[count - 1]) --count;
  return count;
}

std::size_t common_prefix(std::span<const Key> a, std::span<const Key> b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

Digest sha256(std::span<const std::byte> bytes) {
  Digest digest{};
  EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()), nullptr,
             EVP_sha256(), nullptr);
  return digest;
}

std::string hex(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

Digest domain_of(std::string_view adapters, std::string_view control_vectors, std::string_view tenant_salt,
                 std::string_view projector) {
  std::vector<std::byte> bytes;
  ByteWriter out(bytes);
  for (const std::string_view part : {adapters, control_vectors, tenant_salt, projector}) {
    out.write(static_cast<std::uint64_t>(part.size()));
    out.append(std::as_bytes(std::span(part)));
  }
  return sha256(bytes);
}

std::vector<Digest> prefix_hashes(const Digest& domain, std::span<const Key> keys,
                                  std::span<const std::uint32_t> lengths) {
  using Context = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;
  const Context all(EVP_MD_CTX_new(), EVP_MD_CTX_free), part(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  EVP_DigestInit_ex(all.get(), EVP_sha256(), nullptr);
  EVP_DigestUpdate(all.get(), domain.data(), domain.size());
  std::vector<Digest> hashes;
  std::size_t at = 0;
  std::vector<std::byte> bytes;
  for (const std::uint32_t length : lengths) {
    bytes.clear();
    ByteWriter out(bytes);
    for (; at < length; ++at) {
      if (is_media(keys[at])) {
        out.write(keys[at]);
      } else {
        out.write(static_cast<std::uint32_t>(keys[at]));
      }
    }
    EVP_DigestUpdate(all.get(), bytes.data(), bytes.size());
    EVP_MD_CTX_copy_ex(part.get(), all.get());
    Digest& hash = hashes.emplace_back();
    EVP_DigestFinal_ex(part.get(), reinterpret_cast<unsigned char*>(hash.data()), nullptr);
  }
  return hashes;
}

Digest prefix_hash(const Digest& domain, std::span<const Key> keys) {
  const auto length = static_cast<std::uint32_t>(keys.size());
  return prefix_hashes(domain, keys, std::span(&length, 1)).front();
}

}  // namespace gezel::kvcache
