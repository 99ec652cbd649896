// base/ids.h
//
// Random identifiers and secrets. Randomness is injected where a test must know it.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace gezel {

class Entropy {
 public:
  virtual ~Entropy() = default;
  virtual void fill(unsigned char* out, std::size_t size) = 0;
};

// The operating system's generator.
class SystemEntropy final : public Entropy {
 public:
  void fill(unsigned char* out, std::size_t size) override;
};

std::string new_uuid(Entropy& entropy);  // version 4, lower case with dashes
std::string random_token(Entropy& entropy,
                         std::size_t size);  // base64url without padding of `size` random bytes

// Lower-case hexadecimal SHA-256.
std::string sha256_hex(std::string_view bytes);
// Same answer time for every input of equal length.
bool equal_constant_time(std::string_view a, std::string_view b);

}  // namespace gezel
