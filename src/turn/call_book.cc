#include "turn/call_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "turn/tolerant_json.h"

namespace gezel::turn {
namespace {

// What each step of the tolerant reader forgave.
constexpr std::array<std::string_view, 12> kForgiven = {
    "",
    "text around the JSON",
    "quotes of another dialect",
    "raw control characters inside strings",
    "invalid escapes",
    "literals of another language",
    "single-quoted strings",
    "bare keys or words",
    "superfluous commas",
    "unescaped quotes inside strings",
    "JSON inside a string",
    "missing brackets",
};

void set_flag(ParseFlags& flags, Source source) {
  if (source.form == Source::Form::weak) {
    switch (source.row) {
      case 1:
        flags.envelope_repaired = true;
        break;
      case 2:
        flags.xml_tag_repaired = true;
        break;
      case 3:
        flags.bare_invoke_repaired = true;
        break;
      case 4:
        flags.prose_repaired = true;
        break;
      default:
        break;
    }
  } else if (source.form == Source::Form::strong) {
    switch (source.row) {
      case 1:
      case 6:
      case 8:
        flags.hermes_repaired = true;
        break;
      case 5:
        flags.glm_repaired = true;
        break;
      case 7:
        flags.shell_repaired = true;
        break;
      case 9:
        flags.claude_invoke_repaired = true;
        break;
      default:
        break;
    }
  }
}

std::vector<std::string> names_of(std::span<const ToolSchema> tools) {
  std::vector<std::string> names;
  for (const ToolSchema& tool : tools) names.push_back(tool.name);
  return names;
}

std::string shortened(std::string text) {
  constexpr std::size_t kMax = 80;
  if (text.size() <= kMax) return text;
  std::size_t end = kMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

template <class T>
void add_bounded(std::vector<T>& list, T item) {
  if (list.size() < kMaxReported) list.push_back(std::move(item));
}

}  // namespace

std::optional<std::string> extend_arguments(std::string_view sent, const json::object& arguments) {
  std::string text(sent);
  JsonRead begun = read_json(text + "}");
  const bool inside_string = !begun.strict();
  if (inside_string) begun = read_json(text + "\"}");
  if (!begun.strict() || !begun.value.is_object()) return std::nullopt;
  const json::object& members = begun.value.get_object();
  if (members.size() > arguments.size() || (inside_string && members.empty())) return std::nullopt;

  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto& have = *(members.begin() + i);
    const auto& want = *(arguments.begin() + i);
    if (have.key() != want.key()) return std::nullopt;
    if (!inside_string || i + 1 < members.size()) {
      if (have.value() != want.value()) return std::nullopt;
      continue;
    }
    const auto* begin = have.value().if_string();
    const auto* whole = want.value().if_string();
    if (!begin || !whole || !std::string_view(*whole).starts_with(std::string_view(*begin))) {
      return std::nullopt;
    }
    const std::string rest = compact_json(json::value(std::string_view(*whole).substr(begin->size())));
    text.append(rest, 1);  // with the closing quote, without the opening one
  }
  for (std::size_t i = members.size(); i < arguments.size(); ++i) {
    const auto& member = *(arguments.begin() + i);
    if (i > 0) text += ',';
    text += compact_json(json::value(member.key())) + ":" + compact_json(member.value());
  }
  return text + "}";
}

CallBook::CallBook(const Options& options, Events& events)
    : options_(options), events_(events), names_(names_of(options.tools)) {}

void CallBook::open(Source source, std::string_view name, std::string_view engine_id, bool live) {
  any_ = open_ = true;
  announced_ = false;
  source_ = source;
  wanted_ = name;
  engine_id_ = engine_id;
  sent_.clear();
  const auto tool = names_.resolve(name);
  tool_ = tool ? &options_.tools[*tool] : nullptr;
  const bool more = next_index_ < static_cast<int>(kMaxCalls) && (options_.parallel || calls.empty());
  if (tool_ && live && more && !seen_names_.contains(tool_->name)) announce();
}

void CallBook::announce() {
  announced_ = true;
  index_ = next_index_++;
  seen_names_.insert(tool_->name);
  id_ = options_.ids ? options_.ids->take() : engine_id_;
  events_.push_back(CallBegin{index_, id_, tool_->name});
}

void CallBook::send(std::string_view fragment) {
  if (!streaming()) return;
  sent_ += fragment;
  add_arguments(events_, index_, fragment);
}

void CallBook::close(Closing closing) {
  open_ = false;
  if (!tool_) {
    flags.unknown_call = true;
    add_bounded(unknown_names, wanted_);
    report(wanted_, closing.raw);
    return;
  }
  std::vector<Repair> fitted;
  if (!closing.built) fitted = coerce_arguments(closing.arguments, *tool_);
  if (!fitted.empty()) closing.text.reset();

  std::optional<std::string> text = closing.text ? std::move(closing.text) : compact_json(closing.arguments);
  if (!text->starts_with(sent_)) text = extend_arguments(sent_, closing.arguments);
  if (!text) return give_up(CallOutcome::malformed, closing.raw);

  std::string same = tool_->name + '\n' + canonical_json(closing.arguments);
  if (!announced_) {
    if (seen_calls_.contains(same)) return repaired(tool_->name + ": the same call again was dropped");
    if (next_index_ >= static_cast<int>(kMaxCalls) || (!options_.parallel && !calls.empty())) {
      if (!std::exchange(dropped_, true)) {
        repaired(options_.parallel ? fmt::format("calls after the first {} were dropped", kMaxCalls)
                                   : "calls after the first were dropped: parallel_tool_calls is false");
      }
      return;
    }
    announce();
  }
  add_arguments(events_, index_, std::string_view(*text).substr(sent_.size()));
  events_.push_back(CallEnd{index_});
  seen_calls_.insert(std::move(same));
  set_flag(flags, source_);
  if (closing.repair == 11) flags.truncated_salvage = true;
  note_repairs(closing, fitted);

  Call call;
  call.id = id_;
  call.engine_id = engine_id_;
  call.name = tool_->name;
  call.arguments = std::move(closing.arguments);
  call.arguments_text = *std::move(text);
  call.provenance.source = source_;
  call.provenance.repair = closing.repair;
  call.provenance.coerced = closing.coerced || !fitted.empty();
  call.provenance.constrained = std::ranges::find(options_.grammar, source_) != options_.grammar.end();
  call.provenance.text_span = closing.span;
  calls.push_back(std::move(call));
  indexes.push_back(index_);
}

void CallBook::close_unread(std::string_view arguments) {
  open_ = false;
  if (!tool_) {
    flags.unknown_call = true;
    add_bounded(unknown_names, wanted_);
    return report(wanted_, arguments);
  }
  if (next_index_ >= static_cast<int>(kMaxCalls)) return;
  announce();
  add_arguments(events_, index_, arguments);
  events_.push_back(CallEnd{index_});
  repaired(tool_->name + ": arguments are no JSON and were left as they are");
  Call call;
  call.id = id_;
  call.engine_id = engine_id_;
  call.name = tool_->name;
  call.arguments_text = arguments;
  call.malformed = true;
  calls.push_back(std::move(call));
  indexes.push_back(index_);
}

void CallBook::abandon(CallOutcome outcome, std::string_view raw) {
  open_ = false;
  give_up(outcome, raw);
}

void CallBook::give_up(CallOutcome outcome, std::string_view raw) {
  if (outcome == CallOutcome::truncated) {
    add_bounded(truncated_names, tool_ ? tool_->name : wanted_);
    if (tool_ && reader_) {
      Call call;
      call.id = announced_ ? id_ : std::string();
      call.engine_id = engine_id_;
      call.name = tool_->name;
      call.arguments = reader_->arguments_so_far();
      call.provenance.source = source_;
      call.provenance.truncated = true;
      call.provenance.coerced = !coerce_arguments(call.arguments, *tool_).empty();
      call.arguments_text = compact_json(call.arguments);
      add_bounded(cut, std::move(call));
    }
  } else {
    ++malformed_count;
    report(tool_ ? tool_->name : wanted_, raw);
  }
  if (!announced_) return;
  events_.push_back(CallEnd{index_, outcome});
  abandoned.push_back({index_, id_, tool_->name, sent_, outcome});
}

void CallBook::malformed(std::string_view raw) {
  any_ = true;
  ++malformed_count;
  report({}, raw);
}

void CallBook::truncated(std::string_view name) {
  any_ = true;
  const auto tool = names_.resolve(name);
  add_bounded(truncated_names, tool ? names_.names()[*tool] : std::string(name));
}

void CallBook::repaired(std::string what) {
  add_bounded(repairs, std::move(what));
}

void CallBook::report(std::string_view name, std::string_view raw) {
  std::size_t size = std::min(raw.size(), kMaxUnparsedBytes);
  while (size < raw.size() && size > 0 && (static_cast<unsigned char>(raw[size]) & 0xC0) == 0x80) --size;
  add_bounded(unparsed, Unparsed{std::string(name), std::string(raw.substr(0, size))});
}

void CallBook::note_repairs(const Closing& closing, const std::vector<Repair>& fitted) {
  const std::string& name = tool_->name;
  if (source_.form == Source::Form::weak) {
    repaired(fmt::format("{}: taken from text that only looks like a call ({})", name, to_string(source_)));
  }
  if (wanted_ != name) repaired(fmt::format("{}: called as \"{}\"", name, shortened(wanted_)));
  if (closing.repair > 0 && closing.repair < static_cast<int>(kForgiven.size())) {
    repaired(fmt::format("{}: {} forgiven (R{})", name, kForgiven[static_cast<std::size_t>(closing.repair)],
                         closing.repair));
  }
  for (const Repair& fix : fitted) {
    if (fix.kind == Repair::Kind::renamed) {
      repaired(fmt::format("{}: argument {} is {} in the schema", name, shortened(compact_json(fix.from)),
                           shortened(compact_json(fix.to))));
    } else {
      repaired(fmt::format("{}: {} was {}, the schema wants {}", name, fix.field,
                           shortened(compact_json(fix.from)), shortened(compact_json(fix.to))));
    }
  }
}

}  // namespace gezel::turn
