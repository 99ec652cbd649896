// sampling/random.h
//
// A small random generator with a fixed definition: the same seed gives the same tokens with every compiler
// and library (the standard's distributions do not promise that).
//
// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
#pragma once
#include <cstdint>

namespace gezel::sampling {

// Scrambles 64 bits; a bijection.
constexpr std::uint64_t scramble(std::uint64_t bits) {
  bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
  return bits ^ bits >> 31;
}

// In [0, 1), with 53 random bits.
constexpr double unit_interval(std::uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

class Random {
 public:
  // Seeds that are neighbours give unrelated sequences.
  explicit constexpr Random(std::uint32_t seed) : state_(scramble(seed + 0x9e3779b97f4a7c15u)) {}
  constexpr std::uint64_t next() { return scramble(state_ += 0x9e3779b97f4a7c15u); }

 private:
  std::uint64_t state_;
};

}  // namespace gezel::sampling
