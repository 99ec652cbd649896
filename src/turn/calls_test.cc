#include "turn/calls.h"

#include <gtest/gtest.h>

#include <set>

namespace gezel::turn {
namespace {

Call call(std::string id, std::string name, std::string_view arguments) {
  Call result;
  result.id = std::move(id);
  result.name = std::move(name);
  result.arguments = parse_json(arguments)->as_object();
  return result;
}

// Counts up, so that ids are known.
class CountingEntropy final : public Entropy {
 public:
  void fill(unsigned char* out, std::size_t size) override {
    for (std::size_t i = 0; i < size; ++i) out[i] = next_++;
  }

 private:
  unsigned char next_ = 0;
};

// Gives the same id twice before it gives another.
class RepeatingEntropy final : public Entropy {
 public:
  void fill(unsigned char* out, std::size_t size) override {
    std::fill_n(out, size, static_cast<unsigned char>(calls_++ / 2));
  }

 private:
  int calls_ = 0;
};

TEST(CompactJson, HasNoBlanksAndKeepsKeysAndNumbers) {
  EXPECT_EQ(
      compact_json(*parse_json(R"({ "b" : [ 1, 2.5, 3.0, -0.5, 1e30, true, null ], "a" : "x\n\"é/" })")),
      R"({"b":[1,2.5,3.0,-0.5,1e+30,true,null],"a":"x\n\"é/"})");
}

TEST(CompactJson, DoublesSurviveTheWayBack) {
  for (const double number : {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, 123456789.125}) {
    EXPECT_EQ(parse_json(compact_json(json::value(number)))->as_double(), number);
  }
}

TEST(CanonicalJson, IsOneTextForOneValue) {
  EXPECT_EQ(canonical_json(*parse_json(R"({"b":{"y":3.0,"x":[{"d":1,"c":2}]},"a":1})")),
            R"({"a":1,"b":{"x":[{"c":2,"d":1}],"y":3}})");
}

TEST(Duplicates, TheSameCallCollapsesToTheFirst) {  // P21
  std::vector<Call> calls = {call("1", "add", R"({"a":1,"b":2})"), call("2", "add", R"({"b":2.0,"a":1})")};
  EXPECT_EQ(collapse_duplicates(calls), 1u);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].id, "1");
}

TEST(Duplicates, DifferentArgumentsAreDifferentCalls) {  // P20
  std::vector<Call> calls = {call("1", "add", R"({"a":1,"b":2})"), call("2", "add", R"({"a":3,"b":4})"),
                             call("3", "ping", "{}"), call("4", "add", "{}")};
  EXPECT_EQ(collapse_duplicates(calls), 0u);
}

TEST(Duplicates, MalformedCallsAreComparedByTheirText) {
  std::vector<Call> calls(3);
  for (Call& c : calls) c.malformed = true;
  calls[0].arguments_text = calls[2].arguments_text = "{\"a";
  EXPECT_EQ(collapse_duplicates(calls), 1u);
}

TEST(Source, HasAName) {
  EXPECT_EQ(to_string(Source{}), "native");
  EXPECT_EQ(to_string(Source{Source::Form::strong, 12}), "strong:S12");
  EXPECT_EQ(to_string(Source{Source::Form::family, 1}), "family:F1");
  EXPECT_EQ(to_string(Source{Source::Form::weak, 4}), "weak:W4");
}

TEST(ProseSalvaged, IsWeakOrASpellingTheGrammarDoesNotProduce) {
  const std::vector<Source> grammar = {{Source::Form::strong, 2}};
  Provenance provenance;
  EXPECT_FALSE(prose_salvaged(provenance, grammar));
  provenance.source = {Source::Form::strong, 2};
  EXPECT_FALSE(prose_salvaged(provenance, grammar));
  EXPECT_TRUE(prose_salvaged(provenance, {}));
  provenance.source = {Source::Form::strong, 1};
  EXPECT_TRUE(prose_salvaged(provenance, grammar));
  provenance.source = {Source::Form::weak, 2};
  EXPECT_TRUE(prose_salvaged(provenance, grammar));
}

TEST(CallIds, NewIdsAreCallAnd24LettersAndDigits) {
  SystemEntropy entropy;
  CallIds ids(entropy);
  std::set<std::string> all;
  for (int i = 0; i < 1000; ++i) {
    const std::string id = ids.take();
    ASSERT_EQ(id.size(), 29u);
    EXPECT_TRUE(id.starts_with("call_"));
    EXPECT_EQ(id.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", 5),
              std::string::npos);
    all.insert(id);
  }
  EXPECT_EQ(all.size(), 1000u);
}

TEST(CallIds, RandomnessIsInjected) {
  CountingEntropy entropy;
  CallIds ids(entropy);
  EXPECT_EQ(ids.take(), "call_ABCDEFGHIJKLMNOPQRSTUVWX");
}

TEST(CallIds, AnIdOfTheConversationIsNotGivenAgain) {
  RepeatingEntropy entropy;
  CallIds ids(entropy);
  EXPECT_EQ(ids.take(), "call_AAAAAAAAAAAAAAAAAAAAAAAA");
  EXPECT_EQ(ids.take(), "call_BBBBBBBBBBBBBBBBBBBBBBBB");
}

TEST(CallIds, AnIdThatTheCallerUsedIsNotGivenAgain) {
  RepeatingEntropy entropy;
  const std::vector<std::string> used = {"call_AAAAAAAAAAAAAAAAAAAAAAAA"};
  CallIds ids(entropy, used);
  EXPECT_EQ(ids.take(), "call_BBBBBBBBBBBBBBBBBBBBBBBB");
}

}  // namespace
}  // namespace gezel::turn
