// Both runs compute the same tokens in the same calls, so that their logits should be equal bit for bit. Only
// where they are not is it measured how much they may differ: as much as those of a token computed alone from
// those of the same token computed with others.
#include "worker/load_probe.h"

#include <algorithm>
#include <cstring>

#include "base/files.h"
#include "base/log.h"
#include "kvcache/fingerprint.h"
#include "kvcache/resume.h"

namespace gezel::worker {
namespace {

using kvcache::Mode;

constexpr std::int32_t kHead = 8, kTail = 4;
using Logits = std::vector<std::vector<float>>;

double gap(std::span<const float> logits) {
  return kvcache::compare_logits(logits, logits).cold_gap;
}

class Probe {
 public:
  Probe(scheduler::Decoder& decoder, Mode mode, std::span<const llama::Token> tokens)
      : decoder_(decoder), mode_(mode), tokens_(tokens) {}

  ProbeResult run(std::optional<bool> known) {
    ProbeResult result;
    clear();
    look(result, known);
    clear();
    return result;
  }

 private:
  void clear() { decoder_.remove(0, -1, -1); }

  // Tokens [from, to) in one call. `outputs`: logits of the last so many.
  bool decode(std::int32_t from, std::int32_t to, std::int32_t outputs, Logits* logits) {
    std::vector<llama::Row> rows;
    for (std::int32_t at = from; at < to; ++at)
      rows.push_back({tokens_[static_cast<std::size_t>(at)], at, 0, at >= to - outputs});
    if (decoder_.decode(rows) != llama::DecodeCode::ok) return false;
    for (std::int32_t row = to - from - outputs; logits != nullptr && row < to - from; ++row) {
      const auto out = decoder_.logits(row);
      logits->emplace_back(out.begin(), out.end());
    }
    return true;
  }

  bool export_image(Buffer& image, bool partial) {
    image.resize(decoder_.state_bytes(0, partial));
    return !image.empty() && decoder_.export_state(0, partial, image) == image.size();
  }

  void look(ProbeResult& result, std::optional<bool> known) {
    const bool compare = !known;
    Logits cold, restored;
    if (compare) {
      if (!decode(0, kHead, 0, nullptr) || !decode(kHead, kHead + kTail, kTail, &cold))
        return refused(result);
      clear();
    }
    Buffer bytes;
    if (!decode(0, kHead, 0, nullptr) || !export_image(bytes, false)) return refused(result);
    const auto image = kvcache::Image::parse(bytes, image_kind(mode_));
    std::optional<kvcache::Checkpoint> checkpoint;
    std::vector<kvcache::Piece> pieces;
    if (keeps_rows(mode_)) {
      if (!image) {
        result.trouble = image.error().message;
        return;
      }
      result.layout = image->layout();
      result.streams = image->streams();
      auto parts = image->cut_parts(0, image->tokens());
      if (!parts || image->tokens() != kHead) return refused(result);
      for (const auto& part : *parts) pieces.push_back({part, 0, part->tokens});
      checkpoint = image->checkpoint();
      if (checkpoint) {
        Buffer partial;
        if (!export_image(partial, true) || !kvcache::parse_checkpoint(partial, image_kind(mode_)))
          return refused(result);
      }
    } else {
      checkpoint =
          kvcache::Checkpoint{.kind = kvcache::Checkpoint::Kind::whole, .window_tokens = 0, .bytes = bytes};
    }
    if (checkpoint) result.checkpoint_bytes = checkpoint->bytes.size();
    if (!compare) {
      result.passed = *known;
      if (!result.passed) result.trouble = "an earlier load found that it does not work";
      return;
    }
    clear();
    const kvcache::ImageLayout layout = result.layout.value_or(kvcache::ImageLayout{});
    const kvcache::ImageTarget target{.streams = result.streams, .sequence = 0};
    Buffer composed(kvcache::composed_bytes(layout, target, kHead, checkpoint ? &*checkpoint : nullptr));
    const auto size =
        kvcache::compose_image(layout, target, pieces, checkpoint ? &*checkpoint : nullptr, composed);
    if (!size) {
      result.trouble = size.error().message;
      return;
    }
    const Bytes returned = decoder_.import_state(0, false, std::span(composed).first(*size));
    if (!kvcache::import_succeeded(returned, *size, decoder_.position_min(0), decoder_.position_max(0),
                                   kHead - 1, mode_) ||
        !decode(kHead, kHead + kTail, kTail, &restored))
      return refused(result);
    result.verdict = cold == restored ? std::optional(true) : within_measure(cold, restored);
    if (!result.verdict) return refused(result);
    result.passed = *result.verdict;
    if (!result.passed) result.trouble = "a restored prompt continues differently";
  }

