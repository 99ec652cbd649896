// An answer begins where the template's prompt for an answer ends: that text is known from small
// conversations (what follows a user's text, what follows a tool's result). It ends at the first token that
// ends answers after the last mark. The marks are in the calls' arguments, which no template repeats
// elsewhere; names and ids are repeated.
#include "template/splice.h"

#include <algorithm>
#include <utility>

#include "turn/reasoning_markers.h"

namespace gezel::chat {
namespace {

using prompt::Message;
using prompt::Role;

// What the template writes between the text before an answer and the answer.
struct Opening {
  std::string stem;  // as in history
  std::string
      tail;  // only where an answer is asked for: an opened or an empty block of reasoning; often empty
};

Opening split_opening(std::string text) {
  std::size_t cut = text.size();
  for (const auto& row : turn::reasoning_markers()) {
    if (row.scope == turn::MarkerScope::universal) cut = std::min(cut, text.find(row.open));
  }
  std::string tail = text.substr(cut);
  text.resize(cut);
  return {std::move(text), std::move(tail)};
}

Message message_of(Role role, std::string text) {
  Message message;
  message.role = role;
  message.content = {{prompt::ContentPart::Kind::text, std::move(text)}};
  return message;
}

// One answer in the rendering with marks.
struct Region {
  std::size_t begin = 0, end = 0;
  std::string insert;
};

class Splicer {
 public:
  explicit Splicer(const SpliceTask& task) : task_(task), mark_(fresh_mark()) {}

  std::optional<std::string> text() {
    const auto marked = task_.render(marked_messages(), true);
    if (!marked) return std::nullopt;
    std::vector<Region> regions;
    for (std::size_t i = 0; i < task_.messages.size(); ++i) {
      if (!task_.messages[i].sampled) continue;
      auto region = find_region(*marked, i, regions.empty() ? 0 : regions.back().end);
      if (!region) return std::nullopt;
      regions.push_back(std::move(*region));
    }
    if (!same_surroundings(*marked, regions)) return std::nullopt;
    std::string out;
    std::size_t from = 0;
    for (const Region& region : regions) {
      out.append(*marked, from, region.begin - from).append(region.insert);
      from = region.end;
    }
    return out.append(*marked, from);
  }

 private:
  // Letters and digits, so that nothing is escaped, and nowhere in the prompt already.
  std::string fresh_mark() const {
    for (int n = 0;; ++n) {
      std::string mark = "Gezel" + std::to_string(n) + "Mark";
      if (!task_.rendered.contains(mark)) return mark;
    }
  }
  std::string mark(char kind, std::size_t i) const { return mark_ + kind + std::to_string(i) + 'z'; }

  // Reasoning belongs to the tool loop that is still running; before it a template shows none, and neither do
  // we.
  bool in_running_loop(std::size_t i) const {
    return std::none_of(task_.messages.begin() + static_cast<std::ptrdiff_t>(i), task_.messages.end(),
                        [](const Message& message) { return message.role == Role::user; });
  }

  std::vector<Message> marked_messages() const {
    std::vector<Message> marked = task_.messages;
    for (std::size_t i = 0; i < marked.size(); ++i) {
      Message& message = marked[i];
      if (!message.sampled) continue;
      const std::string content = mark('c', i);
      for (auto& call : message.tool_calls) call.arguments = "{\"" + content + "\":\"" + content + "\"}";
      if (!prompt::text_of(message).empty()) message.content = message_of(message.role, content).content;
      message.reasoning.clear();
      if (task_.traits.reasoning != prompt::ReasoningReplay::dropped &&
          message.sampled->reasoning_bytes > 0 && in_running_loop(i))
        message.reasoning = mark('r', i);
      message.sampled.reset();
    }
    return marked;
  }

