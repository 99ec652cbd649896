#include "turn/tolerant_json.h"

#include <gtest/gtest.h>

#include <random>

#include "turn/calls.h"
#include "turn/test_table.h"

namespace gezel::turn {
namespace {

struct Case {
  std::string text;
  std::vector<std::string> closer_texts;
  std::vector<std::string_view> closers;
  JsonOptions options;
  TextEnd end = TextEnd::stopped;
};

void read_case(const json::object& row, Case& c) {
  c.text = string_or(row, "in");
  if (const auto* closers = array_at(row, "closers")) {
    for (const auto& closer : *closers) c.closer_texts.emplace_back(closer.as_string());
  }
  c.closers.assign(c.closer_texts.begin(), c.closer_texts.end());
  c.options.closers = c.closers;
  c.options.gemma_quotes = bool_or(row, "gemma", false);
  c.options.keyword_value = bool_or(row, "keyword", false);
  if (const auto* native = array_at(row, "native")) {
    for (const auto& number : *native) c.options.native |= step(static_cast<int>(number.as_int64()));
  }
  c.end = string_or(row, "end") == "cut" ? TextEnd::cut : TextEnd::stopped;
}

std::string_view name_of(JsonStatus status) {
  switch (status) {
    case JsonStatus::incomplete:
      return "incomplete";
    case JsonStatus::complete:
      return "complete";
    case JsonStatus::truncated:
      return "truncated";
    case JsonStatus::malformed:
      return "malformed";
  }
  return "";
}

void check_read(const json::object& row, const JsonRead& read) {
  EXPECT_EQ(name_of(read.status), string_or(row, "status")) << read.problem;
  EXPECT_EQ(read.level, int_or(row, "level", read.level));
  EXPECT_EQ(static_cast<std::int64_t>(read.consumed),
            int_or(row, "consumed", static_cast<std::int64_t>(read.consumed)));
  EXPECT_EQ(read.inside_string, bool_or(row, "inside_string", false));
  EXPECT_EQ(read.fenced, bool_or(row, "fenced", false));
  EXPECT_EQ(read.problem, string_or(row, "problem", read.problem));
  if (const auto* value = row.if_contains("value")) {
    EXPECT_EQ(compact_json(read.value), compact_json(*value));
  }
}

TEST(TolerantJson, EveryCaseOfTheTableHolds) {
  for_each_row("tolerant_json.jsonl", [](const json::object& row) {
    Case c;
    read_case(row, c);
    check_read(row, read_json(c.text, c.options, c.end));
  });
}

TEST(TolerantJson, EveryCaseOfArgumentsHolds) {
  for_each_row("arguments.jsonl", [](const json::object& row) {
    Case c;
    read_case(row, c);
    check_read(row, read_arguments(c.text, c.options, c.end));
  });
}

TEST(TolerantJson, TextBeyondTheLimitIsRefused) {
  JsonOptions options;
  options.max_bytes = 10;
  EXPECT_EQ(read_json("\"12345678\"", options).status, JsonStatus::complete);
  EXPECT_EQ(read_json("[\"123456\"]", options).status, JsonStatus::complete);
  const auto read = read_json("[\"1234567\"]", options);
  EXPECT_EQ(read.status, JsonStatus::malformed);
  EXPECT_EQ(read.problem, "longer than the limit");
  EXPECT_EQ(read_json("{} and a lot of text behind it", options).status, JsonStatus::complete);
}

TEST(TolerantJson, BrokenUtf8BecomesWellFormed) {
  const auto read = read_json("[\"a\xFF\"]");
  EXPECT_EQ(read.status, JsonStatus::complete);
  EXPECT_EQ(read.value.as_array()[0].as_string(), "a\xEF\xBF\xBD");
}

TEST(TolerantJson, NumbersTooLargeOrTooSmallStayNumbers) {
  for (const std::string_view text : {"[1e999,-1e999,1e-999]", "[1e999,-1e999,1e-999,]"}) {
    EXPECT_EQ(compact_json(read_json(text).value), "[1e999,-1e999,0.0]") << text;
  }
}

// --- what an incremental reader finds

// Writes down everything it is told.
class Recorder final : public JsonEvents {
 public:
  std::string log;

  void open_object(std::size_t at) override { note("{", at); }
  void open_array(std::size_t at) override { note("[", at); }
  void close_object(std::size_t end) override { note("}", end); }
  void close_array(std::size_t end) override { note("]", end); }
  void begin_string(bool is_key, std::size_t at) override { note(is_key ? "key " : "string ", at); }
  void string_part(std::string_view text) override { log += text; }
  void end_string(std::size_t end) override { note(" end ", end); }
  void scalar(std::string_view token, std::size_t at, std::size_t end) override {
    note(token, at);
    note("-", end);
  }

