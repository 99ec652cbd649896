// kvcache/test_image.h
//
// For tests: images as the library would write them, by a writer that knows nothing of the codec. Every byte
// of a row says which token, layer and array it belongs to.
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

#include "kvcache/image.h"

namespace gezel::kvcache {

struct TestImage {
  std::uint32_t streams = 2;
  std::int32_t sequence = 1;
  std::uint32_t layers = 2;
  std::uint64_t key_bytes = 6;
  std::uint32_t value_elements = 3, value_element_bytes = 2;  // 0 elements: no V
  bool transposed = false, extension = false;
  std::vector<std::int32_t> positions;         // of the cells, in cell order
  std::vector<std::int32_t> window_positions;  // empty: no window section
  Buffer state;

  Buffer bytes() const {
    Buffer out;
    put<std::uint32_t>(out, 0xaf143cd8);
    put(out, sequence);
    section(out, positions, 0);
    if (!window_positions.empty()) section(out, window_positions, 100);
    out.insert(out.end(), state.begin(), state.end());
    return out;
  }

  // The state of recurrent layers at a position.
  static Buffer recurrent(std::int32_t position, std::uint64_t row_bytes) {
    Buffer out;
    put<std::uint32_t>(out, 1);
    put(out, position);
    put<std::uint32_t>(out, 0);
    put<std::uint32_t>(out, 0);
    put<std::uint32_t>(out, 2);
    for (int tensor = 0; tensor < 4; ++tensor) {
      put<std::int32_t>(out, 0);
      put(out, row_bytes);
      out.insert(out.end(), row_bytes, std::byte(tensor));
    }
    return out;
  }

  static std::byte value(std::int32_t position, std::uint64_t array, std::uint64_t at) {
    return static_cast<std::byte>(static_cast<std::uint64_t>(position) * 31 + array * 7 + at);
  }

 private:
  template <class T>
  static void put(Buffer& out, T value) {
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    out.insert(out.end(), from, from + sizeof(T));
  }
  void section(Buffer& out, const std::vector<std::int32_t>& cells, std::uint64_t salt) const {
    put(out, streams);
    for (std::uint32_t stream = 0; stream < streams; ++stream) {
      if (stream != static_cast<std::uint32_t>(sequence) || cells.empty()) {
        put<std::uint32_t>(out, 0);
        continue;
      }
      put(out, static_cast<std::uint32_t>(cells.size()));
      for (const std::int32_t position : cells) {
        put(out, position);
        put<std::uint32_t>(out, 1);
        if (extension) {
          for (const std::int32_t part : {position + 1, position + 2, position + 3}) put(out, part);
        }
        put(out, sequence);
      }
      put<std::uint32_t>(out, transposed ? 1 : 0);
      put(out, layers);
      for (std::uint32_t layer = 0; layer < layers; ++layer) {
        put<std::int32_t>(out, 1);
        put(out, key_bytes);
        for (const std::int32_t position : cells) {
          for (std::uint64_t at = 0; at < key_bytes; ++at) out.push_back(value(position, salt + layer, at));
        }
      }
      for (std::uint32_t layer = 0; value_elements > 0 && layer < layers; ++layer) {
        put<std::int32_t>(out, 1);
        const std::uint64_t array = salt + 50 + layer;
        if (!transposed) {
          put<std::uint64_t>(out, std::uint64_t{value_elements} * value_element_bytes);
          for (const std::int32_t position : cells) {
            for (std::uint64_t at = 0; at < value_elements * value_element_bytes; ++at)
              out.push_back(value(position, array, at));
          }
          continue;
        }
        put(out, value_element_bytes);
        put(out, value_elements);
        for (std::uint64_t element = 0; element < value_elements; ++element) {
          for (const std::int32_t position : cells) {
            for (std::uint64_t at = 0; at < value_element_bytes; ++at)
              out.push_back(value(position, array, element * value_element_bytes + at));
          }
        }
      }
    }
  }
};

inline std::vector<std::int32_t> positions_to(std::int32_t end, std::int32_t from = 0) {
  std::vector<std::int32_t> positions;
  for (std::int32_t i = from; i < end; ++i) positions.push_back(i);
  return positions;
}

}  // namespace gezel::kvcache
