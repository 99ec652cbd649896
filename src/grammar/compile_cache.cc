#include "grammar/compile_cache.h"

#include "base/ids.h"

namespace gezel::grammar {

namespace {

std::string key_of(const ConstraintSpec& spec, const Vocabulary& vocabulary) {
  std::string text(constraint_kind_name(spec.kind));
  text += spec.leading_space ? " \n" : "\n";
  return sha256_hex(text + spec.text) + vocabulary.id();
}

}  // namespace

Result<Matcher> CompileCache::get(const ConstraintSpec& spec,
                                  const std::shared_ptr<const Vocabulary>& vocabulary,
                                  const MatcherLimits& limits) {
  const auto key = key_of(spec, *vocabulary);
  std::unique_lock lock(mutex_);
  auto found = index_.find(key);
  while (found != index_.end() && found->second->pristine == nullptr) {
    compiled_.wait(lock);
    found = index_.find(key);  // gone when it did not compile
  }
  if (found != index_.end()) {
    ++stats_.hits;
    entries_.splice(entries_.begin(), entries_, found->second);
    return entries_.front().pristine->clone();
  }

  ++stats_.misses;
  entries_.push_front({key, estimate(spec), nullptr});
  const auto entry = entries_.begin();
  index_.emplace(key, entry);
  lock.unlock();
  auto matcher = compile(spec, vocabulary, limits);
  std::optional<Matcher> copy;
  if (matcher) copy.emplace(matcher->clone());
  lock.lock();
  if (matcher) {
    entry->pristine = std::make_unique<Matcher>(std::move(*matcher));
    stats_.bytes += entry->bytes;
    evict();
  } else {
    index_.erase(key);
    entries_.erase(entry);
  }
  compiled_.notify_all();
  if (!copy) return std::unexpected(std::move(matcher).error());
  return std::move(*copy);
}

// Oldest first; what is still being compiled stays.
void CompileCache::evict() {
  for (auto entry = entries_.end();
       entry != entries_.begin() && (entries_.size() > limits_.entries || stats_.bytes > limits_.bytes);) {
    --entry;
    if (entry->pristine == nullptr) continue;
    stats_.bytes -= entry->bytes;
    index_.erase(entry->key);
    entry = entries_.erase(entry);
  }
}

CompileCacheStats CompileCache::stats() const {
  const std::scoped_lock lock(mutex_);
  auto stats = stats_;
  stats.entries = entries_.size();
  return stats;
}

}  // namespace gezel::grammar
