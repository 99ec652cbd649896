// worker/intake.h
//
// From a request to a run: render the template, tokenize once, check the window, build the sampler. On a
// thread of its own, so that a long prompt being tokenized delays neither the decode thread nor a cancel.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <variant>

#include "llama/llama.h"
#include "protocol/messages.h"
#include "sampling/sampler.h"
#include "scheduler/scheduler.h"
#include "template/chat_template.h"
#include "worker/outbox.h"

namespace gezel::worker {

// A request that is ready to run.
struct Prepared {
  scheduler::RunSpec run;
  bool reasoning_open = false;
  std::vector<std::string> warnings;
};

struct IntakeOptions {
  std::int64_t context_per_slot = 0;
  prompt::SamplingOptions recommended;  // of the model file
  std::shared_ptr<const sampling::VocabView> vocab_view;
};

class Intake {
 public:
  // `deliver` is called on the intake thread for every request that did not fail; failures go to the outbox
  // directly.
  Intake(IntakeOptions options, const llama::Vocab& vocab, chat::ChatTemplate& chat_template, Outbox& outbox,
         std::function<void(Prepared)> deliver);
  ~Intake();

  void submit(protocol::Generate request);
  void submit(protocol::TokensQuery query);
  // True: the request was still here and will never be delivered; its terminal frame is sent by the intake.
  // False: it is past (or unknown), and the scheduler must be told.
  bool cancel(std::uint64_t id);

 private:
  using Item = std::variant<protocol::Generate, protocol::TokensQuery>;
  void run();
  void prepare(protocol::Generate request);
  void answer(protocol::TokensQuery query);
  std::vector<llama::Token> tokenize(const std::string& text) const;
  std::int64_t fewest_tokens(std::size_t bytes) const;

  const IntakeOptions options_;
  const llama::Vocab& vocab_;
  chat::ChatTemplate& template_;
  Outbox& outbox_;
  const std::function<void(Prepared)> deliver_;
  const std::size_t longest_piece_;  // bytes
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Item> queue_;
  std::unordered_map<std::uint64_t, bool> here_;  // id -> cancelled
  bool stopping_ = false;
  std::thread thread_;
};

// The general.sampling.* values of a model file.
prompt::SamplingOptions recommended_sampling(const llama::Model& model);

}  // namespace gezel::worker
