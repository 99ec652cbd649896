// engine/pool.h
//
// The engines of this service: one per model, made on demand. Several live side by side.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace gezel::engine {

class EnginePool {
 public:
  using Factory = std::function<std::unique_ptr<Engine>(const std::string& model_id)>;
  explicit EnginePool(Factory factory) : factory_(std::move(factory)) {}

  // The engine of a model; made when there is none, which starts nothing. Error `engine-evicted` once the
  // pool is closed.
  EngineResult<std::shared_ptr<Engine>> get(const std::string& model_id);
  // The engine of a model if there is one.
  std::shared_ptr<Engine> find(std::string_view model_id) const;

  struct Listed {
    std::string model_id;
    Status status;
  };
  // Every engine that is more than a name: loaded, loading, stopping, exhausted or with requests waiting. By
  // model id.
  std::vector<Listed> list() const;

  // For every engine, also those that are made later.
  void set_manners(Manners manners);

  // Unloads a model. Errors: `model_not_loaded` (404), `model_busy` (409) unless forced.
  asio::awaitable<EngineResult<StopOutcome>> stop(std::string model_id, bool force);
  // A model's files are other ones now: unloads it if nobody uses it, else as soon as nobody does.
  asio::awaitable<void> refresh(std::string model_id);
  // Unloads everything at once and refuses from then on.
  asio::awaitable<void> stop_all();

 private:
  Factory factory_;
  std::map<std::string, std::shared_ptr<Engine>, std::less<>> engines_;
  Manners manners_;
  bool closed_ = false;
};

}  // namespace gezel::engine
