// GBNF as we translate it against the library's own reading of it: the same texts are in both, for every
// grammar that comes with its source.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <llama.h>

#include <cmath>
#include <random>

#include "base/utf8.h"
#include "grammar/gbnf.h"
#include "grammar/matcher.h"
#include "llama/test_support.h"

namespace gezel::worker {
namespace {

using grammar::Matcher;
using grammar::Vocabulary;

// A vocabulary with a token for every byte, to read texts byte by byte.
struct Bytes {
  std::unique_ptr<llama::Model> model;
  const llama_vocab* vocab = nullptr;
  std::vector<llama_token> tokens;
};
const Bytes& bytes() {
  static const Bytes made = [] {
    Bytes all;
    all.model =
        llama::testing::load_or_die(llama::testing::vocab_folder() / "ggml-vocab-llama-spm.gguf", true);
    all.vocab = llama_model_get_vocab(all.model->get());
    all.tokens.assign(256, -1);
    for (llama::Token token = 0; token < all.model->vocab().size(); ++token) {
      const auto piece = all.model->vocab().piece(token);
      if (piece.size() == 1) all.tokens[static_cast<unsigned char>(piece[0])] = token;
    }
    return all;
  }();
  return made;
}

class Theirs {
 public:
  explicit Theirs(const std::string& grammar)
      : fresh_(llama_sampler_init_grammar(bytes().vocab, grammar.c_str(), "root")) {}
  ~Theirs() {
    if (fresh_ != nullptr) llama_sampler_free(fresh_);
  }
  Theirs(const Theirs&) = delete;
  Theirs& operator=(const Theirs&) = delete;
  bool usable() const { return fresh_ != nullptr; }

  bool accepts(std::string_view text) const {
    Walk walk(fresh_);
    for (const char c : text) {
      if (!walk.take(bytes().tokens[static_cast<unsigned char>(c)])) return false;
    }
    return walk.may_end();
  }

  // A text of the grammar, or nothing when it becomes too long.
  std::optional<std::string> random_text(std::mt19937& random, std::size_t most) const {
    Walk walk(fresh_);
    std::string text;
    while (text.size() < most) {
      if (walk.may_end() && (random() % 6 == 0 || text.size() > most / 2)) return text;
      const auto allowed = walk.allowed();
      if (allowed.empty()) return text;
      const auto byte = allowed[random() % allowed.size()];
      walk.take(bytes().tokens[byte]);
      text += static_cast<char>(byte);
    }
    return std::nullopt;
  }

 private:
  struct Walk {
    explicit Walk(const llama_sampler* fresh) : sampler(llama_sampler_clone(fresh)) {}
    ~Walk() { llama_sampler_free(sampler); }
    bool may(llama_token token) const {
      llama_token_data one{token, 0, 0};
      llama_token_data_array list{&one, 1, -1, false};
      llama_sampler_apply(sampler, &list);
      return one.logit > -HUGE_VALF;
    }
    bool may_end() const { return may(llama_vocab_eos(bytes().vocab)); }
    bool take(llama_token token) const {
      if (!may(token)) return false;
      llama_sampler_accept(sampler, token);
      return true;
    }
    std::vector<unsigned char> allowed() const {
      std::vector<llama_token_data> all;
      for (unsigned byte = 1; byte < 256; ++byte) {
        if (bytes().tokens[byte] >= 0) all.push_back({bytes().tokens[byte], 0, static_cast<float>(byte)});
      }
      llama_token_data_array list{all.data(), all.size(), -1, false};
      llama_sampler_apply(sampler, &list);
      std::vector<unsigned char> found;
      for (const auto& one : all) {
        if (one.logit > -HUGE_VALF) found.push_back(static_cast<unsigned char>(one.p));
      }
      return found;
    }
    llama_sampler* sampler;
  };
  llama_sampler* fresh_;
};

class Ours {
 public:
  explicit Ours(const std::string& grammar) {
    const auto lark = grammar::gbnf_to_lark(grammar);
    EXPECT_TRUE(lark) << lark.error().message;
    auto made =
        Matcher::compile(Vocabulary::of_bytes(), grammar::Notation::lark, lark.value_or("start: \"\"\n"));
    EXPECT_TRUE(made) << made.error().message;
    if (made) fresh_.emplace(std::move(*made));
  }

  bool accepts(std::string_view text) const {
    Matcher matcher = fresh_->clone();
    for (const char c : text) {
      if (matcher.stopped() || !matcher.consume(static_cast<unsigned char>(c))) return false;
    }
    return matcher.accepting();
  }

