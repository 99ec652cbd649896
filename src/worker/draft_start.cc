#include "worker/draft_start.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "base/log.h"

namespace gezel::worker {
namespace {

constexpr int kMostSizeDifference = 128;
constexpr llama::Token kFirstCompared = 5;  // special tokens before it have other names in other files

// Empty: it can draft.
std::string trouble_with(const llama::Model& model, const llama::Model& draft) {
  if (!draft.has_decoder()) return "it cannot generate text: it has no decoder";
  if (draft.recurrent()) return "its memory has recurrent layers and cannot be cut where a guess was wrong";
  return vocabulary_difference(model.vocab(), draft.vocab());
}

Result<> load_into(StartedDraft& out, const protocol::Load& load, const llama::Model& model,
                   llama::ContextOptions context, const std::function<bool(float)>& progress) {
  llama::ModelOptions options;
  options.path = load.draft.model_path;
  options.excluded_buffer_types = load.excluded_buffer_types;
  options.dry_run = load.dry_run;
  options.progress = progress;
  GEZEL_TRY(auto draft, llama::Model::load(options));
  if (auto trouble = trouble_with(model, *draft); !trouble.empty())
    return fail(ErrorKind::invalid, "unsupported-feature", std::move(trouble));
  if (context.cache_type == llama::CacheType::f16) context.flash_attention = draft->head_dimension() > 64;
  GEZEL_TRY(out.context, llama::Context::create(*draft, context));
  out.model = std::move(draft);
  return {};
}

}  // namespace

std::string vocabulary_difference(const llama::Vocab& model, const llama::Vocab& draft) {
  if (model.type() != draft.type()) return "its vocabulary is of another type";
  const auto compare = [](std::string_view what, auto ours, auto theirs) {
    return ours == theirs ? std::string()
                          : fmt::format("{} is {} there and {} in the model", what, theirs, ours);
  };
  for (auto difference : {compare("whether a text begins with a mark", model.adds_bos(), draft.adds_bos()),
                          compare("whether a text ends with a mark", model.adds_eos(), draft.adds_eos()),
                          compare("the beginning-of-text token", model.bos(), draft.bos()),
                          compare("the end-of-text token", model.eos(), draft.eos())})
    if (!difference.empty()) return difference;
  if (std::abs(model.size() - draft.size()) > kMostSizeDifference)
    return fmt::format("its vocabulary has {} tokens and the model's {}; at most {} may be missing",
                       draft.size(), model.size(), kMostSizeDifference);
  for (llama::Token token = kFirstCompared; token < std::min(model.size(), draft.size()); ++token) {
    if (model.piece(token, true) != draft.piece(token, true))
      return fmt::format("token {} is another text there", token);
  }
  return {};
}

Result<StartedDraft> start_draft(const protocol::Load& load, const llama::Model& model,
                                 const llama::ContextOptions& context,
                                 const std::function<bool(float)>& progress) {
  StartedDraft out;
  if (load.draft.model_path.empty()) return out;
  auto loaded = load_into(out, load, model, context, progress);
  if (loaded) return out;
  const auto name = std::filesystem::path(load.draft.model_path).filename().string();
  out = {};
  out.trouble = fmt::format("{} cannot draft for this model: {}", name, loaded.error().message);
  if (!load.draft.required) return out;
  return fail(ErrorKind::invalid, "unsupported-feature",
              fmt::format("{}. Name another draft model, or none.", out.trouble), "draft_model");
}

}  // namespace gezel::worker
