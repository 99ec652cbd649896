#include "turn/splitter.h"

#include <algorithm>

#include "turn/reasoning_markers.h"

namespace gezel::turn {

Splitter::Splitter(const SplitterOptions& options, bool inside)
    : tools_(options.tools),
      calls_(options.calls),
      calls_in_reasoning_(options.calls && options.tool_open_ends_reasoning),
      special_markers_(options.special_markers),
      inside_(inside && options.split_reasoning),
      at_start_(!inside_) {
  // In the order in which markers of equal text are asked.
  if (options.split_reasoning) {
    for (const auto& [open, close] : options.private_markers) {
      add(open, {.what = What::open}, false, true, true);
      add(close, {.what = What::close}, false, true, true);
    }
    for (const ReasoningMarkers& row : reasoning_markers()) {
      if (row.scope == MarkerScope::family && row.family != options.family) continue;
      if (row.scope == MarkerScope::profile && !options.profile_row) continue;
      add(row.open,
          {.what = What::open,
           .word = row.word,
           .at_start = row.at_start,
           .until_blank_line = row.until_blank_line},
          row.any_case, true, true);
      add(row.close, {.what = What::close, .close_frames = row.close_frames}, row.any_case, true, true);
      if (row.until_blank_line) {
        add("\n\n", {.what = What::close, .until_blank_line = true}, false, false, true);
      }
    }
  }
  if (options.calls) {
    const auto add_dialect = [&](const Dialect& dialect) {
      for (const std::string_view opener : dialect.openers) {
        add(opener, {.what = What::tool, .dialect = &dialect}, false, true, calls_in_reasoning_);
      }
    };
    if (options.private_dialect) add_dialect(*options.private_dialect);
    for (const Dialect& dialect : dialects()) {
      if (dialect.family != Family::other && dialect.family == options.family) add_dialect(dialect);
    }
    for (const Dialect& dialect : dialects()) {
      if (dialect.family == Family::other) add_dialect(dialect);
    }
  }
  for (const FamilyFraming& framing : family_framing()) {
    if (framing.family == Family::other || framing.family == options.family) {
      add(framing.token, {}, false, true, true);
    }
  }
  if (options.scrub_framing) {
    for (const std::string& word : control_words()) add(word, {}, false, true, true);
  }
  if (options.calls) {
    // Where openers do not end reasoning, a closer inside it is not alone.
    for (const std::string_view closer : lone_call_closers()) {
      add(closer, {}, false, true, calls_in_reasoning_);
    }
  }
  content_.build();
  reasoning_.build();
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    content_stops_[static_cast<std::size_t>(byte)] =
        content_.may_begin(c) || c == '`' || (calls_ && c == '<');
    reasoning_stops_[static_cast<std::size_t>(byte)] =
        reasoning_.may_begin(c) || (calls_in_reasoning_ && c == '<');
  }
}

void Splitter::add(std::string_view text, Marker marker, bool any_case, bool content, bool reasoning) {
  if (text.empty()) return;
  marker.special = std::ranges::find(special_markers_, text) != special_markers_.end();
  const int id = static_cast<int>(markers_.size());
  markers_.push_back(marker);
  if (content) content_.add(text, id, any_case);
  if (reasoning) reasoning_.add(text, id, any_case);
}

// Text of the content goes by: lines, and code.
void Splitter::see(std::string_view text) {
  if (text.empty()) return;
  end_tick_run();
  const std::size_t newline = text.rfind('\n');
  if (newline != text.npos) {
    if (code_.kind == Code::Kind::span) code_.kind = Code::Kind::none;
    line_start_ = true;
  }
  const std::string_view line = newline == text.npos ? text : text.substr(newline + 1);
  line_start_ = line_start_ && line.find_first_not_of(" \t") == line.npos;
  if (at_start_) at_start_ = std::ranges::all_of(text, is_space);
  if (newline != text.npos) code_.info_line = false;
}

