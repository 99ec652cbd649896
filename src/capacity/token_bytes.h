// capacity/token_bytes.h
//
// What an engine reads from memory to compute one token: all weights that take part, and the cache of what
// came before. Times the speed of decoding that is the memory bandwidth that a model uses. Pure.
#pragma once
#include "capacity/kv_size.h"
#include "gguf/metadata.h"

namespace gezel::capacity {

struct TokenBytes {
  Bytes weights = 0;
  Bytes cache = 0;  // 0 also where the geometry is not known
  Bytes total() const { return weights + cache; }
};

// Of one conversation `depth` tokens deep. Tables of which a token takes a row (embeddings beside an output
// matrix of their own) count with that row, experts with those that a token uses.
TokenBytes token_bytes(const gguf::Metadata& metadata, KvType type, Tokens depth);

}  // namespace gezel::capacity
