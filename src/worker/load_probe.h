// worker/load_probe.h
//
// Does restoring work with this model, on this machine (spec 40 section 11.3)? A few tokens are computed,
// exported, taken apart, put together, imported, and continued: the logits must be those of the run they came
// from. Until that is known nothing is moved, and where it fails nothing ever is.
#pragma once
#include <filesystem>
#include <optional>

#include "kvcache/image.h"
#include "kvcache/keys.h"
#include "kvcache/mode.h"
#include "scheduler/decoder.h"

namespace gezel::worker {

struct ProbeResult {
  bool passed = false;
  std::optional<kvcache::ImageLayout> layout;  // nothing: images are kept whole
  std::uint32_t streams = 1;
  Bytes checkpoint_bytes = 0;  // at the few tokens of the probe
  std::string trouble;         // why it did not pass
  // What comparing found, worth keeping. Nothing when it did not come to that: the library refused a call,
  // which another load with more memory may not.
  std::optional<bool> verdict;
};

// Uses slot 0, which must be empty, and leaves it empty. `known`: an earlier verdict; then only the layout is
// looked at. `tokens`: kProbeTokens that the model knows.
inline constexpr int kProbeTokens = 64;
ProbeResult probe(scheduler::Decoder& decoder, kvcache::Mode mode, std::span<const llama::Token> tokens,
                  std::optional<bool> known);

// Verdicts, kept in the cache folder by fingerprint.
std::filesystem::path verdict_file(const std::filesystem::path& folder, const kvcache::Digest& fingerprint);
std::optional<bool> read_verdict(const std::filesystem::path& folder, const kvcache::Digest& fingerprint);
void write_verdict(const std::filesystem::path& folder, const kvcache::Digest& fingerprint, bool passed);

// Ordinary tokens of a vocabulary, spread over it.
std::vector<llama::Token> probe_tokens(const llama::Vocab& vocab);

}  // namespace gezel::worker