  // Nothing when the library refused a call.
  std::optional<bool> within_measure(const Logits& cold, const Logits& restored) {
    std::vector<double> alone, together;
    clear();
    for (std::int32_t at = 0; at < kProbeTokens; ++at) {
      Logits one;
      if (!decode(at, at + 1, 1, &one)) return std::nullopt;
      alone.push_back(gap(one.front()));
    }
    clear();
    // As many at once as may ask for their logits; each call has several rows.
    for (std::int32_t at = 0; at < kProbeTokens; at += kTail) {
      Logits few;
      if (!decode(at, at + kTail, kTail, &few)) return std::nullopt;
      for (const auto& logits : few) together.push_back(gap(logits));
    }
    const double epsilon = kvcache::measured_epsilon(alone, together);
    for (std::size_t i = 0; i < cold.size(); ++i) {
      if (!kvcache::acceptable(kvcache::compare_logits(cold[i], restored[i]), epsilon)) return false;
    }
    return true;
  }

  static void refused(ProbeResult& result) { result.trouble = "the library refused a call"; }

  scheduler::Decoder& decoder_;
  const Mode mode_;
  const std::span<const llama::Token> tokens_;
};

}  // namespace

ProbeResult probe(scheduler::Decoder& decoder, Mode mode, std::span<const llama::Token> tokens,
                  std::optional<bool> known) {
  if (mode == Mode::none || tokens.size() < kProbeTokens) {
    ProbeResult none;
    none.trouble = "this model cannot be probed";
    return none;
  }
  return Probe(decoder, mode, tokens).run(known);
}

std::filesystem::path verdict_file(const std::filesystem::path& folder, const kvcache::Digest& fingerprint) {
  return folder / ("probe-" + kvcache::folder_name(fingerprint));
}

std::optional<bool> read_verdict(const std::filesystem::path& folder, const kvcache::Digest& fingerprint) {
  if (folder.empty()) return std::nullopt;
  const auto text = read_file(verdict_file(folder, fingerprint), 64);
  if (!text) return std::nullopt;
  return *text == "passed\n"   ? std::optional(true)
         : *text == "failed\n" ? std::optional(false)
                               : std::nullopt;
}

void write_verdict(const std::filesystem::path& folder, const kvcache::Digest& fingerprint, bool passed) {
  if (folder.empty()) return;
  const auto written = write_file_atomic(verdict_file(folder, fingerprint), passed ? "passed\n" : "failed\n");
  if (!written) log_info("the load probe's verdict could not be kept", {{"reason", written.error().message}});
}

std::vector<llama::Token> probe_tokens(const llama::Vocab& vocab) {
  std::vector<llama::Token> tokens;
  const int step = std::max(1, vocab.size() / (kProbeTokens + 1));
  for (llama::Token token = step; token < vocab.size() && tokens.size() < kProbeTokens;) {
    if (!vocab.is_control(token) && !vocab.is_end_of_generation(token)) tokens.push_back(token);
    token += tokens.size() + 1 < kProbeTokens && token + step < vocab.size() ? step : 1;
  }
  // A vocabulary smaller than that: again from its start.
  for (std::size_t i = 0; !tokens.empty() && tokens.size() < kProbeTokens; ++i) tokens.push_back(tokens[i]);
  return tokens;
}

}  // namespace gezel::worker
