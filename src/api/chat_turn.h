// api/chat_turn.h
//
// One answer between the engine and the client: what the model writes becomes reasoning, content and tool
// calls (turn/parser.h) under what the request asked for. Pure.
#pragma once
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "api/chat.h"
#include "api/chat_constraints.h"
#include "api/error.h"
#include "base/ids.h"
#include "turn/parser.h"
#include "turn/splitter.h"

namespace gezel::api {

class ChatTurn {
 public:
  // `entropy` makes the ids of calls and must outlive this. `warnings` of check_constraints() go into the
  // reply.
  ChatTurn(const ChatRequest& request, std::vector<std::string> warnings, Entropy& entropy);
  ~ChatTurn();

  // The prompt was accepted: from here on it is known how this model writes. Before any text; text without it
  // is read as that of a model without reasoning.
  void start(const engine::Started& started);
  // What a client that streams is shown of the text so far.
  turn::Events feed(std::string_view text);

  struct Finished {
    turn::Events events;            // what a stream has not shown yet
    ChatMessage message;            // the whole answer
    std::optional<ApiError> error;  // it is not what was asked for, and must not be delivered as such
  };
  Finished finish(const engine::Done& done);

 private:
  turn::ParserOptions options(const engine::Started& started);
  std::optional<prompt::Sampled> sampled(bool reasoned);
  void make_strict(Finished& finished, turn::Message& message) const;

  const prompt::ToolChoice choice_;
  const prompt::ToolPolicy policy_;
  const bool parallel_calls_, include_reasoning_, asked_for_tuning_profile_;
  const AnswerCheck check_;
  turn::CallIds ids_;
  std::vector<turn::ToolSchema> tools_;
  std::optional<turn::Parser> parser_;
  std::string raw_;  // all text so far, where tools were offered
  turn::SplitterOptions splitter_;
  turn::StartState start_ = turn::StartState::closed;
  std::vector<std::string> warnings_;
  std::string tuning_profile_;
};

}  // namespace gezel::api
