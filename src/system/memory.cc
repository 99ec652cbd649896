#include "system/memory.h"

#include <algorithm>

namespace gezel::system {
namespace {

constexpr Bytes kCapNumerator = 9, kCapDenominator = 10;

}  // namespace

Bytes available_memory(Bytes value, Bytes total, Bytes truly_free) {
  const auto cap =
      static_cast<Bytes>(static_cast<unsigned __int128>(total) * kCapNumerator / kCapDenominator);
  return std::max(std::min(value, cap), truly_free);
}

}  // namespace gezel::system
