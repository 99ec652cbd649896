#include "turn/weak_scan.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_set>
#include <utility>

#include "turn/body.h"
#include "turn/call_object.h"
#include "turn/coerce.h"
#include "turn/input.h"
#include "turn/regions.h"
#include "turn/tolerant_json.h"

namespace gezel::turn {
namespace {

constexpr std::size_t kMaxDecoration = 64;  // bullets, quotes and backticks around a call on its line

class Scanner {
 public:
  Scanner(std::string_view content, std::span<const ToolSchema> tools, const ToolNames& names, TextEnd end)
      : content_(content), text_(content), tools_(tools), names_(names), end_(end) {}

  WeakScan run() {
    while (next_trigger()) {
      if (text_[at_] == '`') {
        if (!fence()) code_span();
        floor_ = at_;
        continue;
      }
      const std::size_t trigger = at_;
      if (const auto begin = call_here()) {
        remove(decorated(*begin, at_));
        floor_ = at_;
      } else {
        at_ = std::max(at_, trigger + 1);
      }
    }
    return std::move(found_);
  }

 private:
  // Every form shows itself at one of a few characters; what stands in front of it is found by looking back.
  bool next_trigger() {
    static constexpr std::array<bool, 256> kTriggers = [] {
      std::array<bool, 256> triggers{};
      for (const char c : std::string_view("{[<(`")) triggers[static_cast<unsigned char>(c)] = true;
      return triggers;
    }();
    while (at_ < text_.size() && !kTriggers[static_cast<unsigned char>(text_[at_])]) ++at_;
    return at_ < text_.size();
  }

  // The call that shows itself at at_: is added, and at_ is behind it; where it begins. Nothing: at_ is where
  // scanning goes on if that is further.
  std::optional<std::size_t> call_here() {
    switch (text_[at_]) {
      case '(':
        return prose();
      case '<':
        return at(at_, "<|\"|>") ? gemma_write() : tag();
      case '{':
        if (const auto begin = invoke_before(at_)) return invoke(*begin);
        return envelope();
      case '[':
        return envelope();
      default:
        return std::nullopt;
    }
  }

  // Where the name begins that ends at `end`; `end` if there is none.
  std::size_t name_begin(std::size_t end) const {
    const std::size_t least = std::max(floor_, end > kMaxName ? end - kMaxName - 1 : 0);
    std::size_t begin = end;
    while (begin > least && is_name_char(text_[begin - 1])) --begin;
    if (end - begin > kMaxName) return end;
    while (begin < end && text_[begin] == '-') ++begin;
    return begin < end && is_name_start(text_[begin]) ? begin : end;
  }
  std::size_t name_end(std::size_t at) const {
    while (at < text_.size() && is_name_char(text_[at])) ++at;
    return at;
  }
  std::size_t space_end(std::size_t at) const {
    while (at < text_.size() && is_space(text_[at])) ++at;
    return at;
  }
  bool at(std::size_t offset, std::string_view literal) const {
    return text_.substr(std::min(offset, text_.size())).starts_with(literal);
  }

  void add(Source source, std::string_view name, json::object arguments, int repair, TextSpan span,
           std::string id = {}) {
    found_.calls.push_back({source, std::string(name), std::move(id), std::move(arguments), repair, span});
  }
  void remove(TextSpan span) { found_.removed.push_back(span); }

  // --- W1

  std::optional<std::size_t> envelope() {
    const std::size_t begin = at_;
    if (text_[at_] == '[' && !at(space_end(at_ + 1), "{")) return std::nullopt;
    const JsonRead read = read_json(text_.substr(begin), {.gemma_quotes = true}, end_);
    at_ = begin + read.consumed;
    if (read.status == JsonStatus::complete) {
      if (is_call_envelope(read.value, names_) && take_envelope(read, begin)) return begin;
      return std::nullopt;
    }
    if (read.status == JsonStatus::truncated) {
      found_.envelope_truncated |= is_call_envelope(read.value, names_);
    }
    at_ = std::max(at_, balanced_end(begin));
    return std::nullopt;
  }

  bool take_envelope(const JsonRead& read, std::size_t begin) {
    std::vector<std::pair<CallObject, ReadArguments>> calls;
    const auto look = [&](const json::value& value) {
      auto call = as_call_object(value, names_);
      ReadArguments arguments = read_call_arguments(call->arguments);
      if (!arguments.object) return false;
      calls.emplace_back(*std::move(call), std::move(arguments));
      return true;
    };
    if (const json::array* all = read.value.if_array()) {
      if (!std::ranges::all_of(*all, look)) return false;
    } else if (!look(read.value)) {
      return false;
    }
    for (auto& [call, arguments] : calls) {
      add(weak(1), call.name, *std::move(arguments.object), std::max(read.level, arguments.repair),
          {begin, at_}, call.id);
    }
    return true;
  }

