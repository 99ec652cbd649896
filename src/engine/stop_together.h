// engine/stop_together.h
//
// Unloading several engines at once: one that takes long does not keep the others.
#pragma once
#include <memory>
#include <vector>

#include "engine/engine.h"

namespace gezel::engine {

// Returns when all have ended. True: one of them was running.
boost::asio::awaitable<bool> stop_together(std::vector<std::shared_ptr<Engine>> engines);

}  // namespace gezel::engine
