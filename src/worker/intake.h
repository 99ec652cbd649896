// worker/intake.h
//
// From a request to a run: render the template, tokenize once, check the window, build the sampler. On a
// thread of its own, so that a long prompt being tokenized delays neither the decode thread nor a cancel.
//
// A cancelled request is answered at once and its work is thrown away when it ends. It is not cut short: the
// library has no way to stop, and a text tokenized in pieces has other tokens wherever some would have
// reached across a cut.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_set>
#include <variant>

#include "llama/llama.h"
#include "protocol/messages.h"
#include "sampling/sampler.h"
#include "scheduler/scheduler.h"
#include "template/chat_template.h"
#include "worker/constraints.h"
#include "worker/guarded_thread.h"
#include "worker/intake_guard.h"
#include "worker/outbox.h"
#include "worker/token_memory.h"

namespace gezel::worker {

// A request that is ready to run.
struct Prepared {
  scheduler::RunSpec run;
  bool reasoning_open = false;
  int replayed = 0, replay_missed = 0;  // see chat::Rendered
  std::vector<std::string> warnings;
  // How the answer will be written; see protocol::Started.
  bool splits_reasoning = false;
  std::vector<std::string> call_spellings;
  std::string tuning_profile;
  std::vector<int> span_messages;  // of each of run.spans, its message's number
  bool prefix_snippets = false;
};

struct IntakeOptions {
  std::int64_t context_per_slot = 0;
  prompt::Tuning tuning;
  std::vector<prompt::NamedTuning> named_tunings;
  std::string tuning_profile;  // for requests that name none
  std::shared_ptr<const sampling::VocabView> vocab_view;
};

class Intake {
 public:
  // `deliver` is called on the intake thread for every request that did not fail; failures go to the outbox
  // directly. `guard` is told what is being worked on.
  Intake(IntakeOptions options, const llama::Vocab& vocab, chat::ChatTemplate& chat_template,
         const TokenMemory& memory, Constraints& constraints, IntakeGuard& guard, Outbox& outbox,
         std::function<void(Prepared)> deliver);
  // Where questions about the cache go whose prompt was made; before the first of them.
  void on_cache_query(std::function<void(protocol::CacheQuery, Prepared)> deliver);
  ~Intake();

  void submit(protocol::Generate request);
  void submit(protocol::TokensQuery query);
  void submit(protocol::CacheQuery query);
  // True: the request was still here and will never be delivered; its terminal frame is on its way.
  // False: it is past (or unknown), and the scheduler must be told.
  bool cancel(std::uint64_t id);

 private:
  using Item = std::variant<protocol::Generate, protocol::TokensQuery, protocol::CacheQuery>;
  using Outcome = std::variant<Prepared, protocol::Failed>;
  void run();
  void prepare(protocol::Generate request);
  // Nothing when the request was cancelled meanwhile.
  std::optional<Outcome> work(protocol::Generate request);
  void answer(protocol::TokensQuery query);
  void answer(protocol::CacheQuery query);
  bool is_here(std::uint64_t id);
  // With the tools in the system text where the template shows none.
  Result<chat::Rendered> render(const prompt::GenerateRequest& request);
  // Gives the request what holds for the model where it says nothing.
  prompt::ChosenTuning fill_in(prompt::GenerateRequest& request) const;
  std::vector<llama::Token> tokenize(const std::string& text) const;
  std::int64_t fewest_tokens(std::size_t bytes) const;
  struct Counted {
    std::vector<llama::Token> tokens;  // none when there are too many to be worth the time
    std::int64_t count = 0;            // then: at least so many
    bool at_least = false;
    std::string text() const;  // the count, for people
  };
  // Text that cannot fit `window` is not tokenized: nobody else's request waits for that.
  Counted tokenize_within(const std::string& text, std::int64_t window) const;

  const IntakeOptions options_;
  const llama::Vocab& vocab_;
  chat::ChatTemplate& template_;
  const TokenMemory& memory_;
  Constraints& constraints_;
  IntakeGuard& guard_;
  Outbox& outbox_;
  const std::function<void(Prepared)> deliver_;
  std::function<void(protocol::CacheQuery, Prepared)> deliver_query_;
  const std::size_t longest_piece_;  // bytes
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Item> queue_;
  std::unordered_set<std::uint64_t> here_;  // requests that came and neither left nor were cancelled
  bool stopping_ = false;
  GuardedThread thread_;  // the last member: it uses the others
};

}  // namespace gezel::worker
