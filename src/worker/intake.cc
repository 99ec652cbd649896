#include "worker/intake.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <random>

#include "prompt/compact_tools.h"
#include "prompt/tuning_profiles.h"
#include "worker/prompt_spans.h"
#include "worker/reasoning_start.h"
#include "worker/tool_block.h"
#include "worker/window_check.h"

namespace gezel::worker {
namespace {

protocol::Failed failure(std::uint64_t id, std::string kind, const Error& error) {
  protocol::Failed failed;
  failed.id = id;
  failed.kind = std::move(kind);
  failed.code = error.code;
  failed.message = error.message;
  failed.param = error.param;
  return failed;
}

constexpr std::string_view kToolsDescribed =
    "this model's chat template shows no tools; they were described in the system text in the Hermes form";

std::size_t longest_piece(const llama::Vocab& vocab) {
  std::size_t longest = 1;
  for (llama::Token token = 0; token < vocab.size(); ++token) {
    longest = std::max(longest, vocab.piece(token, true).size());
  }
  return longest;
}

}  // namespace

Intake::Intake(IntakeOptions options, const llama::Vocab& vocab, chat::ChatTemplate& chat_template,
               const TokenMemory& memory, Constraints& constraints, IntakeGuard& guard, Outbox& outbox,
               std::function<void(Prepared)> deliver)
    : options_(std::move(options)),
      vocab_(vocab),
      template_(chat_template),
      memory_(memory),
      constraints_(constraints),
      guard_(guard),
      outbox_(outbox),
      deliver_(std::move(deliver)),
      longest_piece_(longest_piece(vocab)),
      thread_([this] { run(); }) {}

Intake::~Intake() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
}

void Intake::submit(protocol::Generate request) {
  {
    const std::lock_guard lock(mutex_);
    here_.insert(request.id);
    queue_.emplace_back(std::move(request));
  }
  wake_.notify_one();
}

void Intake::submit(protocol::TokensQuery query) {
  {
    const std::lock_guard lock(mutex_);
    queue_.emplace_back(std::move(query));
  }
  wake_.notify_one();
}

void Intake::submit(protocol::CacheQuery query) {
  {
    const std::lock_guard lock(mutex_);
    queue_.emplace_back(std::move(query));
  }
  wake_.notify_one();
}

void Intake::on_cache_query(std::function<void(protocol::CacheQuery, Prepared)> deliver) {
  const std::lock_guard lock(mutex_);
  deliver_query_ = std::move(deliver);
}

bool Intake::cancel(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  if (here_.erase(id) == 0) return false;
  std::erase_if(queue_, [id](const Item& item) {
    const auto* generate = std::get_if<protocol::Generate>(&item);
    return generate != nullptr && generate->id == id;
  });
  outbox_.push(
      failure(id, "cancelled", {ErrorKind::cancelled, "cancelled", "the request was cancelled", {}}));
  return true;
}

bool Intake::is_here(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  return here_.contains(id);
}

void Intake::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    Item item = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    guard_.enter(std::visit([](const auto& body) { return body.id; }, item));
    if (auto* generate = std::get_if<protocol::Generate>(&item)) {
      prepare(std::move(*generate));
    } else if (auto* tokens = std::get_if<protocol::TokensQuery>(&item)) {
      answer(std::move(*tokens));
    } else {
      answer(std::move(std::get<protocol::CacheQuery>(item)));
    }
    guard_.leave();
    lock.lock();
  }
}

// No token stands for more bytes than the longest piece; twice that leaves room for vocabularies that
// normalise text.
std::int64_t Intake::fewest_tokens(std::size_t bytes) const {
  return static_cast<std::int64_t>(bytes / (2 * longest_piece_));
}

std::vector<llama::Token> Intake::tokenize(const std::string& text) const {
  guard_.begin(IntakeGuard::Work::tokenizing);
  return memory_.tokenize(text);
}

std::string Intake::Counted::text() const {
  return fmt::format("{}{}", at_least ? "at least " : "", count);
}

Intake::Counted Intake::tokenize_within(const std::string& text, std::int64_t window) const {
  const std::int64_t fewest = fewest_tokens(text.size());
  if (fewest >= window) return {.tokens = {}, .count = fewest, .at_least = true};
  Counted out{.tokens = tokenize(text)};
  out.count = static_cast<std::int64_t>(out.tokens.size());
  return out;
}

