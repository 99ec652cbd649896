// The library asks for tokens of forced bytes through a callback. What comes back is final (it is fed to the
// model without being sampled), so it must stand for exactly those bytes. Three attempts, cheapest first: the
// tokenizer as it is; the tokenizer behind a fence character, which is cut off again (SentencePiece puts a
// blank before every fragment, and then the blank stands before the fence); the longest token at every place.
#include "grammar/vocabulary.h"

#include <algorithm>
#include <numeric>

#include "base/ids.h"
#include "llguidance.h"

namespace gezel::grammar {

namespace {

constexpr char kControlMark = '\xff';        // how the library tells control tokens from text
constexpr std::string_view kFence = "\x02";  // rare enough that no token joins it with what follows

std::size_t tokenize_callback(const void* user, const std::uint8_t* bytes, std::size_t size,
                              std::uint32_t* out, std::size_t capacity) {
  const auto& vocabulary = *static_cast<const Vocabulary*>(user);
  const auto tokens = vocabulary.tokenize({reinterpret_cast<const char*>(bytes), size});
  std::copy_n(tokens.begin(), std::min(tokens.size(), capacity), out);
  return tokens.size();
}

// Every byte of text in use: no control characters but the line break, and no character beyond U+3FFFF.
bool is_text_byte(unsigned byte) {
  return byte == '\n' || (byte >= 0x20 && byte != 0x7F && byte < 0xC0) || (byte >= 0xC2 && byte <= 0xF0);
}

std::unexpected<Error> unusable(std::string why) {
  return fail(ErrorKind::invalid, "vocabulary-unusable",
              "The vocabulary cannot be used for constrained answers: " + std::move(why) + ".");
}

}  // namespace

Result<std::shared_ptr<const Vocabulary>> Vocabulary::create(const VocabularySource& source) {
  if (source.size <= 0) return unusable("it has no tokens");
  if (source.end_of_generation.empty()) return unusable("no token ends an answer");
  for (const Token token : source.end_of_generation) {
    if (token < 0 || token >= source.size) {
      return unusable("end token " + std::to_string(token) + " is not below " + std::to_string(source.size));
    }
  }

  std::shared_ptr<Vocabulary> made(new Vocabulary);
  made->eog_ = source.end_of_generation;
  made->tokenize_ = source.tokenize;
  for (Token token = 0; token < source.size; ++token) {
    const auto [bytes, control, defined] = source.token(token);
    // A text token that begins with the mark would be taken for a control token.
    const bool marked = control || bytes.starts_with(kControlMark);
    if (marked && !bytes.empty()) {
      made->data_ += kControlMark;
      if (control) made->names_.emplace(bytes, token);
    }
    if (!marked && defined) made->defined_.emplace(bytes, token);
    made->data_ += bytes;
    made->ends_.push_back(static_cast<std::uint32_t>(made->data_.size()));
    made->control_.push_back(marked);
  }
  made->index();

  std::vector<std::uint32_t> lengths(made->ends_.size());
  std::adjacent_difference(made->ends_.begin(), made->ends_.end(), lengths.begin());
  const std::vector<LlgToken> more(made->eog_.begin() + 1, made->eog_.end());
  LlgTokenizerInitV2 init = {};
  init.struct_size = sizeof(init);
  init.vocab_size = static_cast<std::uint32_t>(source.size);
  init.tok_eos = static_cast<LlgToken>(made->eog_.front());
  init.token_lens = lengths.data();
  init.token_bytes = reinterpret_cast<const std::uint8_t*>(made->data_.data());
  init.tok_eos_extra = more.empty() ? nullptr : more.data();
  init.tok_eos_extra_count = static_cast<std::uint32_t>(more.size());
  if (made->forces_) {
    init.tokenize_fn = &tokenize_callback;
    init.tokenize_user_data = made.get();
  } else {
    init.use_approximate_greedy_tokenize_fn = true;
  }
  // Slices speed up masks of large vocabularies and cost time here.
  const char* const no_slices[] = {nullptr};
  if (source.size < 1024) init.slices = no_slices;
  char message[1024] = {};
  made->handle_ = llg_new_tokenizer_v2(&init, message, sizeof(message));
  if (made->handle_ == nullptr) return unusable(message);
  return made;
}

void Vocabulary::index() {
  std::vector<bool> single(256);
  for (Token token = 0; token < size(); ++token) {
    const auto text = bytes(token);
    if (text.empty()) continue;
    sorted_.push_back(token);
    if (text.size() == 1) single[static_cast<unsigned char>(text[0])] = true;
  }
  std::ranges::sort(sorted_,
                    [this](Token a, Token b) { return std::pair(bytes(a), a) < std::pair(bytes(b), b); });
  forces_ = tokenize_ != nullptr;
  for (unsigned byte = 0; byte < 256; ++byte) forces_ = forces_ && (single[byte] || !is_text_byte(byte));

  std::string text = data_;
  for (std::size_t i = 0; i < ends_.size(); ++i) text += std::to_string(ends_[i]) + (control_[i] ? "c" : ",");
  for (const auto& [name, token] : defined_) text += std::to_string(token) + "d";
  for (const Token token : eog_) text += std::to_string(token) + "e";
  id_ = sha256_hex(text);
}

std::shared_ptr<const Vocabulary> Vocabulary::of_bytes() {
  static const std::shared_ptr<const Vocabulary> shared = [] {
    static const std::string all = [] {
      std::string bytes(255, '\0');
      std::iota(bytes.begin(), bytes.end(), '\0');
      return bytes;
    }();
    VocabularySource source;
    source.size = 256;
    source.token = [](Token token) {
      return token == 255 ? TokenText{"<end>", true} : TokenText{std::string_view(all).substr(token, 1)};
    };
    source.end_of_generation = {255};
    source.tokenize = [](std::string_view text) {
      std::vector<Token> tokens;
      for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
      return tokens;
    };
    return std::move(*create(source));
  }();
  return shared;
}

Vocabulary::~Vocabulary() {
  if (handle_ != nullptr) llg_free_tokenizer(handle_);
}

std::string_view Vocabulary::raw(Token token) const {
  if (token < 0 || token >= size()) return {};
  const auto index = static_cast<std::size_t>(token);
  const std::size_t begin = index == 0 ? 0 : ends_[index - 1];
  return std::string_view(data_).substr(begin, ends_[index] - begin);
}

std::string_view Vocabulary::bytes(Token token) const {
  return is_control(token) ? std::string_view{} : raw(token);
}

bool Vocabulary::is_control(Token token) const {
  return token >= 0 && token < size() && control_[static_cast<std::size_t>(token)];
}

bool Vocabulary::ends_generation(Token token) const {
  return std::ranges::find(eog_, token) != eog_.end();
}

std::optional<Token> Vocabulary::control(std::string_view name) const {
  const auto found = names_.find(name);
  if (found == names_.end()) return std::nullopt;
  return found->second;
}

std::optional<Token> Vocabulary::marker(std::string_view name) const {
  if (const auto token = control(name)) return token;
  const auto found = defined_.find(name);
  if (found == defined_.end()) return std::nullopt;
  return found->second;
}

// Whether tokens[from..] are text tokens that stand for exactly `text`.
bool Vocabulary::spell(std::string_view text, const std::vector<Token>& tokens, std::size_t from) const {
  for (std::size_t i = from; i < tokens.size(); ++i) {
    const auto piece = bytes(tokens[i]);
    if (piece.empty() || !text.starts_with(piece)) return false;
    text.remove_prefix(piece.size());
  }
  return text.empty();
}

std::vector<Token> Vocabulary::longest(std::string_view text) const {
  std::vector<Token> tokens;
  while (!text.empty()) {
    // The tokens that share a prefix with the text are a range of the sorted ones; it narrows with every
    // byte.
    auto first = sorted_.begin();
    auto last = sorted_.end();
    std::optional<Token> best;
    for (std::size_t length = 1; length <= text.size() && first != last; ++length) {
      const auto prefix = text.substr(0, length);
      const auto key = [&](Token token) { return bytes(token).substr(0, length); };
      const auto range = std::ranges::equal_range(first, last, prefix, {}, key);
      first = range.begin();
      last = range.end();
      if (first != last && bytes(*first).size() == length) best = *first;
    }
    if (best) tokens.push_back(*best);
    text.remove_prefix(best ? bytes(*best).size() : 1);
  }
  return tokens;
}

std::vector<Token> Vocabulary::tokenize(std::string_view text) const {
  if (text.empty()) return {};
  if (tokenize_ == nullptr) return longest(text);
  auto tokens = tokenize_(text);
  if (spell(text, tokens, 0)) return tokens;

  tokens = tokenize_(std::string(kFence).append(text));
  std::string before;
  for (std::size_t i = 0; i < tokens.size() && before.size() <= kFence.size(); ++i) {
    before += bytes(tokens[i]);
    if (!before.ends_with(kFence)) continue;
    if (!spell(text, tokens, i + 1)) break;
    tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return tokens;
  }
  return longest(text);
}

}  // namespace gezel::grammar
