#include "api/reply_parts.h"

#include <cmath>

#include "api/cache_json.h"

namespace gezel::api {
namespace {

void put_texts(json::object& out, std::string_view name, const std::vector<std::string>& texts) {
  if (!texts.empty()) out[name] = json::array(texts.begin(), texts.end());
}

}  // namespace

json::object notes_json(const engine::Done& done, const ChatMessage& message) {
  json::object notes;
  put_texts(notes, "warnings", message.warnings);
  put_texts(notes, "repairs", message.repairs);
  if (!message.unparsed.empty()) {
    json::array unparsed;
    for (const auto& lost : message.unparsed)
      unparsed.push_back(json::object{{"name", lost.name}, {"text", lost.text}});
    notes["unparsed"] = std::move(unparsed);
  }
  if (message.tuning_profile) {
    notes["tuning_profile"] =
        message.tuning_profile->empty() ? json::value() : json::value(*message.tuning_profile);
  }
  if (done.repetition) notes["stop"] = "repetition";
  if (message.show_prefix_break)
    notes["prefix_break"] = done.prefix_break ? prefix_break_json(*done.prefix_break) : json::value();
  return notes;
}

json::object logprob_json(const engine::TokenLogprob& token) {
  json::array bytes;
  for (const char byte : token.bytes) bytes.push_back(static_cast<unsigned char>(byte));
  return {{"token", token.token},
          {"logprob", std::isfinite(token.logprob) ? token.logprob : kLowestLogprob},
          {"bytes", std::move(bytes)}};
}

}  // namespace gezel::api
