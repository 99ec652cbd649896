// scheduler/decoder.h
//
// What the scheduler and its prefix cache need of a context. `llama::Context` is the real one; the meaning of
// every call is its.
#pragma once
#include <cstdint>
#include <span>

#include "llama/llama.h"

namespace gezel::scheduler {

class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual llama::DecodeCode decode(std::span<const llama::Row> rows) = 0;
  virtual std::span<const float> logits(int row) = 0;
  virtual bool remove(int slot, std::int32_t from, std::int32_t to) = 0;
  virtual std::int32_t position_min(int slot) = 0;
  virtual std::int32_t position_max(int slot) = 0;
  virtual Bytes state_bytes(int slot, bool partial) = 0;
  virtual Bytes export_state(int slot, bool partial, std::span<std::byte> out) = 0;
  virtual Bytes import_state(int slot, bool partial, std::span<const std::byte> image) = 0;
};

}  // namespace gezel::scheduler
