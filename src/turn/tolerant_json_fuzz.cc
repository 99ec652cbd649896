// The first byte chooses the options, the rest is the text. Whole and cut into pieces it must give the same;
// a value that needed no repair must be what the strict parser reads; what is read must be well-formed.
#include <cstdlib>

#include "base/utf8.h"
#include "turn/calls.h"
#include "turn/tolerant_json.h"

namespace {

using gezel::turn::JsonExtent;
using gezel::turn::JsonStatus;

// Checks that brackets and strings come in pairs and that offsets never go back.
class Checker final : public gezel::turn::JsonEvents {
 public:
  std::string text;

  void open_object(std::size_t at) override { move(at), ++open_; }
  void open_array(std::size_t at) override { move(at), ++open_; }
  void close_object(std::size_t end) override { move(end), check(open_-- > 0); }
  void close_array(std::size_t end) override { move(end), check(open_-- > 0); }
  void begin_string(bool, std::size_t at) override { move(at), check(!in_string_), in_string_ = true; }
  void string_part(std::string_view part) override { check(in_string_), text += part; }
  void end_string(std::size_t end) override { move(end), check(in_string_), in_string_ = false; }
  void scalar(std::string_view token, std::size_t at, std::size_t end) override {
    move(at), move(end), text += token;
  }

  static void check(bool holds) {
    if (!holds) std::abort();
  }

 private:
  void move(std::size_t at) {
    check(at >= at_);
    at_ = at;
    text += '|';
  }

  int open_ = 0;
  bool in_string_ = false;
  std::size_t at_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static constexpr std::string_view kClosers[] = {"</tool_call>", "<tool_call|>", ")"};
  gezel::turn::JsonOptions options;
  options.gemma_quotes = (data[0] & 1) != 0;
  options.keyword_value = (data[0] & 2) != 0;
  if ((data[0] & 4) != 0) options.closers = kClosers;
  if ((data[0] & 8) != 0) options.max_bytes = 100;
  const auto end = (data[0] & 16) != 0 ? gezel::turn::TextEnd::cut : gezel::turn::TextEnd::stopped;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);

  Checker whole_events, piece_events;
  JsonExtent whole(options, &whole_events), pieces(options, &piece_events);
  whole.feed(text);
  whole.finish(end);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t piece = 1 + static_cast<unsigned char>(text[at]) % 5;
    pieces.feed(text.substr(at, piece));
    at += piece;
  }
  pieces.finish(end);
  Checker::check(whole.status() == pieces.status() && whole.end() == pieces.end());
  Checker::check(whole.level() == pieces.level() && whole.inside_string() == pieces.inside_string());
  Checker::check(whole_events.text == piece_events.text && whole.end() <= text.size());

  const auto read = gezel::turn::read_json(text, options, end);
  if (read.strict()) {
    // The strict parser asks for well-formed UTF-8 and refuses exponents of more than nine digits.
    const std::string_view value = text.substr(0, read.consumed);
    Checker::check(gezel::parse_json(value).has_value() || gezel::find_invalid_utf8(value).has_value() ||
                   value.find_first_of("eE") != std::string_view::npos);
  }
  if (read.status == JsonStatus::complete || read.status == JsonStatus::truncated) {
    const std::string again = gezel::turn::compact_json(read.value);
    Checker::check(!gezel::find_invalid_utf8(again));
    gezel::turn::JsonOptions unbounded;
    unbounded.max_bytes = again.size() + 1;
    const auto back = gezel::turn::read_json(again, unbounded);
    Checker::check(back.strict() && gezel::turn::compact_json(back.value) == again);
  }
  gezel::turn::read_arguments(text, options, end);
  return 0;
}
