// api/reply_parts.h
//
// What replies of several APIs have in common. Internal to the module.
#pragma once
#include "api/chat.h"
#include "base/json.h"
#include "engine/engine.h"

namespace gezel::api {

// `x_gezel`: what a client should know of an answer that was given all the same; empty when there is nothing.
json::object notes_json(const engine::Done& done, const ChatMessage& message);

// What stands for a probability of zero, whose logarithm JSON cannot say; OpenAI's own value.
inline constexpr float kLowestLogprob = -9999.0F;
// {"token","logprob","bytes"}, without the token's alternatives.
json::object logprob_json(const engine::TokenLogprob& token);

}  // namespace gezel::api
