#include "turn/derived_dialect.h"

#include <gtest/gtest.h>

#include <functional>

#include "turn/parser_test_support.h"

namespace gezel::turn {
namespace {

using Members = std::vector<std::pair<std::string, std::string>>;
// Writes calls as some template would.
using Template = std::function<std::string(const std::vector<std::pair<std::string, Members>>&)>;

std::unique_ptr<const DerivedDialect> derive(const Template& write) {
  const auto message = [&](std::string_view text, const std::vector<std::pair<std::string, Members>>& calls) {
    return "<s>user: hello\n<s>assistant: " + (calls.empty() ? std::string(text) : write(calls)) + "</s>\n";
  };
  RenderedFixtures f{.text = "gzqtext",
                     .name = "gzqname",
                     .name2 = "gzqother",
                     .key = "gzqkey",
                     .value = "gzqvalue",
                     .key2 = "gzqkex",
                     .value2 = "gzqvaluf"};
  const Members one = {{"gzqkey", "gzqvalue"}};
  f.text_message = message("gzqtext", {});
  f.one_argument = message("", {{"gzqname", one}});
  f.number_argument = message("", {{"gzqname", {{"gzqkey", "90217"}}}});
  f.number = 90217;
  f.two_arguments = message("", {{"gzqname", {{"gzqkey", "gzqvalue"}, {"gzqkex", "gzqvaluf"}}}});
  f.two_calls = message("", {{"gzqname", one}, {"gzqother", one}});
  return derive_dialect(f);
}

std::string object_of(const Members& members) {
  json::object object;
  for (const auto& [key, value] : members) object[key] = value;
  return to_json(object);
}

const std::vector<std::pair<std::string, Members>> kCalls = {
    {"search", {{"query", "a < b"}}}, {"write_file", {{"path", "p"}, {"content", "x\ny"}}}};

// The calls come back from what the template wrote, however it is cut.
void check_round_trip(const Template& write, DerivedDialect::Form form) {
  const auto derived = derive(write);
  ASSERT_TRUE(derived);
  EXPECT_EQ(derived->form, form);
  ParserOptions options;
  options.tools = case_tools();
  options.derived = derived.get();
  const std::string text = "Hm.\n" + write(kCalls);
  const Parsed whole = parse_pieces({text}, options);
  ASSERT_EQ(whole.message.calls.size(), 2u) << describe(whole.message);
  EXPECT_EQ(whole.message.content, "Hm.");
  EXPECT_EQ(to_string(whole.message.calls[0].provenance.source), "family:F12");
  EXPECT_EQ(compact_json(whole.message.calls[0].arguments), R"({"query":"a < b"})");
  EXPECT_EQ(compact_json(whole.message.calls[1].arguments), R"({"path":"p","content":"x\ny"})");
  for (std::size_t at = 0; at <= text.size(); ++at) {
    const std::string_view view = text;
    EXPECT_EQ(describe(parse_pieces({view.substr(0, at), view.substr(at)}, options).message),
              describe(whole.message));
  }
  // Cut anywhere, nothing of a call is shown.
  const std::string_view opener = derived->openers[0];
  const std::size_t first = text.find(opener) + opener.size(), second = text.find(opener, first);
  for (std::size_t end = first; end < text.size(); ++end) {
    if (end > second && end < second + opener.size()) continue;  // an opener that is not complete is text
    const Message cut =
        parse_pieces({std::string_view(text).substr(0, end)}, options, FinishReason::length).message;
    EXPECT_EQ(cut.content, "Hm.") << end;
  }
}

TEST(DerivedDialect, CallObjectsEachInTags) {
  check_round_trip(
      [](const auto& calls) {
        std::string out;
        for (const auto& [name, members] : calls) {
          out += "<<call>>\n{\"name\": \"" + name + "\", \"arguments\": " + object_of(members) +
                 "}\n<</call>>\n";
        }
        return out;
      },
      DerivedDialect::Form::object);
}

TEST(DerivedDialect, AnArrayOfCallObjects) {
  check_round_trip(
      [](const auto& calls) {
        std::string out = "<@calls>[";
        for (const auto& [name, members] : calls) {
          out += (out.ends_with('[') ? "" : ", ") +
                 ("{\"tool\": \"" + name + "\", \"args\": " + object_of(members) + "}");
        }
        return out + "]<@end>";
      },
      DerivedDialect::Form::object);
}

TEST(DerivedDialect, NamesInFrontOfJsonInASection) {
  check_round_trip(
      [](const auto& calls) {
        std::string out = "[[tools]]";
        for (const auto& [name, members] : calls)
          out += "[[fn]]" + name + "[[args]]" + object_of(members) + "[[/fn]]";
        return out + "[[/tools]]";
      },
      DerivedDialect::Form::json);
}

TEST(DerivedDialect, NamesInFrontOfJsonWithASeparator) {
  check_round_trip(
      [](const auto& calls) {
        std::string out = "<!calls!>";
        for (const auto& [name, members] : calls) {
          out += (out.ends_with("!>") ? "" : " ;; ") + name + "\n" + object_of(members);
        }
        return out + "<!end!>";
      },
      DerivedDialect::Form::json);
}

TEST(DerivedDialect, MembersInTags) {
  check_round_trip(
      [](const auto& calls) {
        std::string out;
        for (const auto& [name, members] : calls) {
          out += "<*do " + name + "*>\n";
          for (const auto& [key, value] : members) out += "<*set " + key + "*>" + value + "<*/set*>\n";
          out += "<*/do*>\n";
        }
        return out;
      },
      DerivedDialect::Form::members);
}

TEST(DerivedDialect, MembersWithQuotedValues) {
  check_round_trip(
      [](const auto& calls) {
        std::string out;
        for (const auto& [name, members] : calls) {
          out += "<%call " + name + "%>";
          for (const auto& [key, value] : members)
            out += "@" + key + "=" + to_json(json::value(value)) + "@;";
          out += "<%end%>";
        }
        return out;
      },
      DerivedDialect::Form::json_members);
}

TEST(DerivedDialect, NoneWhereTheTemplateShowsNoCalls) {
  EXPECT_FALSE(derive([](const auto&) { return std::string("nothing"); }));
}

TEST(DerivedDialect, NoneWhoseOpenerIsAWord) {
  EXPECT_FALSE(derive([](const auto& calls) {
    std::string out;
    for (const auto& [name, members] : calls) out += "call " + name + " " + object_of(members) + "\n";
    return out;
  }));
}

}  // namespace
}  // namespace gezel::turn