prompt::ChosenTuning Intake::fill_in(prompt::GenerateRequest& request) const {
  auto chosen = prompt::choose_tuning(
      options_.tuning, options_.named_tunings,
      prompt::wanted_tuning_profile(request.tuning_profile, options_.tuning_profile, {}));
  prompt::fill_in(request, chosen.tuning);
  // A template that knows the variable says it in the form the model learned.
  if (!template_.reads_enable_thinking()) prompt::append_tag(request, chosen.tuning.tags);
  return chosen;
}

Result<chat::Rendered> Intake::render(const prompt::GenerateRequest& request) {
  const bool compact = constraints_.style().behaviors.compact_tool_schemas;
  if (request.tools.empty() || (template_.supports_tools() && !compact)) return template_.render(request);
  prompt::GenerateRequest described = request;
  if (compact) {
    for (auto& tool : described.tools) prompt::compact(tool);
  }
  if (template_.supports_tools()) return template_.render(described);
  describe_tools_in_system_text(described);
  auto rendered = template_.render(described);
  if (rendered) rendered->warnings.emplace_back(kToolsDescribed);
  return rendered;
}

void Intake::prepare(protocol::Generate request) {
  const std::uint64_t id = request.id;
  auto outcome = work(std::move(request));
  // Under the lock, so that a cancel is either seen here or reaches the scheduler after the run did.
  const std::lock_guard lock(mutex_);
  if (here_.erase(id) == 0 || !outcome) return;
  if (auto* failed = std::get_if<protocol::Failed>(&*outcome)) {
    outbox_.push(std::move(*failed));
  } else {
    deliver_(std::move(std::get<Prepared>(*outcome)));
  }
}

std::optional<Intake::Outcome> Intake::work(protocol::Generate request) {
  const std::uint64_t id = request.id;
  const std::optional<std::int64_t> answer = request.request.max_output_tokens;  // the caller's own word
  auto chosen = fill_in(request.request);
  auto rendered = render(request.request);
  if (!rendered) {
    const bool bad_request = rendered.error().code == "invalid-request";
    return failure(id, bad_request ? "invalid_request" : "template_rejected", rendered.error());
  }
  if (!is_here(id)) return std::nullopt;
  Counted counted =
      tokenize_within(rendered->text, std::max(options_.context_per_slot, request.window_possible));
  std::vector<llama::Token> tokens = std::move(counted.tokens);
  const std::int64_t count = counted.count;
  const auto fit = check_window({.prompt = count,
                                 .answer = answer,
                                 .window = options_.context_per_slot,
                                 .possible = request.window_possible});
  if (fit.kind == WindowVerdict::Kind::longer || fit.kind == WindowVerdict::Kind::over) {
    auto failed = failure(
        id, "context_overflow",
        {ErrorKind::invalid, "context-overflow",
         fmt::format("the prompt has {} tokens and needs a window of {} with room for an answer; {} are "
                     "loaded. Shorten the messages or ask for a shorter answer.",
                     counted.text(), fit.needed, options_.context_per_slot),
         "messages"});
    failed.prompt_tokens = count;
    failed.context_tokens = options_.context_per_slot;
    failed.needed_tokens = fit.needed;
    return failed;
  }
  if (fit.kind == WindowVerdict::Kind::cut) {
    rendered->warnings.push_back(fmt::format(
        "the answer may have {} tokens instead of {}: with {} of the prompt the window of {} is full",
        fit.room, *answer, count, options_.context_per_slot));
  }
  if (tokens.empty()) {
    return failure(
        id, "invalid_request",
        {ErrorKind::invalid, "invalid-request", "the prompt is empty after rendering", "messages"});
  }
  if (!is_here(id)) return std::nullopt;
  guard_.begin(IntakeGuard::Work::constraining);
  const auto start = reasoning_start(request.request, rendered->text, rendered->reasoning_open,
                                     constraints_.style(), constraints_.reasons(), chosen.tuning.tags);
  auto steered = constraints_.steer(request.request, start.open, rendered->warnings);
  if (!steered) {
    return failure(
        id, "constraint_rejected",
        {steered.error().kind, "constraint-rejected", steered.error().message, steered.error().param});
  }
  for (const llama::Token token : steered->banned)
    request.request.sampling.logit_bias.emplace_back(token, -std::numeric_limits<float>::infinity());
  sampling::Sampler sampler(
      sampling::resolve(request.request.sampling,
                        start.thinks ? chosen.tuning.sampling_when_thinking : chosen.tuning.sampling,
                        std::random_device{}()),
      options_.vocab_view);
  sampler.accept(tokens);
  PromptSpans spans = find_spans(vocab_, rendered->text, tokens, request.request.messages);
  std::vector<std::string> stop = std::move(request.request.stop);
  stop.insert(stop.end(), template_.extra_stops().begin(), template_.extra_stops().end());
  std::optional<std::int64_t> max_tokens;
  if (request.request.max_output_tokens) max_tokens = *request.request.max_output_tokens;
  return Prepared{
      scheduler::RunSpec{.id = id,
                         .prompt = std::move(tokens),
                         .max_tokens = max_tokens,
                         .sampler = std::move(sampler),
                         .stop = std::move(stop),
                         .top_logprobs = request.request.logprobs ? request.request.top_logprobs : -1,
                         .steering = std::move(steered->steering),
                         .lane = request.request.lane,
                         .token_ends = std::move(spans.token_ends),
                         .spans = std::move(spans.spans),
                         .session = request.request.session_key,
                         .parent_session = request.request.parent_session,
                         .tenant = request.request.tenant,
                         .ephemeral = request.request.ephemeral},
      start.open,
      rendered->replayed,
      rendered->replay_missed,
      std::move(rendered->warnings),
      constraints_.reasons(),
      std::move(steered->spellings),
      std::move(chosen.profile),
      std::move(spans.messages),
      request.request.prefix_snippets};
}

