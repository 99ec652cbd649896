#include "engine_llama/model_source.h"

#include <fmt/format.h>

namespace gezel::engine_llama {
namespace {

class StoredModel final : public ModelSource {
 public:
  StoredModel(models::ModelStore& store, std::string id) : store_(store), id_(std::move(id)) {}

  Result<ModelFacts> find() override {
    GEZEL_TRY(auto model, store_.find(id_));
    GEZEL_TRY(auto stamp, stamp_file(model.weights));
    const auto integrity = store_.check(model);
    return ModelFacts{std::move(model), integrity, stamp};
  }
  Result<> verify(const models::InstalledModel& model, const std::function<bool()>& go_on) override {
    return store_.verify(model, [&go_on](Bytes) { return go_on(); });
  }

 private:
  models::ModelStore& store_;
  std::string id_;
};

}  // namespace

bool same_files(const ModelFacts& a, const ModelFacts& b) {
  return a.stamp == b.stamp && a.model.weights == b.model.weights && a.model.files == b.model.files &&
         a.model.size_bytes == b.model.size_bytes;
}

bool is_about_reading(const Error& error) {
  return error.kind == ErrorKind::io || error.kind == ErrorKind::denied;
}

engine::EngineError unreadable_model(Error error) {
  return engine::make_error(
      "model-unreadable",
      fmt::format("The model's files could not be read: {}. Nothing is wrong with the model itself as far as "
                  "is known; repeat the request, or check permissions, the disk and the limit on open files.",
                  error.message),
      std::move(error.param));
}

std::shared_ptr<ModelSource> make_model_source(models::ModelStore& store, std::string model_id) {
  constexpr std::string_view kFamily = "llama-cpp:";
  if (model_id.starts_with(kFamily)) model_id.erase(0, kFamily.size());
  return std::make_shared<StoredModel>(store, std::move(model_id));
}

}  // namespace gezel::engine_llama
