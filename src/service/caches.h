// service/caches.h
//
// What comes of a question about the prompts that a model keeps (api/cache_json.h).
#pragma once
#include <string>

#include "engine/cache.h"

namespace gezel::service {

struct CacheAnswer {
  enum class Outcome {
    done,
    accepted,    // warm: it happens in the background
    not_loaded,  // warm: the model is not loaded and was not to be
  };
  std::string model;  // its qualified id
  Outcome outcome = Outcome::done;
  engine::CacheReply reply;  // done
};

}  // namespace gezel::service
