#include "downloads/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

namespace gezel::downloads {

Sha256::Sha256() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
  reset();
}

void Sha256::reset() {
  EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
}

void Sha256::update(std::string_view data) {
  EVP_DigestUpdate(context_.get(), data.data(), data.size());
}

std::string Sha256::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_DigestFinal_ex(context_.get(), digest, &size);
  std::string out;
  for (unsigned i = 0; i < size; ++i) out += fmt::format("{:02x}", digest[i]);
  reset();
  return out;
}

}  // namespace gezel::downloads
