#include "turn/live_arguments.h"

#include <algorithm>
#include <utility>

#include "turn/regions.h"
#include "turn/tolerant_json.h"

namespace gezel::turn {
namespace {

// JSON string contents, without the quotes. Escaping looks at one character at a time, so parts of a string
// may be escaped on their own.
std::string escaped(std::string_view text) {
  const std::string quoted = compact_json(json::value(text));
  return quoted.substr(1, quoted.size() - 2);
}

SchemaPosition root_position(const ToolSchema* tool) {
  return tool ? position_of(tool->parameters, tool->parameters) : SchemaPosition{};
}

// The line break at the end of `text` that belongs to the markup.
std::size_t trailing_break(std::string_view text) {
  if (text.ends_with("\r\n")) return 2;
  return text.ends_with('\n') ? 1 : 0;
}

}  // namespace

ArgumentsWriter::ArgumentsWriter(CallBook& book) : book_(book), root_(root_position(book.tool())) {
  book_.read_by(this);
}

json::object ArgumentsWriter::arguments_so_far() const {
  json::object arguments = arguments_;
  if (open_) arguments.insert_or_assign(key_, value_text(false));
  return arguments;
}

void ArgumentsWriter::write(std::string_view fragment) {
  text_ += fragment;
  book_.send(fragment);
}

void ArgumentsWriter::begin_member(std::string_view key) {
  bytes_ += key.size();
  key_ = book_.tool() ? match_key(*book_.tool(), key) : key;
  if (key_ != key && has(key_)) key_ = key;  // only where the target is absent
  coerced_ = coerced_ || key_ != key;
  position_ = member_position(root_, key_);
}

bool ArgumentsWriter::has(std::string_view key) const {
  return arguments_.contains(book_.tool() ? match_key(*book_.tool(), key) : key);
}

void ArgumentsWriter::begin_value(std::string_view key, MarkupValue kind) {
  begin_member(key);
  raw_.clear();
  kind_ = kind;
  open_ = true;
  json_ = false;
  sent_ = 0;
  live_ = (position_.types & kStringType) != 0;
  if (live_) write((text_.empty() ? "{" : ",") + compact_json(json::value(key_)) + ":\"");
}

void ArgumentsWriter::begin_json_value(std::string_view key) {
  begin_member(key);
  raw_.clear();
  kind_ = MarkupValue::verbatim;
  open_ = json_ = true;
  live_ = false;
}

bool ArgumentsWriter::part(std::string_view text) {
  bytes_ += text.size();
  if (bytes_ > kMaxArgumentBytes) return false;
  raw_ += text;
  if (live_) send_value(false);
  return true;
}

// The value without the line breaks that are the markup's. Before its end that includes one that may be.
std::string_view ArgumentsWriter::value_text(bool complete) const {
  std::string_view value = raw_;
  if (kind_ != MarkupValue::trimmed_line) return value;
  if (value == "\r" && !complete) return {};
  value.remove_prefix(value.starts_with("\r\n") ? 2 : value.starts_with('\n') ? 1 : 0);
  if (!complete && value.ends_with('\r')) value.remove_suffix(1);
  value.remove_suffix(trailing_break(value));
  return value;
}

// Writes what is certain of a string.
void ArgumentsWriter::send_value(bool complete) {
  const std::string_view value = value_text(complete);
  if (value.size() <= sent_) return;
  write(escaped(value.substr(sent_)));
  sent_ = value.size();
}

void ArgumentsWriter::end_value() {
  open_ = false;
  json::value value;
  if (JsonRead read; json_ && (read = read_json(trimmed(raw_))).status == JsonStatus::complete) {
    value = std::move(read.value);
    fit(value);
  } else {
    value = markup_value(raw_, json_ ? MarkupValue::verbatim : kind_, position_);
  }
  if (live_) {
    send_value(true);
    write("\"");
  } else {
    write((text_.empty() ? "{" : ",") + compact_json(json::value(key_)) + ":" + compact_json(value));
  }
  arguments_.insert_or_assign(key_, std::move(value));
}

bool ArgumentsWriter::at_line_start() const {
  const std::size_t last = raw_.find_last_not_of(" \t");
  return last == raw_.npos || raw_[last] == '\n';
}

void ArgumentsWriter::fit(json::value& value) {
  std::vector<Repair> repairs;
  if (book_.tool()) coerce_value(value, position_, "/" + key_, repairs);
  coerced_ = coerced_ || !repairs.empty();
}

bool ArgumentsWriter::value(std::string_view key, json::value value) {
  begin_member(key);
  fit(value);
  const std::string text = compact_json(value);
  bytes_ += text.size();
  if (bytes_ > kMaxArgumentBytes) return false;
  write((text_.empty() ? "{" : ",") + compact_json(json::value(key_)) + ":" + text);
  arguments_.insert_or_assign(key_, std::move(value));
  return true;
}

void ArgumentsWriter::close(TextSpan span, std::string_view raw, int repair) {
  write(text_.empty() ? "{}" : "}");
  book_.close({.arguments = std::move(arguments_),
               .text = std::move(text_),
               .built = true,
               .repair = repair,
               .coerced = coerced_,
               .span = span,
               .raw = raw});
}

LiveJson::LiveJson(CallBook& book, const Input& in, const JsonExtent& extent, const JsonOptions& options)
    : book_(book),
      in_(in),
      extent_(extent),
      options_(options),
      verbatim_(options.native == 0),
      root_(root_position(book.tool())) {}

void LiveJson::send_through(std::size_t end) {
  book_.send(in_.view().substr(sent_, end - sent_));
  sent_ = end;
}

void LiveJson::open_object(std::size_t at) {
  if (depth_++ > 0) {
    if (depth_ == 2) value_begins(at);
    return;
  }
  begin_ = sent_ = at;
  // What stands in front of the arguments may have been irregular.
  stopped_ = verbatim_ && extent_.level() != 0;
  if (live() && verbatim_) send_through(at + 1);
}

void LiveJson::open_array(std::size_t at) {
  if (++depth_ == 2) value_begins(at);
}

void LiveJson::close_object(std::size_t end) {
  close_container(end);
}
void LiveJson::close_array(std::size_t end) {
  close_container(end);
}

void LiveJson::close_container(std::size_t end) {
  if (--depth_ == 1) return value_ends(end);
  if (depth_ > 0) return;
  end_ = end;
  if (!live()) return;
  if (!verbatim_) return;  // the closing bracket comes with the end of the call
  if (extent_.level() != 0) {
    stopped_ = true;
  } else {
    send_through(end);
  }
}

void LiveJson::begin_string(bool is_key, std::size_t at) {
  in_key_ = is_key && depth_ == 1;
  live_string_ = false;
  if (in_key_) key_.clear();
  if (is_key || depth_ != 1) return;
  value_begins(at);
  if (!live() || (member_position(root_, key_).types & kStringType) == 0) return;
  if (verbatim_) {
    if (extent_.level() != 0) {
      stopped_ = true;
      return;
    }
    send_through(at + 1);
    scanned_ = at + 1;
  } else {
    book_.send((book_.sent().empty() ? "{" : ",") + compact_json(json::value(key_)) + ":\"");
  }
  live_string_ = true;
}

void LiveJson::string_part(std::string_view text) {
  if (in_key_) {
    key_ += text;
  } else if (live_string_ && !verbatim_) {
    book_.send(escaped(text));
  }
}

// Verbatim text of a string is certain up to the quote that may end it, an escape that is not complete, or
// anything that strict JSON does not have.
void LiveJson::advance() {
  if (!live_string_ || !verbatim_) return;
  const std::string_view text = in_.view();
  const auto hex = [&](std::size_t at) {
    return at + 6 <= text.size() && text[at + 1] == 'u' &&
           std::ranges::all_of(text.substr(at + 2, 4), [](char c) {
             return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
           });
  };
  const auto surrogate = [&](std::size_t at) {  // 0 none, 1 high, 2 low
    if (text[at + 2] != 'd' && text[at + 2] != 'D') return 0;
    const char kind = text[at + 3];
    if (kind < '8') return 0;
    return kind == '8' || kind == '9' || kind == 'a' || kind == 'b' || kind == 'A' || kind == 'B' ? 1 : 2;
  };
  std::size_t at = scanned_;
  while (at < text.size()) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (c == '"' || c < 0x20) break;
    if (c != '\\') {
      ++at;
      continue;
    }
    if (at + 1 >= text.size()) break;
    if (text[at + 1] != 'u') {
      if (!std::string_view("\"\\/bfnrt").contains(text[at + 1])) break;
      at += 2;
      continue;
    }
    if (!hex(at) || surrogate(at) == 2) break;
    if (surrogate(at) == 0) {
      at += 6;
      continue;
    }
    if (at + 7 >= text.size() || text[at + 6] != '\\' || !hex(at + 6) || surrogate(at + 6) != 2) break;
    at += 12;
  }
  scanned_ = at;
  if (at > sent_) send_through(at);
}

