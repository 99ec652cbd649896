#include "protocol/messages.h"

#include <gtest/gtest.h>

#include <boost/pfr.hpp>
#include <cmath>
#include <limits>

#include "base/json.h"
#include "protocol/schema.h"

namespace gezel::protocol {
namespace {

std::string body_of(const std::string& frame) {
  return frame.substr(kFrameHeaderBytes);
}

// ---- one message of each kind, every field set to a value that no other field of it has

prompt::GenerateRequest full_request() {
  prompt::GenerateRequest r;
  r.session_key = "session \"7\"";
  r.tenant = "app 8";
  r.parent_session = "session 6";
  r.ephemeral = true;
  r.prefix_snippets = true;
  r.lane = prompt::Lane::batch;
  r.messages = {
      {.role = prompt::Role::system,
       .content = {{prompt::ContentPart::Kind::text, "Sei kurz.\n\x01\x1f \\ / ü 語 😀"}}},
      {.role = prompt::Role::user,
       .content = {{prompt::ContentPart::Kind::text, ""},
                   {prompt::ContentPart::Kind::image, "data:image/png;base64,AA=="}}},
      {.role = prompt::Role::assistant,
       .reasoning = "hm",
       .tool_calls = {{"call_1", "add", "{\"a\": 1,\"b\":\"\\u0000\"}"}, {"call_2", "sub", "{}"}},
       .sampled = prompt::Sampled{"<think>\n\"x\"</think> {}", 17, true}},
      {.role = prompt::Role::tool,
       .content = {{prompt::ContentPart::Kind::text, "3"}},
       .tool_call_id = "call_1",
       .name = "add"},
      {.role = prompt::Role::developer},
  };
  r.tools = {{"add", "{\"type\":\"function\",\"z\":1,\"a\":2}"}, {"sub", "{}"}};
  r.tool_choice = prompt::ToolChoice::named;
  r.tool_name = "add";
  r.tool_policy = prompt::ToolPolicy::strict;
  r.parallel_tool_calls = false;
  r.output_format = {prompt::OutputFormat::Kind::json_schema, "{\"type\":\"object\"}"};
  r.max_thinking_tokens = 66;
  r.guards = false;
  r.template_kwargs = "{\"enable_thinking\":false}";
  r.reasoning_effort = "high";
  auto& s = r.sampling;
  s.temperature = 0.1f, s.top_k = 41, s.top_p = 0.2f, s.min_p = 0.3f, s.typical_p = 0.4f,
  s.repeat_penalty = 1.1f;
  s.presence_penalty = -0.5f, s.frequency_penalty = 0.6f, s.repeat_last_n = -1, s.dry_multiplier = 0.7f,
  s.dry_base = 1.76f;
  s.dry_allowed_length = 3, s.dry_penalty_last_n = 128, s.dry_sequence_breakers = {{"\n", "", ":"}};
  s.xtc_probability = 0.8f, s.xtc_threshold = 0.15f, s.mirostat = 2, s.mirostat_tau = 5.5f,
  s.mirostat_eta = 0.11f;
  s.seed = 4'294'967'295u;
  s.logit_bias = {{5, -std::numeric_limits<float>::infinity()}, {49151, 1.5f}, {-1, 1e-38f}};
  s.ignore_eos = true;
  r.max_output_tokens = 77;
  r.context = 8'192;
  r.stop = {"END", "\n\n"};
  r.logprobs = true;
  r.top_logprobs = 5;
  return r;
}

prompt::SamplingOptions full_sampling_when_thinking() {
  prompt::SamplingOptions sampling = full_request().sampling;
  sampling.temperature = 0.9f;
  return sampling;
}
Load full_load() {
  return {"/models/a b.gguf",
          {"/models/a b.gguf", "/models/part-2.gguf"},
          "/cache",
          8,
          8192,
          4,
          false,
          "q8_0",
          {"CPU_REPACK", "AMX"},
          129.5,
          true,
          false,
          true,
          "{{ messages }}",
          {"hermes", "gemma", "<ponder>", "</ponder>"},
          {full_request().sampling, full_sampling_when_thinking(), "{\"tone\":\"plain\"}", 99, 88},
          {},
          "careful",
          {{"decode", 4, 2048, 12.5}, {"prefill", 64, 0, 50.25}},
          {true, 1'000, false, 2'000, "0123abcd", "cuda", 8'000, true},
          {"/models/small.gguf", 12, true}};
}
Measure full_measure() {
  return {21, true, true, "q8_0", 3, 4, 2560, "prefill", 64, 2048};
}
Measured full_measured() {
  return {22, "refused", "no memory", 1.5, 2.5, 3.5, 4.5, 5};
}
Ready full_ready() {
  return {3,
          4096,
          true,
          "f16",
          1,
          2,
          3,
          4,
          18'446'744'073'709'551'615u,
          "default:chatml",
          true,
          true,
          {"CPU (AVX512)"},
          "full",
          true,
          "another vocabulary"};
}
Step full_step() {
  return {{{1, "Hal", 2, {{std::string("\xff\0\x41", 3), -0.1f, {{"b", -1.25f, {}}, {"", -INFINITY, {}}}}}},
           {18'446'744'073'709'551'615u, "", 0, {}}}};
}
PrefixBreak full_break() {
  return {
      .matched = 31, .previous = 32, .at_message = 33, .before_text = "a", .now_text = "b", .then_text = "c"};
}
Done full_done() {
  return {9, "length", 11, 12, 13, 14.25, 15.125, 16, 17, 18, 19, 20, true, {21, 22, 23, 24}, full_break()};
}
Failed full_failed() {
  return {10,
          "context_overflow",
          "context-overflow",
          "9000 tokens; the window has 8192",
          "messages",
          "other_engine",
          9000,
          8192,
          9256};
}
Stats full_stats() {
  return {1,
          2,
          3,
          4,
          5,
          6,
          7,
          8,
          9,
          10,
          11,
          12,
          13,
          14,
          15,
          16.5,
          17.5,
          18.5,
          {"window", 18, 19, 20, 21, 22, 23, {24, 25, 26, 27}, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38}};
}
Progress full_progress() {
  return {4, "prefill", 5, 6, 7, 8};
}
Started full_started() {
  return {2,
          100,
          90,
          true,
          {"a warning", "another"},
          true,
          {"strong:S12"},
          "careful",
          PrefixBreak{.matched = 41, .previous = 42}};
}
CacheQuery full_cache_query() {
  return {11, "explain", 12, "session 7", full_request(), true};
}
CacheReply full_cache_reply() {
  return {13,
          "cache-pin-limit",
          "half of the tier is pinned",
          {{1, 0, 0, 500, "system", 3, 2, 4096, 8192, 5, 1'700'000'000'000}, {2, 1, 500, 512, "tail"}},
          14,
          15,
          16,
          "You are helpful.",
          full_break()};
}

// ---- what a round trip must keep

template <class Parse>
void expect_round_trip(const std::string& frame, Parse&& parse, auto&& encode_again) {
  const auto message = parse(body_of(frame));
  ASSERT_TRUE(message.has_value()) << message.error().message;
  EXPECT_EQ(encode_again(*message), frame);
  EXPECT_TRUE(parse_json(body_of(frame)).has_value())
      << "another JSON reader must accept it: " << body_of(frame);
}
const auto encode_plain = [](const auto& message) { return encode(message); };

TEST(Messages, EveryMessageSurvivesTheRoundTrip) {
  const Hello hello{3, "b9999"};
  expect_round_trip(encode(FrameType::hello, hello), parse_hello,
                    [](const Hello& m) { return encode(FrameType::hello, m); });
  expect_round_trip(encode(full_load()), parse_load, encode_plain);
  expect_round_trip(encode(full_ready()), parse_ready, encode_plain);
  expect_round_trip(encode(Phase{"loading_model", 0.3}), parse_phase, encode_plain);
  expect_round_trip(encode(Generate{42, full_request()}), parse_generate, encode_plain);
  expect_round_trip(encode(full_started()), parse_started, encode_plain);
  expect_round_trip(encode(full_step()), parse_step, encode_plain);
  expect_round_trip(encode(full_progress()), parse_progress, encode_plain);
  expect_round_trip(encode(full_done()), parse_done, encode_plain);
  expect_round_trip(encode(full_failed()), parse_failed, encode_plain);
  expect_round_trip(encode(full_stats()), parse_stats, encode_plain);
  expect_round_trip(encode(TokensQuery{5, "text", full_request()}), parse_tokens_query, encode_plain);
  expect_round_trip(encode(TokensReply{6, {0, -1, 2147483647, -2147483647 - 1}, 4}), parse_tokens_reply,
                    encode_plain);
  expect_round_trip(encode(Control{7, "end_reasoning"}), parse_control, encode_plain);
  expect_round_trip(encode(full_measure()), parse_measure, encode_plain);
  expect_round_trip(encode(full_measured()), parse_measured, encode_plain);
  expect_round_trip(encode(Control{0, "set_threads", 3}), parse_control, encode_plain);
  expect_round_trip(encode(full_cache_query()), parse_cache_query, encode_plain);
  expect_round_trip(encode(full_cache_reply()), parse_cache_reply, encode_plain);
  expect_round_trip(encode_cancel(8), parse_cancel, encode_cancel);
}

TEST(Messages, AnAnswerAboutTheCacheIsToldFromStatistics) {
  EXPECT_TRUE(is_cache_reply(body_of(encode(full_cache_reply()))));
  EXPECT_FALSE(is_cache_reply(body_of(encode(full_stats()))));
  EXPECT_EQ(encode(full_cache_reply())[4], static_cast<char>(FrameType::stats_reply));
}

TEST(Messages, UnsetFieldsSurviveTheRoundTripAsUnset) {
  expect_round_trip(encode(Generate{}), parse_generate, encode_plain);
  expect_round_trip(encode(Failed{}), parse_failed, encode_plain);
  expect_round_trip(encode(TokensQuery{}), parse_tokens_query, encode_plain);
  expect_round_trip(encode(Step{}), parse_step, encode_plain);
  const Generate generate = parse_generate(body_of(encode(Generate{}))).value();
  EXPECT_FALSE(generate.request.sampling.temperature.has_value());
  EXPECT_FALSE(generate.request.max_output_tokens.has_value());
  EXPECT_FALSE(parse_failed(body_of(encode(Failed{}))).value().id.has_value());
}

TEST(Messages, AnEmptyListOfSequenceBreakersIsNotAnUnsetOne) {
  Generate generate;
  generate.request.sampling.dry_sequence_breakers.emplace();
  const auto parsed = parse_generate(body_of(encode(generate)));
  ASSERT_TRUE(parsed->request.sampling.dry_sequence_breakers.has_value());
  EXPECT_TRUE(parsed->request.sampling.dry_sequence_breakers->empty());
}

TEST(Messages, ARequestComesBackWithEveryValueInItsField) {
  const prompt::GenerateRequest sent = full_request();
  const prompt::GenerateRequest got = parse_generate(body_of(encode(Generate{42, sent}))).value().request;
  EXPECT_EQ(got.session_key, sent.session_key);
  EXPECT_EQ(got.lane, prompt::Lane::batch);
  ASSERT_EQ(got.messages.size(), sent.messages.size());
  for (std::size_t i = 0; i < sent.messages.size(); ++i)
    EXPECT_EQ(got.messages[i].role, sent.messages[i].role);
  EXPECT_EQ(got.messages[0].content[0].text, sent.messages[0].content[0].text);
  EXPECT_EQ(got.messages[1].content[1].kind, prompt::ContentPart::Kind::image);
  EXPECT_EQ(got.messages[2].tool_calls[0].arguments, sent.messages[2].tool_calls[0].arguments);
  ASSERT_TRUE(got.messages[2].sampled);
  EXPECT_EQ(got.messages[2].sampled->text, sent.messages[2].sampled->text);
  EXPECT_EQ(got.messages[2].sampled->reasoning_bytes, 17u);
  EXPECT_TRUE(got.messages[2].sampled->began_in_reasoning);
  EXPECT_FALSE(got.messages[0].sampled);
  EXPECT_EQ(got.tools[0].json, sent.tools[0].json);
  EXPECT_EQ(got.tool_choice, prompt::ToolChoice::named);
  EXPECT_EQ(got.tool_name, "add");
  EXPECT_EQ(got.tool_policy, prompt::ToolPolicy::strict);
  EXPECT_FALSE(got.parallel_tool_calls);
  EXPECT_EQ(got.output_format.kind, prompt::OutputFormat::Kind::json_schema);
  EXPECT_EQ(got.output_format.definition, sent.output_format.definition);
  EXPECT_EQ(got.max_thinking_tokens, 66);
  EXPECT_FALSE(got.guards);
  EXPECT_EQ(got.sampling.temperature, 0.1f);
  EXPECT_EQ(got.sampling.seed, 4'294'967'295u);
  EXPECT_EQ(got.sampling.logit_bias, sent.sampling.logit_bias);
  EXPECT_EQ(got.stop, sent.stop);
  EXPECT_EQ(got.top_logprobs, 5);
}

TEST(Messages, LogprobsKeepRawBytesAndInfinities) {
  const Step got = parse_step(body_of(encode(full_step()))).value();
  const TokenLogprob& token = got.runs[0].logprobs[0];
  EXPECT_EQ(token.bytes, std::string("\xff\0\x41", 3));
  EXPECT_EQ(token.logprob, -0.1f);
  EXPECT_EQ(token.top[1].logprob, -INFINITY);
  EXPECT_EQ(got.runs[1].id, 18'446'744'073'709'551'615u);
  const Step nan{{{1, "", 1, {{"a", NAN, {}}}}}};
  EXPECT_TRUE(std::isnan(parse_step(body_of(encode(nan)))->runs[0].logprobs[0].logprob));
}

TEST(Messages, NumbersComeBackBitForBit) {
  for (const double value : {0.1, 1e-308, 5e-324, 1.7976931348623157e308, 123456789.123456789, 3.0}) {
    Done done = full_done();
    done.prompt_ms = value;
    EXPECT_EQ(parse_done(body_of(encode(done)))->prompt_ms, value);
  }
  for (const float value : {0.1f, 1e-45f, 3.4028235e38f, -0.0f, 16777216.0f}) {
    Generate generate;
    generate.request.sampling.logit_bias = {{1, value}};
    EXPECT_EQ(parse_generate(body_of(encode(generate)))->request.sampling.logit_bias[0].second, value);
  }
}

TEST(Messages, TheWireFormIsAsSpecified) {
  EXPECT_EQ(body_of(encode(full_step())),
            "{\"runs\":[{\"id\":1,\"text\":\"Hal\",\"n\":2,\"logprobs\":[{\"bytes\":\"ff0041\",\"logprob\":-"
            "0.1,\"top\":"
            "[{\"bytes\":\"62\",\"logprob\":-1.25},{\"bytes\":\"\",\"logprob\":\"-inf\"}]}]},"
            "{\"id\":18446744073709551615,\"text\":\"\",\"n\":0}]}");
  EXPECT_EQ(body_of(encode(full_done())),
            "{\"id\":9,\"reason\":\"length\",\"repetition\":true,\"usage\":{\"prompt_tokens\":11,"
            "\"completion_tokens\":12,"
            "\"cached_tokens\":13,\"reasoning_tokens\":20},"
            "\"timings\":{\"prompt_ms\":14.25,\"predicted_ms\":15.125,\"prompt_n\":16,\"predicted_n\":17,"
            "\"draft_n\":18,"
            "\"draft_n_accepted\":19},"
            "\"cached\":{\"slot\":21,\"host\":22,\"disk\":23,\"coalesced\":24},"
            "\"prefix_break\":{\"matched\":31,\"previous\":32,\"at_message\":33,\"before\":\"a\","
            "\"now\":\"b\",\"then\":\"c\"}}");
  EXPECT_EQ(body_of(encode_empty(FrameType::ping)), "{}");
  EXPECT_EQ(encode(FrameType::hello_reply, Hello{1, "x"})[4], 65);
}

TEST(Messages, TextThatIsNoUtf8IsRepairedOnTheWay) {
  const auto got = parse_started(body_of(encode(Started{.id = 1,
                                                        .warnings = {"a\xff"
                                                                     "b"}})));
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->warnings[0],
            "a\xef\xbf\xbd"
            "b");
}

// ---- descriptions are complete

struct FieldCounter {
  std::size_t count = 0;
  void operator()(std::string_view, const auto&, Limit = {}) { ++count; }
  void required(std::string_view, const auto&, Limit = {}) { ++count; }
  void hex(std::string_view, const auto&, Limit = {}) { ++count; }
  void word(std::string_view, const auto&, Words) { ++count; }
  void group(std::string_view, auto&& describe_group) { describe_group(*this); }
  void list(std::string_view, const auto&, Limit, auto&&) { ++count; }
};

// `kept` members stay in the daemon.
template <class Message>
void expect_complete(std::size_t kept = 0) {
  FieldCounter counter;
  Message message;
  describe(counter, message);
  EXPECT_EQ(counter.count + kept, boost::pfr::tuple_size_v<Message>) << typeid(Message).name();
  EXPECT_LE(counter.count, 64u) << "MemberReader has one bit a field";
}

TEST(Messages, EveryMemberHasALineInTheSchema) {
  expect_complete<prompt::ToolCall>();
  expect_complete<prompt::ContentPart>();
  expect_complete<prompt::Message>();
  expect_complete<prompt::Tool>();
  expect_complete<prompt::SamplingOptions>();
  expect_complete<prompt::GenerateRequest>(1);  // how it stands in the daemon's queue
  expect_complete<Hello>();
  expect_complete<Load>();
  expect_complete<Ready>();
  expect_complete<Phase>();
  expect_complete<Generate>();
  expect_complete<Started>();
  expect_complete<TokenLogprob>();
  expect_complete<StepRun>();
  expect_complete<Step>();
  expect_complete<Progress>();
  expect_complete<Done>();
  expect_complete<Failed>();
  expect_complete<Stats>();
  expect_complete<TokensQuery>();
  expect_complete<TokensReply>();
  expect_complete<Control>();
  expect_complete<KnownStep>();
  expect_complete<Measure>();
  expect_complete<Measured>();
  expect_complete<CacheSettings>();
  expect_complete<PrefixBreak>();
  expect_complete<CachedTokens>();
  expect_complete<CacheStats>();
  expect_complete<CacheQuery>();
  expect_complete<CacheNode>();
  expect_complete<CacheReply>();
  expect_complete<Cancel>();
}

// ---- what is refused, and how it is said

struct Refusal {
  std::string body;
  std::string param;
  std::string in_message;
};

template <class Parse>
void expect_refused(Parse&& parse, const std::vector<Refusal>& refusals) {
  for (const auto& [body, param, in_message] : refusals) {
    const auto message = parse(body);
    ASSERT_FALSE(message.has_value()) << body;
    EXPECT_EQ(message.error().code, "protocol_error") << body;
    EXPECT_EQ(message.error().kind, ErrorKind::corrupt) << body;
    EXPECT_EQ(message.error().param, param) << body;
    EXPECT_NE(message.error().message.find(in_message), std::string::npos)
        << body << " -> " << message.error().message;
  }
}

TEST(Messages, AWrongFieldIsNamedWithItsFrame) {
  expect_refused(
      parse_step,
      {
          {R"({"runs":[{"id":1,"text":"","n":-4}]})", "runs[0].n",
           "step frame: field runs[0].n is -4; expected a whole number from 0"},
          {R"({"runs":[{"id":1,"text":"","n":0},{"id":-1,"text":"","n":0}]})", "runs[1].id", "is -1"},
          {R"({"runs":[{"id":18446744073709551616,"text":"","n":0}]})", "runs[0].id", "18446744073709551616"},
          {R"({"runs":[{"id":1.0,"text":"","n":0}]})", "runs[0].id", "whole number"},
          {R"({"runs":[{"id":1,"text":7,"n":0}]})", "runs[0].text", "is a number; expected a string"},
          {R"({"runs":[{"id":1,"text":null,"n":0}]})", "runs[0].text", "is null; expected a string"},
          {R"({"runs":[{"id":1,"n":0}]})", "runs[0].text", "step frame: field runs[0].text is missing"},
          {R"({"runs":{}})", "runs", "is an object; expected an array"},
          {R"({})", "runs", "missing"},
          {R"([])", "", "the body is an array; expected an object"},
          {R"({"runs":[{"id":1,"id":1,"text":"","n":0}]})", "runs[0].id", "twice"},
          {R"({"runs":[{"id":1,"text":"","n":1,"logprobs":[{"bytes":"6","logprob":0}]}]})",
           "runs[0].logprobs[0].bytes", "hexadecimal"},
          {R"({"runs":[{"id":1,"text":"","n":1,"logprobs":[{"bytes":"6G","logprob":0}]}]})",
           "runs[0].logprobs[0].bytes", "hexadecimal"},
          {R"({"runs":[{"id":1,"text":"","n":1,"logprobs":[{"bytes":"","logprob":"low"}]}]})",
           "runs[0].logprobs[0].logprob", "-inf"},
          {R"({"runs":[{"id":1,"text":"","n":1,"logprobs":[{"bytes":"","logprob":1e99}]}]})",
           "runs[0].logprobs[0].logprob", "1e99"},
      });
  expect_refused(parse_done, {
                                 {R"({"id":1,"reason":"bored"})", "reason", "one of stop length"},
                                 {R"({"id":1,"reason":"stop","timings":{}})", "timings.prompt_ms", "missing"},
                                 {R"({"id":1,"reason":"stop","usage":{"prompt_tokens":"3"}})",
                                  "usage.prompt_tokens", "a string; expected a number"},
                             });
  expect_refused(parse_phase,
                 {
                     {R"({"phase":"x","progress":1.5})", "progress", "is 1.5; expected a number from 0 to 1"},
                     {R"({"phase":"x","progress":"nan"})", "progress", "nan"},
                     {R"({"phase":"x","progress":true})", "progress", "a truth value"},
                 });
  expect_refused(
      parse_load,
      {
          {R"({"model_path":"a","files":["a"],"slots":0,"ctx_per_slot":1,"threads":1})", "slots",
           "is 0; expected a whole number from 1"},
          {R"({"model_path":"a","files":["a"],"slots":1,"ctx_per_slot":1,"threads":1,"flash_attn":0})",
           "flash_attn", "true or false"},
      });
  expect_refused(parse_generate,
                 {
                     {R"({"id":1,"request":{"messages":[{"role":"robot","content":[]}]}})",
                      "request.messages[0].role", "one of system developer"},
                     {R"({"id":1,"request":{"messages":[],"sampling":{"logit_bias":[[1]]}}})",
                      "request.sampling.logit_bias[0]", "two elements"},
                     {R"({"id":1,"request":{"messages":[],"sampling":{"logit_bias":[[1,2,3]]}}})",
                      "request.sampling.logit_bias[0][2]", "at most 2"},
                     {R"({"id":1,"request":{"messages":[],"sampling":{"seed":4294967296}}})",
                      "request.sampling.seed", "4294967296"},
                 });
}

TEST(Messages, AlternativesOfAlternativesAreNotRead) {
  const auto step = parse_step(
      R"({"runs":[{"id":1,"text":"","n":1,"logprobs":[{"bytes":"","logprob":0,"top":[{"bytes":"","logprob":0,"top":[]}]}]}]})");
  ASSERT_TRUE(step.has_value());
  EXPECT_TRUE(step->runs[0].logprobs[0].top[0].top.empty());
}

TEST(Messages, ListsAreBounded) {
  std::string body = R"({"runs":[)";
  for (int i = 0; i < kMaxSlots + 1; ++i) body += R"({"id":1,"text":"","n":0},)";
  body.back() = ']';
  expect_refused(parse_step, {{body + "}", "runs[4096]", "at most 4096 elements"}});
}

TEST(PeekId, FindsTheIdOfABodyThatCannotBeRead) {
  std::string many = R"({"id":7,"request":{"messages":[)";
  for (std::size_t i = 0; i <= kDefaultMaxItems; ++i) many += R"({"role":"user","content":[]},)";
  many.back() = ']';
  many += "}}";
  ASSERT_FALSE(parse_generate(many).has_value());
  EXPECT_EQ(peek_id(many), 7u);
  const std::pair<std::string, std::uint64_t> cases[] = {
      {R"({"id":18446744073709551615,"request":)", 18'446'744'073'709'551'615u},
      {R"({"id":1,"request":{"messages":7}})", 1},
      {R"({"request":{"id":2,"messages":[{"id":3}]}, "id" : 4 })", 4},
      {"{\"x\":\"\xff\",\"id\":5}", 5},
      {R"({"id":6,"x":)" + std::string(1'000'000, '['), 6},
      {body_of(encode(Generate{8, full_request()})), 8},
  };
  for (const auto& [body, id] : cases) EXPECT_EQ(peek_id(body), id) << body.substr(0, 80);
}

TEST(PeekId, GivesNothingWhereThereIsNoId) {
  for (const std::string& body :
       {std::string(), std::string("{"), std::string("[1]"), std::string("7"), std::string(R"({"id")"),
        std::string(R"({"id":"1"})"), std::string(R"({"id":-1})"), std::string(R"({"id":1.5})"),
        std::string(R"({"id":18446744073709551616})"), std::string(R"({"id":null})"),
        std::string(R"({"request":{"id":1}})"), std::string(R"({"text":"\"id\":1"})"),
        R"({"x":)" + std::string(1'000'000, '[')}) {
    EXPECT_EQ(peek_id(body), std::nullopt) << body.substr(0, 80);
  }
}

TEST(Messages, MalformedJsonNamesTheByte) {
  expect_refused(parse_cancel, {
                                   {R"({"id":1,"x":"\o"})", "x", "unknown escape"},
                                   {R"({"id":1,"\o":0})", "", "unknown escape"},
                                   {"", "", "the end of the body"},
                                   {"{", "", "byte 1"},
                                   {R"({"id":1)", "", "byte 7: expected ',' or '}'"},
                                   {R"({"id":1,})", "", "byte 8: expected a member name"},
                                   {R"({"id" 1})", "", "byte 6: expected ':'"},
                                   {R"({"id":1}x)", "", "byte 8: expected the end"},
                                   {R"({"id":01})", "", "expected ',' or '}'"},
                                   {R"({"id":+1})", "id", "no JSON value"},
                                   {R"({"id":1,"x":tru})", "x", "true or false"},
                                   {R"({"id":1,"x":[1,]})", "x", "expected an element"},
                                   {"{\"id\":1,\"x\":\"a\nb\"}", "x", "control character"},
                                   {R"({"id":1,"x":"a)", "x", "end of the string"},
                                   {"{\"id\":1,\"x\":\"\xff\"}", "", "not UTF-8 at byte 13"},
                               });
  expect_refused(parse_control, {
                                    {R"({"id":0,"action":"set_threads","threads":0})", "threads", "1"},
                                    {R"({"id":0,"action":"set_threads","threads":4097})", "threads", "4096"},
                                    {R"({"id":1,"action":"\x"})", "action", "unknown escape"},
                                    {R"({"id":1,"action":"\u12g4"})", "action", "hexadecimal"},
                                    {R"({"id":1,"action":"\ud800"})", "action", "surrogate"},
                                    {R"({"id":1,"action":"\udc00\ud800"})", "action", "surrogate"},
                                });
}

TEST(Messages, EscapesOfEveryKindAreRead) {
  const auto query =
      parse_tokens_query(R"({"id":1,"text":"\"\\\/\b\f\n\r\t\u0041\u00e9\u8a9e\ud83d\ude00"})");
  ASSERT_TRUE(query.has_value()) << query.error().message;
  EXPECT_EQ(*query->text, "\"\\/\b\f\n\r\tAé語😀");
}

TEST(Messages, UnknownMembersAreSkippedWhateverTheyHold) {
  const auto id = parse_cancel(
      " { \"x\" : [ {\"a\":[]} , null,true , false,-1.5e+3,\"\\\"\", {} ] ,\r\n\t\"id\" : 7 , \"\":0} ");
  ASSERT_TRUE(id.has_value()) << id.error().message;
  EXPECT_EQ(*id, 7u);
}

TEST(Messages, DeepNestingIsRefusedInsteadOfOverflowingTheStack) {
  const std::string deep = R"({"id":1,"x":)" + std::string(1'000'000, '[');
  const auto id = parse_cancel(deep);
  ASSERT_FALSE(id.has_value());
  EXPECT_NE(id.error().message.find("64 levels"), std::string::npos);
}

TEST(Messages, APromptOf64MiBPasses) {
  Generate generate{1, {}};
  std::string prompt(64 * kMiB, 'x');
  for (std::size_t at = 0; at < prompt.size(); at += 1000) prompt[at] = '\n';
  generate.request.messages = {
      {.role = prompt::Role::user, .content = {{prompt::ContentPart::Kind::text, prompt}}}};
  const std::string frame = encode(generate);
  EXPECT_TRUE(check_frame_size(frame).has_value());
  const auto parsed = parse_generate(std::string_view(frame).substr(kFrameHeaderBytes));
  ASSERT_TRUE(parsed.has_value());
  EXPECT_TRUE(parsed->request.messages[0].content[0].text == prompt);
}

}  // namespace
}  // namespace gezel::protocol