// A run of backticks is complete: it opens or closes code.
void Splitter::end_tick_run() {
  const std::size_t ticks = std::exchange(tick_run_, 0);
  if (ticks == 0) return;
  switch (code_.kind) {
    case Code::Kind::none:
      code_ = {ticks >= 3 && tick_run_at_line_start_ ? Code::Kind::fence : Code::Kind::span, ticks, true};
      break;
    case Code::Kind::span:
      if (ticks == code_.ticks) code_.kind = Code::Kind::none;
      break;
    case Code::Kind::fence:
      // Also ```code``` on one line.
      if (ticks >= code_.ticks && (tick_run_at_line_start_ || code_.info_line)) code_.kind = Code::Kind::none;
      break;
  }
}

Look Splitter::applies(const Marker& marker, std::string_view text, std::size_t size, bool ended) const {
  static const ToolNames kNone({});
  if (!inside_ && code_.kind != Code::Kind::none) return Look::no;
  switch (marker.what) {
    case What::open:
      if (inside_ && marker.at_start) return Look::no;
      if (marker.at_start && !at_start_) return Look::no;
      if (marker.word) {
        if (text.size() == size) return ended ? Look::yes : Look::wait;
        if (is_name_char(text[size]) && text[size] != '.' && text[size] != '-') return Look::no;
      }
      return Look::yes;
    case What::close:
      return marker.until_blank_line && !until_blank_line_ ? Look::no : Look::yes;
    case What::framing:
      return Look::yes;
    case What::tool:
      return check_guard(marker.dialect->guard, text, size, ended, line_start_, tools_ ? *tools_ : kNone);
  }
  return Look::no;
}

// What begins at the start of `text`.
Splitter::Decision Splitter::marker_at(std::string_view text, bool ended, std::size_t offset,
                                       const Input* in) const {
  const MarkerSet::Found found = (inside_ ? reasoning_ : content_).find(text);
  if (found.undecided && !ended) return {Look::wait, {}, 0};
  for (std::size_t i = 0; i < found.count; ++i) {
    const Marker& marker = markers_[static_cast<std::size_t>(found.matches[i].id)];
    if (marker.special && (!in || !in->special_at(offset))) continue;
    const Look look = applies(marker, text, found.matches[i].size, ended);
    if (look != Look::no) return {look, marker, found.matches[i].size};
  }
  if (text.front() == '<' && (inside_ ? calls_in_reasoning_ : calls_)) {
    static const Dialect& kInvoke = dialect(strong(9));
    Decision call{.marker = {.what = What::tool, .dialect = &kInvoke}};
    call.look = namespaced_opener(text, ended, call.size);
    if (call.look == Look::yes) call.look = applies(call.marker, text, call.size, ended);
    return call;
  }
  return {};
}

// Backticks at the start of a line: the fence around a call, up to the opener, or the one that closes it.
Splitter::Decision Splitter::wrapping_fence(std::string_view text, bool ended, std::size_t offset,
                                            const Input* in) const {
  constexpr std::size_t kMaxTicks = 16, kMaxInfo = 32, kMaxLead = 256;
  const Decision undecided{Look::wait, {}, 0};
  const std::string_view lead = text.substr(0, kMaxLead);
  const bool more = !ended && lead.size() < kMaxLead;
  const std::size_t ticks = std::min(lead.find_first_not_of('`'), lead.size());
  if (ticks == lead.size() && more && ticks <= kMaxTicks) return undecided;
  if (wrapping_ticks_ > 0) return {ticks >= wrapping_ticks_ ? Look::yes : Look::no, {}, ticks};
  if (ticks < 3 || ticks > kMaxTicks) return {};
  std::size_t at = ticks;
  while (at < lead.size() && is_name_char(lead[at])) ++at;
  const bool info = at > ticks;
  if (at - ticks > kMaxInfo) return {};
  while (at < lead.size() && (lead[at] == ' ' || lead[at] == '\r')) ++at;
  if (at == lead.size()) return more ? undecided : Decision{};
  if (lead[at] != '\n' && info) return {};
  while (at < lead.size() && is_space(lead[at])) ++at;
  if (at == lead.size()) return more ? undecided : Decision{};
  const Decision opener = marker_at(text.substr(at), ended, offset + at, in);
  if (opener.look == Look::no || (opener.look == Look::yes && opener.marker.what != What::tool)) return {};
  return {opener.look, {}, at};
}

