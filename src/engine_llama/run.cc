#include "engine_llama/run.h"

namespace gezel::engine_llama {
namespace {

// What a logprob costs beside its text; a rough figure is enough to bound memory.
constexpr Bytes kLogprobBytes = 96;

Bytes weight(const engine::Event& event) {
  const auto* text = std::get_if<engine::TextDelta>(&event);
  if (!text) return 0;
  Bytes bytes = text->text.size();
  for (const auto& logprob : text->logprobs) bytes += kLogprobBytes * (1 + logprob.top.size());
  return bytes;
}

std::int64_t characters_in(std::string_view utf8) {
  std::int64_t count = 0;
  for (const char c : utf8) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

}  // namespace

void Run::push(engine::Event event) {
  if (place == Place::over || place == Place::abandoned) return;
  const Bytes bytes = weight(event);
  unsent_bytes += bytes;
  auto* text = std::get_if<engine::TextDelta>(&event);
  if (text) {
    characters += characters_in(text->text);
    auto* last = events.empty() ? nullptr : std::get_if<engine::TextDelta>(&events.back());
    if (last && last->logprobs.empty() && text->logprobs.empty()) {
      last->text += text->text;
      return wakeup.notify();
    }
  }
  if (std::holds_alternative<engine::Progress>(event) && !events.empty() &&
      std::holds_alternative<engine::Progress>(events.back()))
    events.back() = std::move(event);
  else
    events.push_back(std::move(event));
  wakeup.notify();
}

void Run::end(engine::Event event, bool drop_waiting) {
  if (drop_waiting) {
    events.clear();
    unsent_bytes = 0;
  }
  events.push_back(std::move(event));
  request = {};
  wakeup.notify();
}

engine::Event Run::take() {
  engine::Event event = std::move(events.front());
  events.pop_front();
  unsent_bytes -= weight(event);
  return event;
}

}  // namespace gezel::engine_llama