void LiveJson::end_string(std::size_t end) {
  if (depth_ != 1) return;
  if (std::exchange(in_key_, false)) return key_ends();
  if (!std::exchange(live_string_, false)) return value_ends(end);
  if (!verbatim_) return book_.send("\"");
  live_string_ = true;
  advance();
  live_string_ = false;
  // The quote that ended it is the one where the strict text stopped.
  if (scanned_ + 1 == end && extent_.level() == 0) {
    send_through(end);
  } else {
    stopped_ = true;
  }
}

void LiveJson::key_ends() {
  const ToolSchema* tool = book_.tool();
  const std::string own = key_;
  if (tool) key_ = match_key(*tool, key_);
  if (!keys_.insert(key_).second || (verbatim_ && key_ != own)) stopped_ = true;
}

void LiveJson::scalar(std::size_t at, std::size_t end) {
  if (depth_ != 1) return;
  value_begins(at);
  value_ends(end);
}

// A member other than a live string is complete: it is sent if coercion leaves it alone or, where text is not
// sent as it is, after coercion.
void LiveJson::value_ends(std::size_t end) {
  if (!live()) return;
  if (verbatim_ && extent_.level() != 0) {
    stopped_ = true;
    return;
  }
  JsonOptions whole = options_;
  whole.closers = {};
  JsonRead read = read_json(in_.view().substr(value_begin_, end - value_begin_), whole);
  std::vector<Repair> repairs;
  if (read.status == JsonStatus::complete) {
    coerce_value(read.value, member_position(root_, key_), "/" + key_, repairs);
  }
  if (read.status != JsonStatus::complete || (verbatim_ && !repairs.empty())) {
    stopped_ = true;
  } else if (verbatim_) {
    send_through(end);
  } else {
    book_.send((book_.sent().empty() ? "{" : ",") + compact_json(json::value(key_)) + ":" +
               compact_json(read.value));
  }
}

}  // namespace gezel::turn
