// The intake with a real vocabulary, and a template that waits until the test lets it go.
#include "worker/intake.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>
#include <deque>
#include <semaphore>

#include "base/process.h"
#include "llama/test_support.h"
#include "protocol/frame.h"

namespace gezel::worker {
namespace {

class HeldTemplate final : public chat::ChatTemplate {
 public:
  Result<chat::Rendered> render(const prompt::GenerateRequest& request) override {
    if (!request.messages.empty()) asked = request.messages.back().content.at(0).text;
    entered.release();
    go_on.acquire();
    return chat::Rendered{.text = text, .reasoning_open = false, .warnings = {}};
  }
  std::string_view default_name() const override { return ""; }
  const std::vector<std::string>& extra_stops() const override { return stops_; }
  bool supports_tools() const override { return false; }
  bool supports_reasoning() const override { return false; }
  bool reads_enable_thinking() const override { return false; }

  std::string text = "Once upon a time";
  std::string asked;  // the last message
  std::counting_semaphore<> entered{0}, go_on{0};

 private:
  std::vector<std::string> stops_;
};

const llama::Model& model() {
  static const auto loaded =
      llama::testing::load_or_die(llama::testing::vocab_folder() / "ggml-vocab-llama-bpe.gguf", true);
  return *loaded;
}

std::shared_ptr<const sampling::VocabView> view() {
  const auto& vocab = model().vocab();
  auto out = std::make_shared<sampling::VocabView>();
  out->size = vocab.size();
  out->end_of_generation = vocab.end_of_generation();
  out->piece = [&vocab](llama::Token token) { return std::string(vocab.piece(token, true)); };
  return out;
}

class IntakeTest : public ::testing::Test {
 protected:
  // The next frame that is no heartbeat.
  protocol::Frame frame() {
    while (true) {
      auto next = reader_.next();
      EXPECT_TRUE(next);
      if (next && *next && (*next)->type != protocol::FrameType::progress) return std::move(**next);
      if (next && *next) continue;
      char buffer[4096];
      const ssize_t got = ::recv(sockets_.second.get(), buffer, sizeof buffer, 0);
      if (got <= 0) {
        ADD_FAILURE() << "the outbox closed its socket";
        return {};
      }
      reader_.feed(std::string_view(buffer, static_cast<std::size_t>(got)));
    }
  }
  void submit(std::uint64_t id, prompt::GenerateRequest asked = {}) {
    protocol::Generate request;
    request.id = id;
    request.request = std::move(asked);
    intake_.submit(std::move(request));
  }
  // The next request that is ready to run.
  Prepared prepared() {
    ready_.acquire();
    const std::lock_guard lock(mutex_);
    Prepared next = std::move(runs_.front());
    runs_.pop_front();
    return next;
  }
  std::uint64_t delivered() { return prepared().run.id; }
  // The same of a request that is let through at once.
  Prepared through(prompt::GenerateRequest asked = {}) {
    template_.go_on.release();
    submit(1, std::move(asked));
    return prepared();
  }
  static prompt::Tuning tuning() {
    prompt::Tuning out;
    out.sampling.temperature = 0.25f;
    out.sampling_when_thinking.temperature = 0.75f;
    out.max_tokens = 9;
    return out;
  }

  static prompt::Tuning named() {
    prompt::Tuning out;
    out.sampling.temperature = out.sampling_when_thinking.temperature = 0.125f;
    out.max_tokens = 4;
    out.tags = {"/think", "/no_think"};
    return out;
  }

  ManualClock clock_;
  IntakeGuard guard_{clock_};
  HeldTemplate template_;
  std::pair<Fd, Fd> sockets_ = socket_pair().value();
  protocol::FrameReader reader_;
  std::mutex mutex_;
  std::deque<Prepared> runs_;
  std::counting_semaphore<> ready_{0};
  Outbox outbox_{sockets_.first.get(), [] { return std::uint64_t{0}; }, [] {}};
  OutputText output_{model().vocab()};
  MaskThread masks_;
  TokenMemory memory_{model().vocab()};
  Constraints constraints_{
      {.style = {.dialect = {}, .family = {}, .reasoning_open = "<ponder>", .reasoning_close = "</ponder>"},
       .reasons = true,
       .template_source = {}},
      model().vocab(),
      output_,
      masks_};
  Intake intake_{{.context_per_slot = 2048,
                  .tuning = tuning(),
                  .named_tunings = {{"creative", named()}},
                  .tuning_profile = {},
                  .vocab_view = view()},
                 model().vocab(),
                 template_,
                 memory_,
                 constraints_,
                 guard_,
                 outbox_,
                 [this](Prepared prepared) {
                   const std::lock_guard lock(mutex_);
                   runs_.push_back(std::move(prepared));
                   ready_.release();
                 }};
};

TEST_F(IntakeTest, ACancelIsAnsweredWhileThePromptIsBeingWorkedOnAndTheWorkIsThrownAway) {
  submit(1);
  template_.entered.acquire();
  EXPECT_TRUE(intake_.cancel(1));
  const auto answer = protocol::parse_failed(frame().body);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->id, 1U);
  EXPECT_EQ(answer->code, "cancelled");
  submit(2);
  template_.go_on.release(2);
  EXPECT_EQ(delivered(), 2U);
}

TEST_F(IntakeTest, ACancelledRequestThatStillWaitsIsNeverWorkedOn) {
  submit(1);
  template_.entered.acquire();
  submit(2);
  submit(3);
  EXPECT_TRUE(intake_.cancel(2));
  EXPECT_EQ(protocol::parse_failed(frame().body)->id, 2U);
  template_.go_on.release(2);  // for the other two
  EXPECT_EQ(delivered(), 1U);
  EXPECT_EQ(delivered(), 3U);
}

TEST_F(IntakeTest, WhatIsPastTheIntakeIsTheSchedulersToCancel) {
  submit(1);
  template_.go_on.release();
  EXPECT_EQ(delivered(), 1U);
  // Handed over under the intake's lock, which this call takes.
  EXPECT_FALSE(intake_.cancel(1));
  EXPECT_FALSE(intake_.cancel(77));
}

TEST_F(IntakeTest, TheGuardKnowsWhichRequestIsStuck) {
  submit(5);
  template_.entered.acquire();
  clock_.advance(IntakeGuard::kRenderLimit);
  const auto stuck = guard_.look(Millis(0));
  template_.go_on.release();
  ASSERT_TRUE(stuck);
  EXPECT_EQ(stuck->id, 5U);
}

// Its tokens would take longer than the window is worth, whoever asks.
TEST_F(IntakeTest, TextThatCannotFitIsRefusedWithoutBeingTokenized) {
  template_.text = std::string(8'000'000, 'x');
  template_.go_on.release(3);
  submit(1);
  const auto failed = protocol::parse_failed(frame().body);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->code, "context-overflow");
  EXPECT_NE(failed->message.find("at least"), std::string::npos) << failed->message;
  for (const char* op : {"warm", "explain"}) {
    intake_.submit(
        protocol::CacheQuery{.id = 2, .op = op, .session = {}, .request = prompt::GenerateRequest{}});
    const auto reply = protocol::parse_cache_reply(frame().body);
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->code, "context-overflow");
    EXPECT_NE(reply->message.find("at least"), std::string::npos) << reply->message;
  }
}