  // Behind the bracket that closes the one at `begin`, not looking into strings; else the end of the text.
  std::size_t balanced_end(std::size_t begin) const {
    std::size_t depth = 0;
    for (std::size_t i = begin; i < text_.size(); ++i) {
      if (text_[i] == '{' || text_[i] == '[') ++depth;
      if ((text_[i] == '}' || text_[i] == ']') && --depth == 0) return i + 1;
    }
    return text_.size();
  }

  // --- W2

  std::optional<std::size_t> tag() {
    const std::size_t begin = at_;
    const std::size_t name_begin = at_ + 1;
    if (name_begin >= text_.size() || !is_name_start(text_[name_begin])) return std::nullopt;
    std::size_t at = name_end(name_begin);
    const std::string_view name = text_.substr(name_begin, at - name_begin);
    at_ = at;
    const auto tool = names_.resolve(name);
    if (!tool) return std::nullopt;
    const ToolSchema& schema = tools_[*tool];
    json::object arguments;
    for (;;) {
      const std::size_t next = space_end(at);
      if (this->at(next, "/>")) {
        at_ = next + 2;
        break;
      }
      if (this->at(next, ">")) {
        const std::size_t close = closer_of(name, next + 1);
        at_ = next + 1;
        if (close == text_.npos) return std::nullopt;
        at_ = close;
        break;
      }
      const std::size_t key_end = name_end(next);
      if (next == at || key_end == next || !this->at(key_end, "=")) return std::nullopt;
      const char quote = key_end + 1 < text_.size() ? text_[key_end + 1] : '\0';
      if (quote != '"' && quote != '\'') return std::nullopt;
      const std::size_t value_begin = key_end + 2;
      const std::size_t value_end = text_.find(quote, value_begin);
      if (value_end == text_.npos) {
        at_ = text_.size();
        return std::nullopt;
      }
      const std::string_view key = match_key(schema, text_.substr(next, key_end - next));
      const SchemaPosition root = position_of(schema.parameters, schema.parameters);
      arguments.insert_or_assign(key, markup_value(text_.substr(value_begin, value_end - value_begin),
                                                   MarkupValue::verbatim, member_position(root, key)));
      at_ = at = value_end + 1;
    }
    add(weak(2), name, std::move(arguments), 0, {begin, at_});
    return begin;
  }

  // Behind `</NAME>`. Once a name has no closer, none of its later tags has.
  std::size_t closer_of(std::string_view name, std::size_t from) {
    if (closerless_.contains(std::string(name))) return text_.npos;
    const std::string closer = "</" + std::string(name) + ">";
    const std::size_t found = text_.find(closer, from);
    if (found == text_.npos) closerless_.emplace(name);
    return found == text_.npos ? found : found + closer.size();
  }

  // --- W3

  // Where `invoke` NAME begins that stands in front of `object`.
  std::optional<std::size_t> invoke_before(std::size_t object) const {
    constexpr std::string_view kInvoke = "invoke";
    const auto space_begin = [&](std::size_t end) {
      const std::size_t least = std::max(floor_, end > kMaxName ? end - kMaxName : 0);
      while (end > least && is_space(text_[end - 1])) --end;
      return end;
    };
    const std::size_t end = space_begin(object);
    const std::size_t begin = name_begin(end);
    const std::size_t word = space_begin(begin);
    if (begin == end || word == begin || word < floor_ + kInvoke.size()) return std::nullopt;
    const std::size_t invoke = word - kInvoke.size();
    if (text_.substr(invoke, kInvoke.size()) != kInvoke || name_begin(word) != invoke) return std::nullopt;
    if (!names_.resolve(text_.substr(begin, end - begin))) return std::nullopt;
    return invoke;
  }

  std::optional<std::size_t> invoke(std::size_t begin) {
    const std::size_t object = at_;
    const std::size_t name = space_end(begin + 6);
    JsonRead read = read_json(text_.substr(object), {}, end_);
    at_ = object + read.consumed;
    if (read.status != JsonStatus::complete || !read.value.is_object()) return std::nullopt;
    add(weak(3), text_.substr(name, name_end(name) - name), std::move(read.value.get_object()), read.level,
        {begin, at_});
    return begin;
  }