  std::optional<Region> find_region(const std::string& marked, std::size_t i, std::size_t after) {
    const Message& message = task_.messages[i];
    const Opening* opening = i > 0 ? opening_after(task_.messages[i - 1].role) : nullptr;
    if (opening == nullptr || opening->stem.empty()) return std::nullopt;
    const std::string content = mark('c', i), reasoning = mark('r', i);
    const std::size_t first = std::min(marked.find(content, after), marked.find(reasoning, after));
    std::size_t last = marked.rfind(content);
    if (first == std::string::npos || last == std::string::npos) return std::nullopt;
    last += content.size();
    const std::size_t at = marked.rfind(opening->stem, first);
    if (at == std::string::npos || at + opening->stem.size() > first) return std::nullopt;

    Region region;
    region.begin = at + opening->stem.size();
    // What was found must be the opening of this answer and not that of one before.
    if (region.begin < after || first_end(marked, region.begin) < first) return std::nullopt;
    region.end = message.tool_calls.empty() ? last : first_end(marked, last);
    if (region.end == std::string::npos) return std::nullopt;
    auto insert = insertion(*message.sampled, *opening, marked.find(reasoning, region.begin) < region.end);
    if (!insert) return std::nullopt;
    region.insert = std::move(*insert);
    return region;
  }

  static std::optional<std::string> insertion(const prompt::Sampled& sampled, const Opening& opening,
                                              bool reasoning_shown) {
    const bool opens = turn::ends_inside_reasoning(opening.tail);
    if (sampled.reasoning_bytes == 0) {
      if (sampled.began_in_reasoning)
        return std::nullopt;  // the call stands inside a block that never closed
      return (opens ? "" : opening.tail) + sampled.text;
    }
    if (reasoning_shown && sampled.began_in_reasoning == opens)
      return (opens ? opening.tail : "") + sampled.text;
    return sampled.text.substr(sampled.reasoning_bytes);
  }

  std::size_t first_end(const std::string& text, std::size_t from) const {
    std::size_t found = std::string::npos;
    for (const auto& token : task_.end_tokens) {
      if (!token.empty()) found = std::min(found, text.find(token, from));
    }
    return found;
  }

  // Both renderings have the same text around the answers.
  bool same_surroundings(std::string_view marked, const std::vector<Region>& regions) const {
    std::string_view rest = task_.rendered;
    std::size_t from = 0;
    for (std::size_t i = 0; i <= regions.size(); ++i) {
      const std::size_t to = i < regions.size() ? regions[i].begin : marked.size();
      const std::string_view between = marked.substr(from, to - from);
      if (i == regions.size()) return rest.ends_with(between);
      const std::size_t at =
          i == 0 ? (rest.starts_with(between) ? 0 : std::string_view::npos) : rest.find(between);
      if (at == std::string_view::npos) return false;
      rest.remove_prefix(at + between.size());
      from = regions[i].end;
    }
    return true;
  }

  const Opening* opening_after(Role role) {
    if (role != Role::user && role != Role::tool) return nullptr;
    auto& known = role == Role::user ? after_user_ : after_tool_;
    if (!known) known = learn_opening(role);
    return &*known;
  }

  Opening learn_opening(Role role) const {
    const std::string text = mark('o', 0);
    std::vector<Message> messages = {message_of(Role::user, role == Role::user ? text : "?")};
    if (role == Role::tool) {
      Message call;
      call.role = Role::assistant;
      call.tool_calls = {{"call000001", "f", "{}"}};
      Message result = message_of(Role::tool, text);
      result.tool_call_id = "call000001";
      result.name = "f";
      messages.insert(messages.end(), {std::move(call), std::move(result)});
    }
    auto normal = prompt::normalise(std::move(messages), task_.traits);
    const auto rendered = normal ? task_.render(*normal, false) : std::nullopt;
    const std::size_t at = rendered ? rendered->rfind(text) : std::string::npos;
    if (at == std::string::npos) return {};
    return split_opening(rendered->substr(at + text.size()));
  }

  const SpliceTask& task_;
  const std::string mark_;
  std::optional<Opening> after_user_, after_tool_;
};

}  // namespace

Spliced splice_sampled(const SpliceTask& task) {
  const auto wanted = static_cast<int>(std::ranges::count_if(
      task.messages, [](const Message& message) { return message.sampled.has_value(); }));
  if (wanted == 0) return {std::string(task.rendered)};
  if (auto text = Splicer(task).text()) return {std::move(*text), wanted, 0};
  return {std::string(task.rendered), 0, wanted};
}

}  // namespace gezel::chat
