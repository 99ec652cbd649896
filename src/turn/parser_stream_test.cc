// What a parser tells while a message arrives: when text is released, when calls are announced, what their
// fragments are.
#include <gtest/gtest.h>

#include "turn/leading_hold.h"
#include "turn/parser.h"
#include "turn/parser_test_support.h"

namespace gezel::turn {
namespace {

ParserOptions with_tools() {
  ParserOptions options;
  options.tools = case_tools();
  return options;
}

constexpr std::string_view kPing = R"(<tool_call>{"name":"ping","arguments":{}}</tool_call>)";

std::string content_of(const Events& events) {
  Seen seen;
  seen.add(events);
  return seen.content;
}

// The events a text causes, cut into pieces of `piece` bytes, as one line each.
std::vector<std::string> told(std::string_view text, ParserOptions options, std::size_t piece = 1) {
  std::vector<std::string> lines;
  const auto tell = [&](const Events& events) {
    for (const Event& event : events) {
      if (const auto* e = std::get_if<ReasoningDelta>(&event)) lines.push_back("r " + e->text);
      if (const auto* e = std::get_if<ContentDelta>(&event)) lines.push_back("c " + e->text);
      if (const auto* e = std::get_if<CallBegin>(&event)) lines.push_back("begin " + e->name);
      if (const auto* e = std::get_if<CallArgumentsDelta>(&event)) lines.push_back("args " + e->text);
      if (const auto* e = std::get_if<CallEnd>(&event)) {
        lines.push_back(e->outcome == CallOutcome::complete    ? "end"
                        : e->outcome == CallOutcome::truncated ? "truncated"
                                                               : "malformed");
      }
      if (const auto* e = std::get_if<Replace>(&event))
        lines.push_back("replace " + e->reasoning + "|" + e->content);
    }
  };
  Parser parser(std::move(options));
  for (std::size_t at = 0; at < text.size(); at += piece) tell(parser.feed(text.substr(at, piece)));
  tell(parser.finish(FinishReason::stop).events);
  return lines;
}

using Lines = std::vector<std::string>;

// --- text

TEST(ParserStream, B06ACharacterInPiecesComesWhole) {
  Parser parser({});
  EXPECT_TRUE(parser.feed("\xF0").empty());
  EXPECT_TRUE(parser.feed("\x9F").empty());
  EXPECT_TRUE(parser.feed("\xAB").empty());
  EXPECT_EQ(content_of(parser.feed("\x90")), "🫐");
}

TEST(ParserStream, B06ACharacterCutByTheEndIsReplacedOnce) {
  EXPECT_EQ(told("a\xF0\x9F\xAB", {}), (Lines{"c a", "c \uFFFD"}));
}

TEST(ParserStream, OnlyWhatMayBecomeAMarkerIsWithheld) {
  Parser parser({});
  EXPECT_EQ(content_of(parser.feed("a < b <thi")), "a < b");
  EXPECT_EQ(content_of(parser.feed("s> c")), " <this> c");
}

TEST(ParserStream, TrailingWhiteSpaceIsWithheld) {
  Parser parser({});
  EXPECT_EQ(content_of(parser.feed("a\n\n")), "a");
  EXPECT_EQ(content_of(parser.feed("b")), "\n\nb");
}

TEST(ParserStream, ReasoningAndContentAreToldApart) {
  EXPECT_EQ(told("<think>a</think>b", {}, 100), (Lines{"r a", "c b"}));
}

TEST(ParserStream, AStrayCloserAtAnUnknownStartReplacesTheMessageAtTheEnd) {
  ParserOptions options;
  options.start = StartState::unknown;
  EXPECT_EQ(told("a</think>b", options, 100), (Lines{"c ab", "replace a|b"}));
}

TEST(ParserStream, AnOpenBlockInTheMiddleReturnsWithAReplacement) {
  EXPECT_EQ(told("a <think>b", {}, 100), (Lines{"c a", "r b", "c  <think>b", "replace |a <think>b"}));
}

TEST(ParserStream, EnginesMayDeliverReasoningThemselves) {
  Parser parser({});
  Seen seen;
  seen.add(parser.feed_reasoning("Let me "));
  seen.add(parser.feed_reasoning("see."));
  seen.add(parser.feed("<think>Hm.</think>Hi"));
  const auto finished = parser.finish(FinishReason::stop);
  seen.add(finished.events);
  EXPECT_EQ(seen.reasoning, "Let me see.\n\nHm.");
  EXPECT_EQ(finished.message.reasoning, seen.reasoning);
  EXPECT_EQ(finished.message.content, "Hi");
}

TEST(ParserStream, MarkersThatAreSpecialTokensCountOnlyAsSuch) {
  ParserOptions options = with_tools();
  options.special_markers = {"<tool_call>", "</think>"};
  options.start = StartState::open;
  Parser parser(options);
  Seen seen;
  seen.add(parser.feed("people write </think> and <tool_call>{} here"));
  seen.add(parser.feed_special("</think>"));
  seen.add(parser.feed("so <tool_call> it is. "));
  seen.add(parser.feed_special("<tool_call>"));
  seen.add(parser.feed(R"({"name":"ping","arguments":{}}</tool_call>)"));
  const Message message = parser.finish(FinishReason::stop).message;
  EXPECT_EQ(message.reasoning, "people write </think> and <tool_call>{} here");
  EXPECT_EQ(message.content, "so <tool_call> it is.");
  ASSERT_EQ(message.calls.size(), 1u);
}

TEST(ParserStream, KnowsWhereItIs) {
  ParserOptions options = with_tools();
  options.start = StartState::open;
  Parser parser(options);
  EXPECT_TRUE(parser.reasoning());
  parser.feed("a</think>b");
  EXPECT_FALSE(parser.reasoning());
  EXPECT_FALSE(parser.in_call());
  parser.feed("<tool_call>{\"name\"");
  EXPECT_TRUE(parser.in_call());
  parser.feed(":\"ping\"}");
  EXPECT_FALSE(parser.in_call());
}

// --- calls

TEST(ParserStream, ACallIsAnnouncedOnceItsNameIsKnown) {
  Parser parser(with_tools());
  EXPECT_TRUE(parser.feed(R"(<tool_call>{"name":"write_file","arguments":)").empty());
  Seen seen;
  seen.add(parser.feed("{"));
  ASSERT_EQ(seen.calls.size(), 1u);
  EXPECT_EQ(seen.calls[0].name, "write_file");
}

TEST(ParserStream, StringsArriveWhileTheyAreWritten) {
  EXPECT_EQ(told(R"(<tool_call>{"name":"search","arguments":{"query":"ab"}}</tool_call>)", with_tools()),
            (Lines{"begin search", "args {", "args \"query\":\"", "args a", "args b", "args \"}", "end"}));
}

TEST(ParserStream, WhatCoercionMayChangeWaitsForItsEnd) {
  EXPECT_EQ(told(R"(<tool_call>{"name":"add","arguments":{"a":12,"b":"3"}}</tool_call>)", with_tools()),
            (Lines{"begin add", "args {", "args \"a\":12", "args ,\"b\":3}", "end"}));
}

TEST(ParserStream, MarkupStreamsStringsAndConvertsOthers) {
  const std::string text =
      "<function=search><parameter=query>\na\nb\n</parameter><parameter=exact>True</parameter></function>";
  EXPECT_EQ(told(text, with_tools()), (Lines{"begin search", "args {\"query\":\"", "args a", "args \\nb",
                                             "args \"", "args ,\"exact\":true", "args }", "end"}));
}

TEST(ParserStream, B08FragmentsOfMarkupBeginBeforeTheFunctionCloses) {  // of P43
  Parser parser(with_tools());
  Seen seen;
  seen.add(parser.feed("<function=write_file>\n<parameter=path>\na.html\n</parameter>\n"));
  EXPECT_EQ(seen.calls.at(0).arguments, R"({"path":"a.html")");
  seen.add(parser.feed("<parameter=content>\n\n<b>x < y</b>\n\n</parameter>\n</function>"));
  seen.add(parser.finish(FinishReason::stop).events);
  EXPECT_EQ(seen.calls.at(0).arguments, R"({"path":"a.html","content":"\n<b>x < y</b>\n"})");
}

TEST(ParserStream, GemmaIsSentAsCompactJson) {
  EXPECT_EQ(told("<|tool_call>call:search{query:<|\"|>a\"b<|\"|>, exact: true}<tool_call|>", with_tools()),
            (Lines{"begin search", "args {\"query\":\"", "args a", "args \\\"", "args b", "args \"",
                   "args ,\"exact\":true}", "end"}));
}

TEST(ParserStream, B09TheSameCallTwiceIsAnnouncedOnce) {  // P21
  const std::string text = R"(<tool_call>{"name":"add","arguments":{"a":1,"b":2}}</tool_call>)"
                           R"(<tool_call>{"name":"add","arguments":{"b":2,"a":1}}</tool_call>)";
  const Lines lines = told(text, with_tools());
  EXPECT_EQ(std::ranges::count_if(lines, [](const auto& line) { return line.starts_with("begin"); }), 1);
}

TEST(ParserStream, AnotherCallOfTheSameNameIsAnnouncedWhenItIsComplete) {
  const std::string first = R"(<tool_call>{"name":"add","arguments":{"a":1,"b":2}}</tool_call>)";
  Parser parser(with_tools());
  parser.feed(first);
  EXPECT_TRUE(parser.feed(R"(<tool_call>{"name":"add","arguments":{"a":3,"b":4)").empty());
  Seen seen;
  for (const Event& event : parser.feed("}}")) {
    if (const auto* begin = std::get_if<CallBegin>(&event)) EXPECT_EQ(begin->index, 1);
    if (const auto* delta = std::get_if<CallArgumentsDelta>(&event))
      EXPECT_EQ(delta->text, R"({"a":3,"b":4})");
  }
}

TEST(ParserStream, AnIdBehindTheArgumentsIsWaitedForWhereTheDialectHasItThere) {
  EXPECT_EQ(told(R"([TOOL_CALLS][{"name":"ping","arguments":{},"id":"abc123def"}])", with_tools()),
            (Lines{"begin ping", "args {}", "end"}));
}

TEST(ParserStream, AnnouncedCallsThatAreCutStayAsTheyWereSent) {
  Parser parser(with_tools());
  Seen seen;
  seen.add(parser.feed(R"(<tool_call>{"name":"write_file","arguments":{"path":"a.txt","content":"hel)"));
  const auto finished = parser.finish(FinishReason::length);
  seen.add(finished.events);
  ASSERT_EQ(seen.calls.size(), 1u);
  EXPECT_EQ(seen.calls[0].outcome, CallOutcome::truncated);
  EXPECT_EQ(seen.calls[0].arguments, R"({"path":"a.txt","content":"hel)");
  EXPECT_TRUE(finished.message.calls.empty());
  ASSERT_EQ(finished.message.abandoned.size(), 1u);
  EXPECT_EQ(finished.message.abandoned[0].arguments, seen.calls[0].arguments);
  EXPECT_EQ(finished.message.truncated, (Lines{"write_file"}));
}

TEST(ParserStream, ARepairThatCannotExtendWhatWasSentMakesTheCallMalformed) {
  // The first value of the repeated key is on its way already, and only a repair shows that another follows.
  const std::string text =
      R"(<tool_call>{"name":"search","arguments":{"query":"a","exact":True,"query":"b"}}</tool_call>)";
  Parser parser(with_tools());
  Seen seen;
  seen.add(parser.feed(text));
  const auto finished = parser.finish(FinishReason::stop);
  ASSERT_EQ(seen.calls.size(), 1u);
  EXPECT_EQ(seen.calls[0].outcome, CallOutcome::malformed);
  EXPECT_EQ(seen.calls[0].arguments, R"({"query":"a")");
  EXPECT_EQ(finished.message.malformed, 1);
  EXPECT_EQ(finished.message.unparsed.at(0).name, "search");
}

// --- requests

TEST(ParserStream, WithoutParallelCallsTheFirstOneStays) {
  ParserOptions options = with_tools();
  options.parallel_calls = false;
  const std::string text =
      std::string(kPing) + R"(<tool_call>{"name":"add","arguments":{"a":1,"b":2}}</tool_call>)";
  const Message message = parse_message(text, options);
  ASSERT_EQ(message.calls.size(), 1u);
  EXPECT_EQ(message.calls[0].name, "ping");
  EXPECT_EQ(message.repairs, (Lines{"calls after the first were dropped: parallel_tool_calls is false"}));
}

TEST(ParserStream, B23CallsMayLackRequiredArguments) {  // their caller validates
  const Message message =
      parse_message(R"(<tool_call>{"name":"get_weather","arguments":{}}</tool_call>)", with_tools());
  ASSERT_EQ(message.calls.size(), 1u);
  EXPECT_EQ(message.calls[0].arguments_text, "{}");
  EXPECT_TRUE(message.unparsed.empty());
  EXPECT_TRUE(message.repairs.empty());
}

TEST(ParserStream, B28ToolChoiceNoneLeavesCallsInTheText) {
  constexpr std::string_view kP18 =
      "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\", \"days\": "
      "3}}\n</tool_call>";
  ParserOptions options = with_tools();
  options.tool_choice_none = true;
  const Message message = parse_message(kP18, options);
  EXPECT_TRUE(message.calls.empty());
  EXPECT_EQ(message.content, kP18);
}

TEST(ParserStream, TheSalvageLevelSaysWhichFormsCount) {
  ParserOptions options = with_tools();
  options.salvage = SalvageLevel::off;
  EXPECT_EQ(parse_message(kPing, options).content, kPing);
  options.salvage = SalvageLevel::strong;
  EXPECT_EQ(parse_message(kPing, options).calls.size(), 1u);
  EXPECT_EQ(parse_message("add(a=1, b=2)", options).content, "add(a=1, b=2)");
  options.salvage = SalvageLevel::all;
  EXPECT_EQ(parse_message("add(a=1, b=2)", options).calls.size(), 1u);
}

TEST(ParserStream, NativeCallsComeWithTheOthers) {
  Parser parser(with_tools());
  Seen seen;
  seen.add(parser.feed_native_call("c1", "add", R"({"a": 1, "b": "2"})"));
  seen.add(parser.feed_native_call("c2", "search", "{broken"));
  seen.add(parser.feed_native_call("c3", "launch", "{}"));
  seen.add(parser.feed("add(a=3, b=4)"));
  const auto finished = parser.finish(FinishReason::stop);
  seen.add(finished.events);
  ASSERT_EQ(finished.message.calls.size(), 2u);
  EXPECT_EQ(finished.message.calls[0].arguments_text, R"({"a":1,"b":2})");
  EXPECT_EQ(to_string(finished.message.calls[0].provenance.source), "native");
  EXPECT_TRUE(finished.message.calls[1].malformed);
  EXPECT_EQ(finished.message.calls[1].arguments_text, "{broken");
  EXPECT_EQ(finished.message.unknown, (Lines{"launch"}));
  EXPECT_EQ(finished.message.content, "add(a=3, b=4)")
      << "weak forms count only where there is no other call";
}

// --- content that begins like a call

TEST(ParserStream, ALeadingJsonCallIsNeverShown) {
  EXPECT_EQ(told(R"({"name": "get_weather", "parameters": {"city": "Oslo"}})", with_tools()),
            (Lines{"begin get_weather", "args {\"city\":\"Oslo\"}", "end"}));
  EXPECT_EQ(told("```json\n{\"name\":\"ping\",\"arguments\":{}}\n```\nDone.", with_tools()),
            (Lines{"c Done.", "begin ping", "args {}", "end"}));
}

TEST(ParserStream, OtherLeadingJsonIsReleasedOnceItIsComplete) {
  Parser parser(with_tools());
  EXPECT_EQ(content_of(parser.feed(R"({"name": "Oslo", "population": 7000)")), "");
  EXPECT_EQ(content_of(parser.feed("00} people")), R"({"name": "Oslo", "population": 700000} people)");
}

TEST(ParserStream, B32HeldContentIsReleasedAtItsLimit) {
  Parser parser(with_tools());
  std::string text = "{\"a\": \"";
  text.append(kMaxHeldContent - text.size() - 1, 'x');
  EXPECT_EQ(content_of(parser.feed(text)), "");
  EXPECT_EQ(content_of(parser.feed("y")), text + "y");
  EXPECT_EQ(content_of(parser.feed("z")), "z");
}

TEST(ParserStream, HeldContentIsReleasedByAStrongCall) {
  const Lines lines =
      told("{\"name\":\"add\",\"arguments\":{\"a\":1,\"b\":2}} " + std::string(kPing), with_tools(), 200);
  EXPECT_EQ(lines,
            (Lines{"c {\"name\":\"add\",\"arguments\":{\"a\":1,\"b\":2}}", "begin ping", "args {}", "end"}));
}

TEST(ParserStream, NothingIsHeldWhereWeakFormsDoNotCount) {
  ParserOptions options = with_tools();
  options.salvage = SalvageLevel::strong;
  Parser parser(options);
  EXPECT_EQ(content_of(parser.feed("{\"a\"")), "{\"a\"");
}

// --- what a caller learns

TEST(ParserReport, ProvenanceSaysWhereACallCameFrom) {
  ParserOptions options = with_tools();
  options.grammar = {strong(1)};
  const std::string text = "Hm. <tool_call>{'name':'add','arguments':{'a':1,'b':'2'}}</tool_call>";
  const Call call = parse_message(text, options).calls.at(0);
  EXPECT_EQ(to_string(call.provenance.source), "strong:S1");
  EXPECT_EQ(call.provenance.repair, 6);
  EXPECT_TRUE(call.provenance.coerced);
  EXPECT_TRUE(call.provenance.constrained);
  EXPECT_EQ(text.substr(call.provenance.text_span.begin,
                        call.provenance.text_span.end - call.provenance.text_span.begin),
            "{'name':'add','arguments':{'a':1,'b':'2'}}");
}

TEST(ParserReport, ASpellingThatTheGrammarDoesNotProduceIsNotConstrained) {
  ParserOptions options = with_tools();
  options.grammar = {strong(2)};
  EXPECT_FALSE(parse_message(kPing, options).calls.at(0).provenance.constrained);
}

TEST(ParserReport, RepairsAreToldToPeople) {
  const std::string text =
      R"(<tool_call>{"name":"Get-Weather","arguments":{"City":"Oslo","days":"3",}}</tool_call>)";
  EXPECT_EQ(parse_message(text, with_tools()).repairs,
            (Lines{"get_weather: called as \"Get-Weather\"", "get_weather: superfluous commas forgiven (R8)",
                   "get_weather: argument \"City\" is \"city\" in the schema",
                   "get_weather: /days was \"3\", the schema wants 3"}));
}

TEST(ParserReport, WhatDoesNotRunIsReturnedAsItWasWritten) {
  const Message message = parse_message(
      R"(<tool_call>{"name":"launch","arguments":{"x":1}}</tool_call> and <tool_call>oops, nothing here</tool_call>)",
      with_tools());
  EXPECT_EQ(message.unparsed, (std::vector<Unparsed>{{"launch", R"({"name":"launch","arguments":{"x":1}})"},
                                                     {"", "<tool_call>oops, nothing here</tool_call>"}}));
}

TEST(ParserReport, CutCallsShowWhatArrived) {
  const std::string arrived = R"({"path":"a.txt","content":"hel"})";
  for (const std::string_view text :
       {R"(<tool_call>{"name":"write_file","arguments":{"path":"a.txt","content":"hel)",
        R"([TOOL_CALLS]write_file[ARGS]{"path": "a.txt", "content": "hel)",
        "<function=write_file><parameter=path>\na.txt\n</parameter><parameter=content>\nhel",
        "<tool_call>write_file<arg_key>path</arg_key><arg_value>a.txt</arg_value><arg_key>content</"
        "arg_key><arg_value>hel",
        "<|tool_call>call:write_file{path:<|\"|>a.txt<|\"|>,content:<|\"|>hel"}) {
    const Message message = parse_message(text, with_tools(), FinishReason::length);
    EXPECT_EQ(message.truncated, (Lines{"write_file"})) << text;
    ASSERT_EQ(message.cut.size(), 1u) << text;
    EXPECT_EQ(message.cut[0].arguments_text, arrived) << text;
    EXPECT_TRUE(message.cut[0].provenance.truncated);
  }
}

TEST(ParserReport, FlagsSayWhatCallsWereRecoveredFrom) {
  EXPECT_TRUE(parse_message("add(a=1, b=2)", with_tools()).flags.prose_repaired);
  EXPECT_TRUE(parse_message("<ping/>", with_tools()).flags.xml_tag_repaired);
  EXPECT_TRUE(parse_message("invoke add {\"a\":1,\"b\":2}", with_tools()).flags.bare_invoke_repaired);
  EXPECT_TRUE(parse_message("{\"name\":\"ping\",\"arguments\":{}}", with_tools()).flags.envelope_repaired);
  EXPECT_TRUE(
      parse_message("{\"name\":\"ping\",\"arguments\":{\"a\":\"", with_tools()).flags.envelope_truncated);
  EXPECT_TRUE(parse_message(kPing, with_tools()).flags.hermes_repaired);
  EXPECT_TRUE(parse_message("<tool_call>ping</tool_call>", with_tools()).flags.glm_repaired);
  EXPECT_TRUE(
      parse_message("<tool_call>get_weather city=Oslo</tool_call>", with_tools()).flags.shell_repaired);
  EXPECT_TRUE(parse_message("<invoke name=\"ping\"></invoke>", with_tools()).flags.claude_invoke_repaired);
  EXPECT_TRUE(parse_message("<tool_call>{\"name\":\"ping\"", with_tools()).flags.truncated_salvage);
  EXPECT_TRUE(parse_message("<tool_call>{\"name\":\"launch\"}", with_tools()).flags.unknown_call);
}

TEST(ParserReport, PlanningProseMovesToTheReasoningWhereTheBehaviourSaysSo) {
  const std::string text = "Let me think about it.\n\nStep 1: ping.\n\nPinging.\n\n" + std::string(kPing);
  EXPECT_EQ(parse_message(text, with_tools()).content, "Let me think about it.\n\nStep 1: ping.\n\nPinging.");
  ParserOptions options = with_tools();
  options.capture_pre_tool_prose = true;
  const Message message = parse_message(text, options);
  EXPECT_EQ(message.reasoning, "Let me think about it.\n\nStep 1: ping.");
  EXPECT_EQ(message.content, "Pinging.");
}

// --- framing

TEST(ParserFraming, AnEngineThatKnowsControlWordsByIdLeavesThemAsText) {
  ParserOptions options;
  options.scrub_framing = false;
  EXPECT_EQ(parse_message("Write <|im_end|> here.", options).content, "Write <|im_end|> here.");
}

TEST(ParserFraming, WhatFramesTheMessagesOfAFamilyIsRemovedAllTheSame) {
  const auto content = [](Family family, std::string_view text) {
    ParserOptions options;
    options.family = family;
    options.scrub_framing = false;
    return parse_message(text, options).content;
  };
  EXPECT_EQ(
      content(Family::kimi_k3, "<|open|>response<|sep|>Hi<|close|>response<|sep|><|close|>message<|sep|>"),
      "Hi");
  EXPECT_EQ(content(Family::muse, " to=user<|message|>Hi"), "Hi");
  EXPECT_EQ(content(Family::solar, "<|content|>Hi"), "Hi");
  EXPECT_EQ(content(Family::granite, "<response>Hi</response>"), "Hi");
  EXPECT_EQ(content(Family::other, "<|START_RESPONSE|>Hi<|END_RESPONSE|>"), "Hi");
}

// --- limits

TEST(ParserLimits, CallsBeyondTheLimitAreDropped) {
  std::string text;
  for (int i = 0; i < 200; ++i) {
    text +=
        "<tool_call>{\"name\":\"add\",\"arguments\":{\"a\":" + std::to_string(i) + ",\"b\":2}}</tool_call>";
  }
  const Message message = parse_message(text, with_tools());
  EXPECT_EQ(message.calls.size(), kMaxCalls);
  EXPECT_EQ(message.content, "");
}

TEST(ParserLimits, ArgumentsBeyondTheLimitMakeACallMalformed) {
  const std::string large(kMaxArgumentBytes + 10, 'x');
  for (const std::string& text :
       {"<function=search><parameter=query>" + large + "</parameter></function> Hi",
        "<tool_call>{\"name\":\"search\",\"arguments\":{\"query\":\"" + large + "\"}}</tool_call> Hi",
        "[TOOL_CALLS]search[ARGS]{\"query\":\"" + large + "\"}"}) {
    const Message message = parse_message(text, with_tools());
    EXPECT_TRUE(message.calls.empty());
    EXPECT_EQ(message.malformed, 1);
  }
}

TEST(ParserLimits, ArgumentsAtTheLimitAreRead) {
  const std::string large(kMaxArgumentBytes - 100, 'x');
  const Message message = parse_message(
      "<tool_call>{\"name\":\"search\",\"arguments\":{\"query\":\"" + large + "\"}}</tool_call>",
      with_tools());
  EXPECT_EQ(message.calls.size(), 1u);
}

TEST(ParserLimits, DeepNestingMakesACallMalformed) {
  const std::string deep(200, '[');
  const Message message = parse_message(
      "<tool_call>{\"name\":\"search\",\"arguments\":{\"tags\":" + deep + "}}</tool_call>Hi", with_tools());
  EXPECT_EQ(message.malformed, 1);
  EXPECT_EQ(message.content, "Hi");
}

}  // namespace
}  // namespace gezel::turn