void Intake::answer(protocol::TokensQuery query) {
  protocol::TokensReply reply;
  reply.id = query.id;
  if (query.text) {
    guard_.begin(IntakeGuard::Work::tokenizing);
    reply.tokens = vocab_.tokenize(*query.text, false, true);
    reply.count = static_cast<std::int64_t>(reply.tokens.size());
  } else if (query.request) {
    fill_in(*query.request);
    auto rendered = render(*query.request);
    if (!rendered) {
      outbox_.push(failure(query.id, "template_rejected", rendered.error()));
      return;
    }
    reply.count = static_cast<std::int64_t>(tokenize(rendered->text).size());
  }
  outbox_.push(std::move(reply));
}

// Its request as a prompt alone: nothing will be sampled.
void Intake::answer(protocol::CacheQuery query) {
  const auto refuse = [&](std::string code, std::string message) {
    protocol::CacheReply reply;
    reply.id = query.id;
    reply.code = std::move(code);
    reply.message = std::move(message);
    outbox_.push(std::move(reply));
  };
  prompt::GenerateRequest& request = *query.request;
  fill_in(request);
  auto rendered = render(request);
  if (!rendered) return refuse(rendered.error().code, rendered.error().message);
  Counted counted = tokenize_within(rendered->text, options_.context_per_slot);
  if (counted.count == 0 || counted.count >= options_.context_per_slot) {
    return refuse("context-overflow", fmt::format("The prompt has {} tokens; 1 to {} fit the loaded window.",
                                                  counted.text(), options_.context_per_slot - 1));
  }
  std::vector<llama::Token> tokens = std::move(counted.tokens);
  PromptSpans spans = find_spans(vocab_, rendered->text, tokens, request.messages);
  Prepared prepared{
      .run = scheduler::RunSpec{.id = 0,
                                .prompt = std::move(tokens),
                                .max_tokens = 0,
                                .sampler = sampling::Sampler(sampling::resolve(request.sampling, {}, 0),
                                                             options_.vocab_view),
                                .stop = {},
                                .steering = nullptr,
                                .lane = prompt::Lane::background,
                                .token_ends = std::move(spans.token_ends),
                                .spans = std::move(spans.spans),
                                .session = request.session_key,
                                .parent_session = {},
                                .tenant = request.tenant,
                                .ephemeral = request.ephemeral,
                                .only_prompt = true},
      .warnings = {},
      .call_spellings = {},
      .tuning_profile = {},
      .span_messages = std::move(spans.messages)};
  deliver_query_(std::move(query), std::move(prepared));
}

}  // namespace gezel::worker