Splitter::Step Splitter::take(const Decision& found) {
  const bool was_inside = inside_;
  switch (found.marker.what) {
    case What::open:
      if (was_inside) return {Kind::reopen, found.size};
      inside_ = true;
      until_blank_line_ = found.marker.until_blank_line;
      at_start_ = false;
      return {Kind::open, found.size};
    case What::close:
      if (!was_inside && found.marker.close_frames) return {Kind::framing, found.size};
      inside_ = false;
      at_start_ = false;
      return {was_inside ? Kind::close : Kind::stray_close, found.size};
    case What::framing:
      return {Kind::framing, found.size};
    case What::tool:
      inside_ = false;
      at_start_ = false;
      line_start_ = false;
      return {Kind::tool, found.size, found.marker.dialect};
  }
  return {};
}

Splitter::Step Splitter::next(std::string_view text, bool ended, std::size_t offset, const Input* in) {
  const std::array<bool, 256>& stops = inside_ ? reasoning_stops_ : content_stops_;
  std::size_t at = 0, seen = 0;
  for (;;) {
    while (at < text.size() && !stops[static_cast<unsigned char>(text[at])]) ++at;
    if (at == text.size()) break;
    if (!inside_ && text[at] == '`') {
      see(text.substr(seen, at - seen));
      seen = at;
      if (calls_ && tick_run_ == 0 && code_.kind == Code::Kind::none &&
          (line_start_ || wrapping_ticks_ > 0)) {
        const Decision fence = wrapping_fence(text.substr(at), ended, offset + at, in);
        if (fence.look != Look::no) {
          if (at > 0) return {Kind::text, at};
          if (fence.look == Look::wait) return {};
          const std::size_t ticks = std::min(text.find_first_not_of('`'), text.size());
          wrapping_ticks_ = wrapping_ticks_ > 0 ? 0 : ticks;
          return {Kind::framing, fence.size};
        }
      }
      if (tick_run_ == 0) tick_run_at_line_start_ = line_start_;
      ++tick_run_;
      line_start_ = false;
      at_start_ = false;
      seen = ++at;
      continue;
    }
    if (!inside_) {
      see(text.substr(seen, at - seen));
      end_tick_run();
      seen = at;
    }
    const Decision found = marker_at(text.substr(at), ended, offset + at, in);
    if (found.look != Look::no) {
      // What comes first goes first; the marker is found again.
      if (at > 0) return {Kind::text, at};
      return found.look == Look::wait ? Step{} : take(found);
    }
    ++at;
  }
  if (!inside_) see(text.substr(seen));
  return at > 0 ? Step{Kind::text, at} : Step{};
}

ReasoningTracker::ReasoningTracker(const SplitterOptions& options, StartState start)
    : splitter_(options, start == StartState::open) {}

std::vector<ReasoningTracker::Boundary> ReasoningTracker::feed(std::string_view bytes) {
  pending_.append(bytes);
  std::vector<Boundary> found;
  std::string_view text = pending_;
  for (;;) {
    const bool was_inside = splitter_.inside();
    const Splitter::Step step = splitter_.next(text, false, offset_);
    if (step.kind == Splitter::Kind::wait) break;
    if (splitter_.inside() != was_inside) {
      found.push_back({offset_, offset_ + step.size, splitter_.inside(), step.kind == Splitter::Kind::tool});
    }
    text.remove_prefix(step.size);
    offset_ += step.size;
  }
  pending_.assign(text);
  return found;
}

}  // namespace gezel::turn
