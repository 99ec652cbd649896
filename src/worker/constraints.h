// worker/constraints.h
//
// From what a request asks for to what steers its run: which grammar holds, when it begins, what closes
// reasoning. One for each loaded model, used by the intake thread.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "grammar/compile_cache.h"
#include "grammar/tool_grammar.h"
#include "llama/llama.h"
#include "prompt/request.h"
#include "prompt/tuning.h"
#include "worker/output_text.h"
#include "worker/run_steering.h"

namespace gezel::worker {

struct ConstraintsOptions {
  prompt::WritingStyle style;
  bool template_shows_tools = false;
  bool reasons = false;         // the template knows a marker of reasoning, or the style brings one
  std::string template_source;  // tells which marker closes a block, where the style does not
};

struct Steered {
  std::unique_ptr<scheduler::Steering> steering;
  std::vector<std::string> spellings;  // rows of the dialect catalogue that the tool grammar produces
  std::vector<llama::Token> banned;    // what would open a call although none is allowed
};

class Constraints {
 public:
  // Everything given must outlive this and the steerings it makes.
  Constraints(ConstraintsOptions options, const llama::Vocab& vocab, const OutputText& output, MaskThread& masks);

  // Errors: those of grammar::prepare() and compile() for an output format. What cannot be done about tools is a
  // warning: the request goes on without their grammar.
  Result<Steered> steer(const prompt::GenerateRequest& request, bool reasoning_open,
                        std::vector<std::string>& warnings);

  const prompt::WritingStyle& style() const { return options_.style; }
  bool reasons() const { return options_.reasons; }
  // A block of reasoning can be closed by force.
  bool closes_reasoning() const { return !closer_.empty(); }

 private:
  std::vector<llama::Token> openers() const;
  Result<std::shared_ptr<const grammar::Vocabulary>> vocabulary();
  Result<> steer_format(const prompt::GenerateRequest& request, SteeringPlan& plan);
  Result<> steer_tools(const prompt::GenerateRequest& request, SteeringPlan& plan, Steered& steered,
                       std::vector<std::string>& warnings);

  const ConstraintsOptions options_;
  const llama::Vocab& vocab_;
  const OutputText& output_;
  MaskThread& masks_;
  const std::string closer_;  // text; "": unknown
  std::shared_ptr<const grammar::Vocabulary> vocabulary_;  // made when first needed: it takes a while
  grammar::CompileCache compiled_;
};

}  // namespace gezel::worker