prompt::GenerateRequest wants(int answer) {
  prompt::GenerateRequest out;
  out.max_output_tokens = answer;
  return out;
}

TEST_F(IntakeTest, AnAnswerThatTheWindowCutsIsSaid) {
  const auto whole = through(wants(100));
  EXPECT_TRUE(whole.warnings.empty());
  const auto cut = through(wants(100'000));
  ASSERT_FALSE(cut.warnings.empty());
  EXPECT_NE(cut.warnings.back().find("instead of 100000"), std::string::npos) << cut.warnings.back();
}

TEST_F(IntakeTest, AnAnswerThatALongerWindowWouldHoldWaitsForIt) {
  template_.go_on.release();
  protocol::Generate request;
  request.id = 7;
  request.request = wants(3'000);
  request.window_possible = 8'192;
  intake_.submit(std::move(request));
  const auto failed = protocol::parse_failed(frame().body);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->code, "context-overflow");
  EXPECT_EQ(failed->context_tokens, 2'048);
  EXPECT_EQ(failed->needed_tokens, failed->prompt_tokens + 3'000);
}

TEST_F(IntakeTest, WhatTheRequestLeavesOpenIsTheModelsTuning) {
  const auto left_open = through();
  EXPECT_EQ(left_open.run.max_tokens, 9);
  EXPECT_EQ(left_open.run.sampler.params().temperature, 0.75f) << "the model reasons";
  EXPECT_TRUE(left_open.splits_reasoning);
  EXPECT_FALSE(left_open.reasoning_open);

  prompt::GenerateRequest said;
  said.sampling.temperature = 0.5f;
  said.max_output_tokens = 3;
  const auto run = through(said);
  EXPECT_EQ(run.run.max_tokens, 3);
  EXPECT_EQ(run.run.sampler.params().temperature, 0.5f);
}

TEST_F(IntakeTest, ATuningProfileReplacesTheTuningAndIsNamed) {
  prompt::GenerateRequest request;
  request.tuning_profile = "creative";
  const auto creative = through(request);
  EXPECT_EQ(creative.tuning_profile, "creative");
  EXPECT_EQ(creative.run.max_tokens, 4);
  EXPECT_EQ(creative.run.sampler.params().temperature, 0.125f);
  request.tuning_profile = "terse";
  const auto terse = through(request);
  EXPECT_EQ(terse.tuning_profile, "") << "neither it nor what may stand in for it is there";
  EXPECT_EQ(terse.run.max_tokens, 9);
  request.tuning_profile = "deterministic";
  EXPECT_EQ(through(request).run.sampler.params().temperature, 0.0f);
  EXPECT_EQ(through().tuning_profile, "");
}

TEST_F(IntakeTest, ATagSwitchesThinkingWhereTheTemplateCannot) {
  prompt::GenerateRequest request;
  request.messages = {{.role = prompt::Role::user, .content = {{prompt::ContentPart::Kind::text, "Hi"}}}};
  request.reasoning_effort = "none";
  through(request);
  EXPECT_EQ(template_.asked, "Hi") << "a model without tags";
  request.tuning_profile = "creative";
  through(request);
  EXPECT_EQ(template_.asked, "Hi /no_think");
}

TEST_F(IntakeTest, ARequestThatForbidsThinkingGetsTheOtherSampling) {
  prompt::GenerateRequest request;
  request.reasoning_effort = "none";
  EXPECT_EQ(through(request).run.sampler.params().temperature, 0.25f);
}

TEST_F(IntakeTest, APromptThatEndsWithTheStylesOpenerBeginsInsideReasoning) {
  template_.text = "Once upon a time <ponder>\n";
  EXPECT_TRUE(through().reasoning_open);
}

}  // namespace
}  // namespace gezel::worker
