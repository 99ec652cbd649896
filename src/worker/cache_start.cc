#include "worker/cache_start.h"

#include <algorithm>
#include <cstdlib>

#include "base/log.h"
#include "kvcache/fingerprint.h"
#include "worker/load_probe.h"

namespace gezel::worker {
namespace {

using kvcache::Mode;

constexpr Bytes kImageExtra = kMiB;  // headers and what else a whole window has beside its rows

Mode mode_of(const llama::Model& model) {
  return kvcache::guess_mode({.decoder = model.has_decoder(),
                              .diffusion = model.diffusion(),
                              .recurrent = model.recurrent() && !model.hybrid(),
                              .hybrid = model.hybrid(),
                              .sliding_window = model.sliding_window() > 0});
}

kvcache::Fingerprint fingerprint_of(const protocol::Load& load, Mode mode, int slots, bool flash_attention) {
  kvcache::Fingerprint out;
  out.shards = {{.size = 0, .digest = load.cache.identity}};
  out.type_k = out.type_v = load.kv_type;
  out.backend = load.cache.backend;
  out.library = llama::build_info();
  out.rotation_disabled = std::getenv("LLAMA_ATTN_ROT_DISABLE") != nullptr;  // NOLINT: of the library
  out.mode = mode;
  if (!keeps_rows(mode)) out.opaque = {.slots = slots, .flash_attention = flash_attention};
  return out;
}

// Tokens whose cells a sliding window has at most.
Bytes window_cells(const llama::Context& context, int sliding_window) {
  return std::min(static_cast<Bytes>(context.context_per_slot()),
                  static_cast<Bytes>(sliding_window) + protocol::kMicroBatchTokens + 256);
}

// What writing and reading a record takes beside its rows: one layer of a part or of a window.
Bytes scratch_bytes(const ProbeResult& probed, const llama::Context& context, int sliding_window) {
  if (!probed.layout) return 0;
  const Bytes rows = kvcache::row_major_scratch(probed.layout->rows, kvcache::kPartTokens);
  if (!probed.layout->window) return rows;
  return std::max(rows,
                  kvcache::row_major_scratch(*probed.layout->window, window_cells(context, sliding_window)));
}

Bytes staging_bytes(const ProbeResult& probed, const llama::Context& context, int sliding_window) {
  const auto window = static_cast<Bytes>(context.context_per_slot());
  if (!probed.layout) return probed.checkpoint_bytes + kImageExtra;
  constexpr Bytes kCell = 8;  // position and sequence
  Bytes bytes = window * (probed.layout->rows.token_bytes() + kCell) + kImageExtra;
  if (probed.layout->window) {
    bytes += window_cells(context, sliding_window) * (probed.layout->window->token_bytes() + kCell);
  } else {
    bytes += probed.checkpoint_bytes;
  }
  return bytes;
}

// When a probe that failed is run again.
std::string again(std::optional<bool> known, const ProbeResult& probed, const std::filesystem::path& file) {
  return known || probed.verdict ? "when " + file.string() + " was deleted" : "with the next load";
}

}  // namespace

StartedCache start_cache(const protocol::Load& load, const llama::Model& model, const llama::Context& context,
                         bool flash_attention, scheduler::Decoder& decoder, const Clock& clock,
                         std::function<void()> wake) {
  StartedCache out;
  const Mode mode = mode_of(model);
  if (load.cache.off || mode == Mode::none) return out;
  const kvcache::Digest fingerprint = fingerprint_of(load, mode, context.slots(), flash_attention).digest();
  const std::filesystem::path folder = load.cache_folder;
  const auto known = read_verdict(folder, fingerprint);
  const ProbeResult probed = probe(decoder, mode, probe_tokens(model.vocab()), known);
  if (!known && probed.verdict) write_verdict(folder, fingerprint, *probed.verdict);
  if (!probed.passed)
    log_warn("computed prompts stay in their slots: restoring them does not work with this model",
             {{"reason", probed.trouble},
              {"tried_again", again(known, probed, verdict_file(folder, fingerprint))}});

  const Bytes whole = load.cache.host_bytes;
  const Bytes staging =
      std::min(staging_bytes(probed, context, model.sliding_window()), whole / scheduler::kStagingShare);
  const Bytes scratch = load.cache.disk ? scratch_bytes(probed, context, model.sliding_window()) : 0;
  const bool usable = probed.passed && staging > 0;
  if (usable && load.cache.disk && !folder.empty()) {
    out.disk = std::make_unique<RecordThread>(
        kvcache::StoreOptions{.root = {}, .fingerprint = fingerprint, .folder = folder, .free_bytes = {}},
        probed.layout.value_or(kvcache::ImageLayout{}), clock, std::move(wake));
  }
  scheduler::CacheOptions options;
  options.mode = mode;
  options.slots = context.slots();
  options.sliding_window = model.sliding_window();
  options.host_budget = whole - std::min(whole, staging + scratch);
  options.scratch = scratch;
  options.disk_budget = load.cache.disk_bytes;
  options.staging_limit = staging;
  options.domain = kvcache::domain_of("", "", "", "");
  options.fingerprint = fingerprint;
  out.cache = std::make_unique<scheduler::PrefixCache>(options, decoder, out.disk.get(), clock);
  if (usable) out.cache->open(probed.layout, probed.streams);
  log_info("the prefix cache is ready", {{"mode", std::string(kvcache::name(usable ? mode : Mode::none))},
                                         {"memory", format_bytes(options.host_budget)},
                                         {"disk", out.disk ? "on" : "off"}});
  return out;
}

}  // namespace gezel::worker
