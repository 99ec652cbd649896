// engine_llama/embedded_engine.h
//
// The embedded family: one gezel-engine worker per model over an inherited socket (spec 30 sections 2, 3 and 13). Spawns it
// on demand, plans slots and context from the file's metadata, speaks the frame protocol, freezes and stops it when idle,
// and turns its end into a classified error for every request it carried.
#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/ids.h"
#include "engine/engine.h"
#include "models/store.h"

namespace gezel::engine_llama {

struct EmbeddedOptions {
  std::filesystem::path home;            // for caches, logs, incidents, pid files
  std::filesystem::path engine_program;  // absolute
  std::optional<int> slots;              // the user's wish; unset: planned
  std::optional<std::int64_t> context;
  std::optional<bool> flash_attention;
  std::optional<int> threads;
  Millis idle_timeout{300'000};          // 0: never stopped for idleness
  Millis startup_timeout{180'000};
  bool sandbox = true;
};

// `store` is asked for the model at each start, so that a changed or missing file is noticed; `pool` runs blocking work.
std::unique_ptr<engine::Engine> make_embedded_engine(boost::asio::any_io_executor loop, boost::asio::any_io_executor pool,
                                                     std::string model_id, const models::ModelStore& store,
                                                     const Clock& clock, EmbeddedOptions options);

}  // namespace gezel::engine_llama
