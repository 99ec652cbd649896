// engine_llama/model_source.h
//
// What an engine asks the model store: where the model is and whether its files can be trusted. Blocking;
// called on pool threads. A test brings its own.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "engine/engine.h"
#include "models/store.h"

namespace gezel::engine_llama {

struct ModelFacts {
  models::InstalledModel model;
  models::Integrity integrity = models::Integrity::unchanged;
  FileStamp stamp;  // of the first weights file now
};

// Whether a model that was loaded from `a` would be the same loaded from `b`.
bool same_files(const ModelFacts& a, const ModelFacts& b);

class ModelSource {
 public:
  virtual ~ModelSource() = default;
  virtual Result<ModelFacts> find() = 0;
  // Hashes the files; `go_on` is asked now and then.
  virtual Result<> verify(const models::InstalledModel& model, const std::function<bool()>& go_on) = 0;
};

// Whether an error is about reading, now, by this process, and says nothing about the file's content: no
// permission, no descriptors left, a disk that fails. Such an error is never remembered against a model.
bool is_about_reading(const Error& error);
// What a request is told then.
engine::EngineError unreadable_model(Error error);

std::shared_ptr<ModelSource> make_model_source(models::ModelStore& store, std::string model_id);

}  // namespace gezel::engine_llama
