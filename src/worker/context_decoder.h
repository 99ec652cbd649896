// worker/context_decoder.h
//
// The context as the scheduler sees it.
#pragma once
#include "scheduler/decoder.h"

namespace gezel::worker {

class ContextDecoder : public scheduler::Decoder {
 public:
  explicit ContextDecoder(llama::Context& context) : context_(context) {}
  llama::DecodeCode decode(std::span<const llama::Row> rows) override { return context_.decode(rows); }
  std::span<const float> logits(int row) override { return context_.logits(row); }
  bool remove(int slot, std::int32_t from, std::int32_t to) override {
    return context_.remove(slot, from, to);
  }
  std::int32_t position_min(int slot) override { return context_.position_min(slot); }
  std::int32_t position_max(int slot) override { return context_.position_max(slot); }
  Bytes state_bytes(int slot, bool partial) override { return context_.state_bytes(slot, partial); }
  Bytes export_state(int slot, bool partial, std::span<std::byte> out) override {
    return context_.export_state(slot, partial, out);
  }
  Bytes import_state(int slot, bool partial, std::span<const std::byte> image) override {
    return context_.import_state(slot, partial, image);
  }

 private:
  llama::Context& context_;
};

}  // namespace gezel::worker
