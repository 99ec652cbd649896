// A dialect whose markers were found by rendering (F12): the grammar of derived_dialect.h.
#include <array>

#include "turn/body.h"
#include "turn/derived_dialect.h"
#include "turn/regions.h"

namespace gezel::turn {
namespace {

BodyEnd bad(BodyContext& c) {
  return c.give_up(c.in.ended() ? BodyEnd::truncated : BodyEnd::malformed);
}

// Over white space and a marker; an empty marker is always there.
Task<bool> pass(BodyContext& c, const std::string& marker) {
  if (marker.empty()) co_return true;
  const std::array<std::string_view, 1> literal = {marker};
  co_return co_await c.in.after_space(literal) == 0;
}

Task<BodyEnd> read_members(BodyContext& c, const DerivedDialect& d) {
  ArgumentsWriter writer(c.book);
  const std::string& end_of_call = d.close.empty() ? d.section_close : d.close;
  const std::array<std::string_view, 1> ends = {end_of_call};
  const std::array<ValueStop, 1> stop = {{{.text = d.argument_end}}};
  for (;;) {
    if (!end_of_call.empty() && co_await c.in.after_space(ends, true) == 0) break;
    if (!co_await pass(c, d.argument_open)) {
      if (!end_of_call.empty() || (c.in.ended() && c.in.view().empty())) co_return bad(c);
      break;
    }
    co_await c.in.skip_space();
    const std::optional<std::string> key = co_await c.in.until(d.key_end);
    if (!key || key->empty()) {
      if (end_of_call.empty() && d.argument_open.empty()) break;
      co_return bad(c);
    }
    if (d.form == DerivedDialect::Form::json_members) {
      writer.begin_json_value(*key);
    } else {
      writer.begin_value(*key, MarkupValue::trimmed_line);
    }
    const int found = co_await read_value(c.in, writer, stop, d.argument_end.front());
    if (found == kValueTooLarge) co_return c.give_up(BodyEnd::malformed);
    if (found == kValueEnded) co_return c.give_up(BodyEnd::truncated);
    writer.end_value();
  }
  writer.close(c.span(), c.captured);
  c.next_call();
  co_return BodyEnd::complete;
}

// Behind the call's opener.
Task<BodyEnd> read_call(BodyContext& c, const DerivedDialect& d) {
  if (d.form == DerivedDialect::Form::object) {
    co_return co_await read_call_objects(c,
                                         {.source = family_form(12), .json = {.closers = c.dialect.closers}});
  }
  co_await c.in.skip_space();
  const std::string name = co_await c.in.name();
  if (name.empty()) co_return bad(c);
  if (!co_await pass(c, d.name_end)) {
    c.cut_name = name;
    co_return bad(c);
  }
  c.book.open(family_form(12), name, {});
  if (d.form != DerivedDialect::Form::json) co_return co_await read_members(c, d);
  co_await c.in.skip_space();
  co_return co_await read_json_arguments(c, {.closers = c.dialect.closers});
}

}  // namespace

Task<BodyEnd> derived_body(BodyContext& c) {
  const DerivedDialect& d = *c.derived;
  if (!d.section_open.empty() && !co_await pass(c, d.open)) co_return bad(c);
  for (;;) {
    const BodyEnd end = co_await read_call(c, d);
    if (end != BodyEnd::complete) co_return end;
    co_await pass(c, d.close);
    // Without a section the next call has an opener of its own.
    if (d.section_open.empty()) co_return BodyEnd::complete;
    const bool separated = !d.separator.empty() && co_await pass(c, d.separator);
    const bool opened = !d.open.empty() && co_await pass(c, d.open);
    if (!separated && !opened) break;
  }
  if (!co_await pass(c, d.section_close) && c.in.ended()) {
    // The next call's opener may have been cut.
    const std::string_view rest = trimmed(c.in.view());
    if (d.open.starts_with(rest) || d.separator.starts_with(rest)) c.in.skip(c.in.view().size());
  }
  co_return BodyEnd::complete;
}

}  // namespace gezel::turn