 private:
  void note(std::string_view what, std::size_t at) {
    log += what;
    log += std::to_string(at) + ' ';
  }
};

// Everything that is to be independent of splits.
std::string summary(const JsonExtent& extent, const Recorder& events) {
  return std::string(name_of(extent.status())) + " at " + std::to_string(extent.end()) + " level " +
         std::to_string(extent.level()) + (extent.inside_string() ? " inside " : " ") +
         std::string(extent.problem()) + ": " + events.log;
}

std::string read_whole(const Case& c) {
  Recorder events;
  JsonExtent extent(c.options, &events);
  extent.feed(c.text);
  extent.finish(c.end);
  return summary(extent, events);
}

// Cut at every place that `next_cut` gives, from the one before.
std::string read_pieces(const Case& c, const std::function<std::size_t(std::size_t)>& next_cut) {
  Recorder events;
  JsonExtent extent(c.options, &events);
  for (std::size_t at = 0; at < c.text.size();) {
    const std::size_t cut = std::min(next_cut(at), c.text.size());
    extent.feed(std::string_view(c.text).substr(at, cut - at));
    at = cut;
  }
  extent.finish(c.end);
  return summary(extent, events);
}

void check_splits(const Case& c, std::mt19937& random) {
  const std::string whole = read_whole(c);
  EXPECT_EQ(read_pieces(c, [](std::size_t at) { return at + 1; }), whole) << c.text;
  for (std::size_t middle = 1; middle < c.text.size(); ++middle) {
    EXPECT_EQ(read_pieces(c, [&](std::size_t at) { return at < middle ? middle : c.text.size(); }), whole)
        << c.text << " cut at " << middle;
  }
  for (int round = 0; round < 20; ++round) {
    EXPECT_EQ(read_pieces(c, [&](std::size_t at) { return at + 1 + random() % 7; }), whole) << c.text;
  }
}

TEST(JsonExtent, AnySplitOfTheTableFindsTheSame) {
  std::mt19937 random(1);
  for_each_row("tolerant_json.jsonl", [&](const json::object& row) {
    Case c;
    read_case(row, c);
    check_splits(c, random);
  });
}

std::string random_text(std::mt19937& random) {
  static constexpr std::string_view kPieces[] = {
      "{",    "}",   "[",       "]",    "\"",     "\"",     "'",      ",",    ":",        " ",
      "\n",   "a",   "b1",      "true", "None",   "12",     "-1.5e2", "\\",   "\\u",      "d83e",
      "*",    "/",   "*/",      "<",    "|",      "<|\"|>", "</x>",   "</",   "<escape>", "```",
      "é",    ")",   "{\"a\":", "[1,",  "\"k\":", "\":",    "\",\"",  "\\\"", "\\ud83e",  "\xEF\xBB\xBF",
      "\x01", "\"}", "\"]"};
  std::string text = random() % 2 == 0 ? "{" : "";
  for (unsigned i = random() % 16; i > 0; --i) text += kPieces[random() % std::size(kPieces)];
  return text;
}

TEST(JsonExtent, AnySplitOfRandomTextFindsTheSame) {
  std::mt19937 random(2);
  for (int round = 0; round < 10'000; ++round) {
    static constexpr std::string_view kClosers[] = {"</x>", ")"};
    Case c;
    c.text = random_text(random);
    c.options.closers = kClosers;
    c.options.gemma_quotes = random() % 2 == 0;
    c.options.keyword_value = random() % 4 == 0;
    c.end = random() % 4 == 0 ? TextEnd::cut : TextEnd::stopped;
    const std::string whole = read_whole(c);
    ASSERT_EQ(read_pieces(c, [](std::size_t at) { return at + 1; }), whole) << c.text;
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(read_pieces(c, [&](std::size_t at) { return at + 1 + random() % 5; }), whole) << c.text;
    }
  }
}

json::value random_value(std::mt19937& random, int depth) {
  static constexpr std::string_view kStrings[] = {"",    "x",    "a\"b", "\\", "\n\t",
                                                  "é🫐", "</x>", ",}]:", "*/", "\x01"};
  switch (random() % (depth > 0 ? 8 : 6)) {
    case 0:
      return nullptr;
    case 1:
      return random() % 2 == 0;
    case 2:
      return static_cast<std::int64_t>(random()) - 2'000'000'000;
    case 3:
      return static_cast<double>(random()) / 1000;
    case 4:
    case 5:
      return json::string(kStrings[random() % std::size(kStrings)]);
    case 6: {
      json::array array;
      for (unsigned i = random() % 4; i > 0; --i) array.push_back(random_value(random, depth - 1));
      return array;
    }
    default: {
      json::object object;
      for (unsigned i = random() % 4; i > 0; --i) {
        object[kStrings[random() % std::size(kStrings)]] = random_value(random, depth - 1);
      }
      return object;
    }
  }
}

TEST(TolerantJson, StrictValuesAreReadAsBoostReadsThem) {
  std::mt19937 random(3);
  for (int round = 0; round < 5'000; ++round) {
    const json::value value = random_value(random, 4);
    const std::string text = random() % 2 == 0 ? json::serialize(value) : compact_json(value);
    const auto parsed = parse_json(text);
    ASSERT_TRUE(parsed) << text;

    Recorder events;
    JsonExtent extent({}, &events);
    extent.feed(text);
    ASSERT_EQ(extent.finish(TextEnd::stopped), JsonStatus::complete) << text;
    EXPECT_EQ(extent.level(), 0) << text;
    EXPECT_EQ(extent.end(), text.size()) << text;

    const auto read = read_json(text);
    EXPECT_TRUE(read.strict()) << text;
    EXPECT_EQ(canonical_json(read.value), canonical_json(*parsed)) << text;
  }
}

TEST(TolerantJson, TheTolerantReaderGivesTheStrictValueToo) {
  // A comma too many sends the whole text through the tolerant reader.
  std::mt19937 random(4);
  for (int round = 0; round < 5'000; ++round) {
    const std::string text = compact_json(random_value(random, 4));
    const auto strict = read_json("[" + text + "]");
    const auto tolerant = read_json("[" + text + ",]");
    ASSERT_EQ(tolerant.status, JsonStatus::complete) << text;
    EXPECT_EQ(tolerant.level, 8) << text;
    EXPECT_EQ(canonical_json(tolerant.value), canonical_json(strict.value)) << text;
  }
}

TEST(TolerantJson, AStringIsNeverChangedByARepairElsewhere) {
  // Every repair but those of the string itself, around a strict string.
  static constexpr std::string_view kAround[] = {"\xEF\xBB\xBF{\"a\":%}",
                                                 "```json\n{\"a\":%}```",
                                                 "{a:%}",
                                                 "{'a':%}",
                                                 "{\"a\":%,}",
                                                 "{\"b\":None,\"a\":%}",
                                                 "{\"a\":%",
                                                 "{<|\"|>a<|\"|>:%}",
                                                 "{\"b\":\"x\ny\",\"a\":%}",
                                                 "{\"b\":\"\\d\",\"a\":%}",
                                                 "{\"b\":\"x \"y\" z\",\"a\":%}"};
  static constexpr std::string_view kHeld[] = {"True, None,",       "a:b", "it's 'x'", ",,]",  "*/ /* <|\"|>",
                                               "<escape>x<escape>", "```", "\\d",      "</x>", "x\ny"};
  static constexpr std::string_view kClosers[] = {"</x>"};
  JsonOptions options;
  options.gemma_quotes = true;
  options.closers = kClosers;
  for (const std::string_view around : kAround) {
    for (const std::string_view held : kHeld) {
      std::string text(around);
      text.replace(text.find('%'), 1, json::serialize(json::string(held)));
      const auto read = read_json(text, options);
      ASSERT_EQ(read.status, JsonStatus::complete) << text;
      EXPECT_EQ(read.value.as_object().at("a").as_string(), held) << text;
    }
  }
}

TEST(TolerantJson, HostileTextStaysLinear) {
  // A quarter of a megabyte each. Quadratic work would take minutes here.
  const auto repeat = [](std::string_view piece) {
    std::string text;
    while (text.size() < kMaxArgumentBytes / 4) text += piece;
    return text;
  };
  static constexpr std::string_view kClosers[] = {"</tool_call>"};
  JsonOptions options;
  options.closers = kClosers;
  options.gemma_quotes = true;
  for (const std::string_view piece : {"[", "{\"a\":", "\"", "\"\"", "\\", "'", "<", "*/", "\" </tool_call",
                                       ",", "a", "\\ud83d", "\"    "}) {
    for (const std::string_view front : {"", "{\"a\":\"", "[", "{\"a\":<|\"|>", "{\"a\":*/", "{"}) {
      EXPECT_NE(read_json(std::string(front) + repeat(piece), options).status, JsonStatus::incomplete);
    }
  }
}

}  // namespace
}  // namespace gezel::turn