  // --- W4

  std::optional<std::size_t> prose() {
    const std::size_t open = at_;
    const std::size_t begin = name_begin(open);
    const std::string_view name = text_.substr(begin, open - begin);
    if (name.empty() || !names_.resolve(name)) return std::nullopt;
    std::size_t next = space_end(open + 1);
    json::object arguments;
    int repair = 0;
    if (at(next, ")")) {
      at_ = next + 1;
      if (!line_around(begin, at_)) return std::nullopt;
      add(weak(4), name, {}, 0, {begin, at_});
      return begin;
    }
    if (at(next, "{")) {
      JsonRead read = read_json(text_.substr(next), {}, end_);
      at_ = next + read.consumed;
      if (read.status != JsonStatus::complete || !read.value.is_object()) return std::nullopt;
      arguments = std::move(read.value.get_object());
      repair = read.level;
      next = space_end(at_);
    } else {
      const std::optional<std::size_t> behind = keywords(next, arguments, repair);
      if (!behind) return std::nullopt;
      next = *behind;
    }
    if (!at(next, ")") && (next < text_.size() || end_ == TextEnd::cut)) return std::nullopt;
    at_ = std::min(next + 1, text_.size());
    add(weak(4), name, std::move(arguments), repair, {begin, at_});
    return begin;
  }

  // `K=J, ..` from `next`; where it ends, behind white space. Nothing if it is something else.
  std::optional<std::size_t> keywords(std::size_t next, json::object& arguments, int& repair) {
    JsonOptions options = python_json({});
    options.keyword_value = true;
    for (;;) {
      const std::size_t key_end = next < text_.size() && is_name_start(text_[next]) ? name_end(next) : next;
      if (key_end == next) return std::nullopt;
      const std::size_t separator = space_end(key_end);
      if (!at(separator, "=") && !at(separator, ":")) return std::nullopt;
      if (at(separator, "==")) return std::nullopt;
      const std::size_t value = space_end(separator + 1);
      JsonRead read = read_json(text_.substr(std::min(value, text_.size())), options, end_);
      at_ = std::max(at_, value + read.consumed);
      if (read.status != JsonStatus::complete) return std::nullopt;
      arguments.insert_or_assign(text_.substr(next, key_end - next), std::move(read.value));
      repair = std::max(repair, read.level);
      const std::size_t behind = space_end(value + read.consumed);
      if (!at(behind, ",")) return behind;
      next = space_end(behind + 1);
      if (at(next, ")")) return next;
    }
  }

  // --- W6

  std::optional<std::size_t> gemma_write() {
    std::size_t begin = text_.npos;
    for (const std::string_view key : {"content:", "path:"}) {
      if (at_ >= floor_ + key.size() && text_.substr(at_ - key.size(), key.size()) == key)
        begin = at_ - key.size();
    }
    if (begin == text_.npos || name_begin(text_.find(':', begin)) != begin || !names_.resolve("write_file")) {
      return std::nullopt;
    }
    const JsonOptions options = gemma_json({});
    JsonExtent extent(options);
    extent.feed("{");
    extent.feed(text_.substr(begin));
    at_ = begin + std::max<std::size_t>(extent.end(), 1) - 1;
    if (extent.status() != JsonStatus::complete) {
      if (extent.status() != JsonStatus::malformed) at_ = text_.size();
      return std::nullopt;
    }
    JsonRead read = read_json("{" + std::string(text_.substr(begin, at_ - begin)), options);
    const json::object* members = read.value.if_object();
    if (!members || members->size() != 2 || !members->contains("content") || !members->contains("path")) {
      return std::nullopt;
    }
    add(weak(6), "write_file", std::move(read.value.get_object()), read.level, {begin, at_});
    return begin;
  }

  // --- what stands around a call

  // The whole line, if nothing but decoration stands around [begin, end) on it.
  std::optional<TextSpan> line_around(std::size_t begin, std::size_t end) const {
    std::size_t from = begin;
    while (from > 0 && content_[from - 1] != '\n') {
      if (begin - from == kMaxDecoration || !std::string_view(" \t-*+>`").contains(content_[from - 1])) {
        return std::nullopt;
      }
      --from;
    }
    std::size_t to = end;
    while (to < content_.size() && content_[to] != '\n') {
      if (to - end == kMaxDecoration || !std::string_view(" \t\r`.;").contains(content_[to]))
        return std::nullopt;
      ++to;
    }
    return TextSpan{from, to};
  }

