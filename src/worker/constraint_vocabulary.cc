#include "worker/constraint_vocabulary.h"

namespace gezel::worker {

Result<std::shared_ptr<const grammar::Vocabulary>> constraint_vocabulary(const llama::Vocab& vocab) {
  grammar::VocabularySource source;
  source.size = vocab.size();
  source.token = [&vocab](grammar::Token token) {
    return grammar::TokenText{vocab.piece(token, true),
                              vocab.is_control(token) || vocab.piece(token).empty(), vocab.is_defined(token)};
  };
  source.end_of_generation = vocab.end_of_generation();
  source.tokenize = [&vocab](std::string_view text) { return vocab.tokenize(text, false, false); };
  return grammar::Vocabulary::create(source);
}

}  // namespace gezel::worker