  std::optional<std::string> random_text(std::mt19937& random, std::size_t most) const {
    Matcher matcher = fresh_->clone();
    std::vector<std::uint32_t> mask(matcher.vocabulary().mask_words());
    std::string text;
    while (text.size() < most) {
      if (matcher.accepting() && (matcher.stopped() || random() % 6 == 0 || text.size() > most / 2))
        return text;
      EXPECT_TRUE(matcher.compute_mask(mask)) << matcher.error();
      std::vector<unsigned char> allowed;
      for (unsigned byte = 1; byte < 255; ++byte) {
        if ((mask[byte / 32] >> (byte % 32) & 1) != 0) allowed.push_back(static_cast<unsigned char>(byte));
      }
      if (allowed.empty()) return text;
      const auto byte = allowed[random() % allowed.size()];
      EXPECT_TRUE(matcher.consume(byte));
      text += static_cast<char>(byte);
    }
    return std::nullopt;
  }

 private:
  std::optional<Matcher> fresh_;
};

// Near misses: a character left out, doubled, exchanged with another of the text, or the end cut off.
std::string mutated(const std::string& text, std::mt19937& random) {
  if (text.empty()) return "a";
  std::string other = text;
  const auto at = random() % text.size();
  switch (random() % 5) {
    case 0:
      other.erase(at, 1 + random() % 3);
      break;
    case 1:
      other.insert(at, 1, text[random() % text.size()]);
      break;
    case 2:
      other[at] = text[random() % text.size()];
      break;
    case 3:
      other.resize(at);
      break;
    default:
      other.insert(at, 1, " \n\"{}[](),.;:=+-*/09azAZ_"[random() % 25]);
      break;
  }
  return other;
}

// The library reads a NUL and ill-formed UTF-8 in ways of its own. And when the first bytes of a character
// come in a token of their own, as here, a negated class refuses every character that begins like one of
// those it excludes.
bool comparable(std::string_view text, std::string_view grammar) {
  if (find_invalid_utf8(text) || text.find('\0') != std::string_view::npos) return false;
  const bool excludes_line_ends = grammar.find("\\x85\\u2028") != std::string_view::npos;
  return !excludes_line_ends || text.find_first_of("\xC2\xE2") == std::string_view::npos;
}

void expect_agreement(const std::string& name, const std::string& grammar, int texts) {
  const Theirs theirs(grammar);
  ASSERT_TRUE(theirs.usable()) << name;
  const Ours ours(grammar);
  std::mt19937 random(7);
  int compared = 0;
  int inside = 0;
  for (int round = 0; compared < texts && round < texts * 12; ++round) {
    const auto text = round % 2 == 0 ? theirs.random_text(random, 60) : ours.random_text(random, 60);
    if (!text) continue;
    for (const auto& one : {*text, mutated(*text, random), mutated(*text, random)}) {
      if (!comparable(one, grammar)) continue;
      const bool wanted = theirs.accepts(one);
      ASSERT_EQ(ours.accepts(one), wanted) << name << ": " << one << "\n" << *grammar::gbnf_to_lark(grammar);
      ++compared;
      inside += wanted ? 1 : 0;
    }
  }
  EXPECT_GE(compared, texts) << name;
  EXPECT_GT(inside, compared / 10) << name;
  EXPECT_LT(inside, compared) << name;
}

class EveryGrammar : public ::testing::TestWithParam<std::filesystem::path> {};

std::vector<std::filesystem::path> grammars() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(llama::testing::vocab_folder().parent_path() / "grammars")) {
    if (entry.path().extension() == ".gbnf") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

INSTANTIATE_TEST_SUITE_P(Gbnf, EveryGrammar, ::testing::ValuesIn(grammars()),
                         [](const auto& info) { return info.param.stem().string(); });

TEST_P(EveryGrammar, HasTheSameTexts) {
  expect_agreement(GetParam().stem().string(), llama::testing::read_whole(GetParam()), 1000);
}

// Grammars in which reading the longest lexeme would go wrong.
TEST(GbnfAgreement, AmbiguousGrammarsHaveTheSameTexts) {
  for (const auto* grammar : {
           "root ::= (\"a\" | \"ab\") (\"c\" | \"bcd\")",
           "root ::= [end]* \"end\" [end]*",
           "root ::= word (\" \" word)*\nword ::= [a-z ]+",
           "root ::= item+\nitem ::= \"abc\" tail | [a-z] \"b\" \"d\"\ntail ::= \"<\" tail \">\" | \"!\"",
           "root ::= \"int\" ws id | id ws \"=\"\nid ::= [a-z]+\nws ::= \" \"+",
           "root ::= x+\nx ::= [ab]{1,3} \"a\" | \"b\" x \"b\"",
           "root ::= (\"a\"? \"b\"? \"a\"?){2,3} tail\ntail ::= \"(\" tail \")\" | \"ab\" | \"\"",
       }) {
    expect_agreement(grammar, grammar, 300);
  }
}

}  // namespace
}  // namespace gezel::worker