  TextSpan decorated(std::size_t begin, std::size_t end) const {
    return line_around(begin, end).value_or(TextSpan{begin, end});
  }

  // Calls and nothing else in [at_, end): they are added. False: nothing is.
  bool only_calls(std::size_t end) {
    const std::size_t known = found_.calls.size();
    text_ = content_.substr(0, end);
    auto closerless_outside = std::exchange(closerless_, {});
    bool only = false;
    for (;;) {
      at_ = space_end(at_);
      while (only && at_ < end && (content_[at_] == ',' || content_[at_] == ';')) at_ = space_end(at_ + 1);
      if (at_ >= end) break;
      const std::size_t here = floor_ = at_;
      only = next_trigger() && call_here() == here;
      if (!only) break;
    }
    text_ = content_;
    closerless_ = std::move(closerless_outside);
    if (!only) found_.calls.resize(known);
    return only;
  }

  // Backticks at at_ that are no fence. A code span is skipped, and removed if it holds calls and nothing
  // else.
  void code_span() {
    constexpr std::size_t kMaxSpan = 4096;
    const std::size_t begin = at_;
    const std::size_t inner = std::min(content_.find_first_not_of('`', at_), content_.size());
    const std::string_view ticks = content_.substr(begin, inner - begin);
    at_ = inner;
    const std::string_view line = content_.substr(inner, kMaxSpan);
    const std::size_t close = line.substr(0, line.find('\n')).find(ticks);
    if (close == line.npos) return;
    const std::size_t end = inner + close, behind = end + ticks.size();
    if (only_calls(end)) remove(decorated(begin, behind));
    at_ = behind;
  }

  // A fence at at_: skipped, and removed if it holds calls and nothing else. False: no fence.
  bool fence() {
    std::size_t line = at_;
    while (line > 0 && content_[line - 1] == ' ' && at_ - line < 3) --line;
    if (line > 0 && content_[line - 1] != '\n') return false;
    const std::size_t body_begin = content_.find_first_not_of('`', at_);
    const std::size_t ticks = std::min(body_begin, content_.size()) - at_;
    if (ticks < 3) return false;
    const std::size_t info_end = content_.find('\n', at_);
    if (info_end == content_.npos) {
      at_ = content_.size();
      return true;
    }
    if (content_.substr(body_begin, info_end - body_begin).contains('`')) return false;  // ```code```

    std::size_t close = content_.size(), close_end = close;
    for (std::size_t next = info_end + 1; next < content_.size();) {
      const std::size_t mark = content_.find_first_not_of(" \t", next);
      if (mark == content_.npos) break;
      const std::size_t after = std::min(content_.find_first_not_of('`', mark), content_.size());
      if (after - mark >= ticks && content_[mark] == '`') {
        close = next;
        close_end = after;
        break;
      }
      const std::size_t newline = content_.find('\n', mark);
      if (newline == content_.npos) break;
      next = newline + 1;
    }

    at_ = info_end + 1;
    if (only_calls(close)) remove({line, close_end});
    at_ = close_end;
    return true;
  }

  std::string_view content_;
  std::string_view text_;  // content_, or up to the end of the fence we are in
  std::span<const ToolSchema> tools_;
  const ToolNames& names_;
  TextEnd end_;
  std::size_t at_ = 0;
  std::size_t floor_ = 0;  // nothing in front of it is looked at again
  std::unordered_set<std::string> closerless_;
  WeakScan found_;
};

}  // namespace

bool is_call_envelope(const json::value& value, const ToolNames& names) {
  const auto is_call = [&](const json::value& one) {
    const auto call = as_call_object(one, names);
    return call && call->arguments && !call->keyed &&
           (call->arguments->is_object() || call->arguments->is_string());
  };
  if (const json::array* all = value.if_array()) return !all->empty() && std::ranges::all_of(*all, is_call);
  return is_call(value);
}

WeakScan scan_weak(std::string_view content, std::span<const ToolSchema> tools, const ToolNames& names,
                   TextEnd end) {
  return Scanner(content, tools, names, end).run();
}

std::string without_spans(std::string_view content, std::span<const TextSpan> spans, bool drop_leading) {
  ContentWriter writer(drop_leading);
  std::string out;
  std::size_t at = 0;
  for (const TextSpan& span : spans) {
    writer.text(content.substr(at, span.begin - at), out);
    writer.removed();
    at = span.end;
  }
  writer.text(content.substr(at), out);
  writer.finish(out);
  return out;
}

}  // namespace gezel::turn
