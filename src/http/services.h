// http/services.h
//
// What the routes work with, handed in by the composition root.
#pragma once
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/thread_pool.hpp>
#include <filesystem>
#include <functional>

#include "base/clock.h"
#include "base/ids.h"
#include "http/heap_relief.h"
#include "service/credentials.h"
#include "service/inference_service.h"

namespace gezel::http {

namespace asio = boost::asio;

// Waiting times of a chat answer (spec 10 section 6.6); 0 turns one off.
struct ChatTimings {
  Millis commit{10'000};          // without news for this long a stream's 200 line is sent
  Millis keepalive{15'000};       // silence on the wire until a comment is sent
  Millis turn_limit{28'800'000};  // a whole turn on this machine
};

struct Services {
  service::InferenceService& inference;
  service::Credentials& credentials;
  const Clock& clock;
  Entropy& entropy;
  asio::any_io_executor loop;
  asio::thread_pool& pool;  // for work that would hold up the loop
  std::function<void()> request_stop;
  bool no_auth = false;
  ChatTimings chat;
  HeapRelief* heap = nullptr;  // told of large bodies when they are gone
};

}  // namespace gezel::http
