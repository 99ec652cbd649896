#include "speculation/drafter.h"

#include <algorithm>

namespace gezel::speculation {
namespace {

constexpr std::size_t kLongMatch = 8;
constexpr std::size_t kWorthChecking = 2;  // a source that has less is passed over

}  // namespace

Draft Drafter::next(const Question& question, const StepRatio& ratio, const SharedNgrams* shared,
                    std::uint64_t seed) {
  const std::size_t most = std::min(question.most, kMaxDraft);
  if (most == 0) return {};
  // The depth is chosen before the source is searched: while a source rests it costs nothing.
  const auto use = [&](Source source, std::span<const Token> tokens) -> Draft {
    if (tokens.size() < std::min(kWorthChecking, most)) return {};
    const std::size_t depth = depths_[static_cast<std::size_t>(source)].choose(
        std::min(most, tokens.size()), question.others, ratio, {.replays = question.replays});
    return {source, {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(depth)}};
  };
  if (Draft draft = use(Source::tree, question.continuation); !draft.tokens.empty()) return draft;
  const Proposal proposal = lookup_.propose(question.tokens, most);
  const Source length = proposal.match >= kLongMatch ? Source::long_lookup : Source::short_lookup;
  if (Draft draft = use(length, proposal.tokens); !draft.tokens.empty()) return draft;
  if (shared != nullptr && wants(Source::shared))
    return use(Source::shared, shared->propose(seed, question.tokens, most));
  return {};
}

std::size_t Drafter::depth_for_model(const Question& question, const StepRatio& ratio, double per_token) {
  return depths_[static_cast<std::size_t>(Source::model)].choose(
      std::min(question.most, kMaxDraft), question.others, ratio,
      {.per_token = per_token, .replays = question.replays});
}

void Drafter::checked(const Draft& draft, std::size_t accepted, double ratio) {
  const auto source = static_cast<std::size_t>(draft.source);
  depths_[source].observe(draft.tokens.size(), accepted, ratio);
  counts_.drafted += draft.tokens.size();
  counts_.accepted += accepted;
  counts_.drafted_by[source] += draft.tokens.size();
  counts_.accepted_by[source] += accepted;
}

void Drafter::passed(std::size_t tokens) {
  for (Depth& depth : depths_) depth.passed(tokens);
}

}  // namespace gezel::speculation
