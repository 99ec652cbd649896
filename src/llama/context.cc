// One llama_context with a stream per slot (spec 40 section 11.0, layout S). decode() fills arrays that were
// allocated once: it runs a few hundred times a second and must not cost anything beside the library.
#include <ggml-backend.h>
#include <llama.h>

#include <algorithm>
#include <limits>
#include <map>
#include <new>

#include "base/log.h"
#include "llama/library.h"
#include "llama/llama.h"

// The library exports this function but declares it only in its staging header, which it does not install.
// The pinned revision is part of the build, so the shape is known; weak, because without it only the figures
// are missing.
struct llama_memory_breakdown_data {
  std::size_t model, context, compute;
};
__attribute__((weak)) std::map<ggml_backend_buffer_type_t, llama_memory_breakdown_data>
llama_get_memory_breakdown(const llama_context* context);

namespace gezel::llama {
namespace {

// The library pads every stream to this many cells.
constexpr std::int64_t kCellPadding = 256;
// Rows that may ask for logits in one call beside one per slot. Each costs a row of the vocabulary in the
// compute buffer; drafts will need more (spec 40 section 11.2).
constexpr int kExtraOutputs = 8;

// Weights as they stand in the file; other layouts are made for this processor.
bool is_plain(ggml_backend_buffer_type_t type) {
  return ggml_backend_buft_is_host(type);
}

std::int64_t padded(std::int64_t cells) {
  return (cells + kCellPadding - 1) / kCellPadding * kCellPadding;
}

llama_state_seq_flags state_flags(bool partial) {
  return partial ? LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY : 0;
}

std::unexpected<Error> bad_option(std::string_view name, std::int64_t value, std::int64_t low,
                                  std::int64_t high) {
  return fail(ErrorKind::invalid, "engine-internal",
              fmt::format("Context option {} is {}; it may be {} to {}.", name, value, low, high),
              std::string(name));
}

Result<> check(const ContextOptions& options) {
  const auto most_slots = static_cast<std::int64_t>(llama_max_parallel_sequences());
  constexpr std::int64_t kMostCells = std::numeric_limits<std::int32_t>::max();
  constexpr std::int64_t kMostRows = 1 << 20;
  if (options.slots < 1 || options.slots > most_slots)
    return bad_option("slots", options.slots, 1, most_slots);
  const std::int64_t most_context = kMostCells / options.slots - kCellPadding;
  if (options.context_per_slot < 1 || options.context_per_slot > most_context) {
    return bad_option("context_per_slot", options.context_per_slot, 1, most_context);
  }
  if (options.threads < 1 || options.threads > GGML_MAX_N_THREADS) {
    return bad_option("threads", options.threads, 1, GGML_MAX_N_THREADS);
  }
  if (options.batch_tokens < 1 || options.batch_tokens > kMostRows) {
    return bad_option("batch_tokens", options.batch_tokens, 1, kMostRows);
  }
  if (options.micro_batch_tokens < 1 || options.micro_batch_tokens > kMostRows) {
    return bad_option("micro_batch_tokens", options.micro_batch_tokens, 1, kMostRows);
  }
  return {};
}

}  // namespace

struct Context::Impl {
  llama_context* context = nullptr;
  llama_memory_t memory = nullptr;
  int slots = 0;
  int vocab_size = 0;
  std::size_t most_rows = 0;
  int most_outputs = 0;
  std::size_t micro_batch_rows = 0;
  std::uint64_t micro_batches = 0;
  std::atomic<const std::atomic<bool>*> abort_flag = nullptr;

  // The arrays behind llama_batch, each `most_rows` long.
  std::vector<llama_token> tokens;
  std::vector<llama_pos> positions;
  std::vector<std::int32_t> sequence_counts;  // all 1: a row belongs to exactly one slot
  std::vector<llama_seq_id> sequences;
  std::vector<llama_seq_id*> sequence_pointers;  // each to its element of `sequences`
  std::vector<std::int8_t> outputs;

  // Scratch of count_micro_batches.
  std::vector<char> used;
  std::vector<std::int32_t> remaining;  // per slot
  std::vector<std::int32_t> take;       // per slot

  ~Impl() {
    if (context != nullptr) llama_free(context);
  }

  void allocate_batch() {
    tokens.resize(most_rows);
    positions.resize(most_rows);
    sequence_counts.assign(most_rows, 1);
    sequences.resize(most_rows);
    sequence_pointers.resize(most_rows);
    for (std::size_t i = 0; i < most_rows; ++i) sequence_pointers[i] = &sequences[i];
    outputs.resize(most_rows);
    used.resize(most_rows);
    remaining.resize(static_cast<std::size_t>(slots));
    take.resize(static_cast<std::size_t>(slots));
  }

  // Into how many micro-batches the library splits these rows: each takes a run of consecutive ascending
  // slots in the order of their first unused rows, and equally many rows of each.
  std::uint64_t count_micro_batches(std::span<const Row> rows) {
    if (slots == 1) return (rows.size() + micro_batch_rows - 1) / micro_batch_rows;
    std::ranges::fill(used, char{0});
    std::ranges::fill(remaining, 0);
    for (const Row& row : rows) ++remaining[static_cast<std::size_t>(row.slot)];
    std::uint64_t count = 0;
    for (std::size_t left = rows.size(); left > 0; ++count) {
      std::ranges::fill(take, 0);
      int last_slot = -1;
      std::int32_t shortest = std::numeric_limits<std::int32_t>::max();
      std::size_t members = 0;
      for (std::size_t i = 0; i < rows.size() && members <= micro_batch_rows; ++i) {
        if (used[i] != 0 || (last_slot >= 0 && rows[i].slot != last_slot + 1)) continue;
        last_slot = rows[i].slot;
        take[static_cast<std::size_t>(last_slot)] = 1;
        shortest = std::min(shortest, remaining[static_cast<std::size_t>(last_slot)]);
        ++members;
      }
      const auto fitting = static_cast<std::int32_t>(std::max<std::size_t>(1, micro_batch_rows / members));
      for (auto& rows_taken : take) rows_taken *= std::min(shortest, fitting);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto slot = static_cast<std::size_t>(rows[i].slot);
        if (used[i] != 0 || take[slot] == 0) continue;
        used[i] = 1;
        --take[slot];
        --remaining[slot];
        --left;
      }
    }
    return count;
  }

  bool valid(std::span<const Row> rows) const {
    if (rows.empty() || rows.size() > most_rows) return false;
    int wanted = 0;
    for (const Row& row : rows) {
      if (row.token < 0 || row.token >= vocab_size || row.slot < 0 || row.slot >= slots || row.position < 0)
        return false;
      wanted += row.logits ? 1 : 0;
    }
    return wanted <= most_outputs;
  }

  llama_batch fill(std::span<const Row> rows) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      tokens[i] = rows[i].token;
      positions[i] = rows[i].position;
      sequences[i] = rows[i].slot;
      outputs[i] = rows[i].logits ? 1 : 0;
    }
    return llama_batch{.n_tokens = static_cast<std::int32_t>(rows.size()),
                       .token = tokens.data(),
                       .embd = nullptr,
                       .pos = positions.data(),
                       .n_seq_id = sequence_counts.data(),
                       .seq_id = sequence_pointers.data(),
                       .logits = outputs.data()};
  }
};

Result<std::unique_ptr<Context>> Context::create(const Model& model, const ContextOptions& options) {
  GEZEL_CHECK(check(options));
  auto impl = std::make_unique<Impl>();
  auto params = llama_context_default_params();
  params.n_ctx = static_cast<std::uint32_t>(options.slots * padded(options.context_per_slot));
  params.n_seq_max = static_cast<std::uint32_t>(options.slots);
  params.n_batch = static_cast<std::uint32_t>(options.batch_tokens);
  params.n_ubatch = static_cast<std::uint32_t>(options.micro_batch_tokens);
  params.n_outputs_max =
      static_cast<std::uint32_t>(std::min(options.slots + kExtraOutputs, options.batch_tokens));
  params.n_threads = options.threads;
  params.n_threads_batch = options.threads;
  params.flash_attn_type =
      options.flash_attention ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.type_k = params.type_v = options.cache_type == CacheType::q8_0 ? GGML_TYPE_Q8_0 : GGML_TYPE_F16;
  params.kv_unified = false;
  params.swa_full = false;
  params.offload_kqv = false;
  params.op_offload = false;
  params.no_perf = true;
  params.abort_callback_data = impl.get();
  params.abort_callback = [](void* user) {
    const auto* flag = static_cast<Impl*>(user)->abort_flag.load(std::memory_order_relaxed);
    return flag != nullptr && flag->load(std::memory_order_relaxed);
  };
  const LogCapture capture;
  std::string exception;
  try {
    const AssertsThrow asserts_throw;
    impl->context = llama_init_from_model(model.get(), params);
  } catch (const std::exception& error) {
    exception = error.what();
  }
  if (impl->context == nullptr) {
    auto lines = capture.lines();
    if (!exception.empty()) lines.push_back(exception);
    const std::string words = fmt::format("{}", fmt::join(lines, "; "));
    if (words.find("alloc") != std::string::npos) {
      return fail(
          ErrorKind::unavailable, "engine-out-of-memory",
          fmt::format(
              "Not enough memory for {} slots of {} tokens: {}. Use fewer slots or a smaller context.",
              options.slots, options.context_per_slot, words));
    }
    return fail(ErrorKind::internal, "engine-internal",
                fmt::format("The model's context could not be created: {}.",
                            words.empty() ? "no reason given" : words));
  }
  impl->memory = llama_get_memory(impl->context);
  if (impl->memory == nullptr) {
    return fail(ErrorKind::invalid, "engine-internal",
                "The model keeps no memory of earlier tokens (an encoder), so it cannot generate text.");
  }
  impl->slots = options.slots;
  impl->vocab_size = model.vocab().size();
  impl->most_rows = llama_n_batch(impl->context);
  impl->most_outputs = static_cast<int>(params.n_outputs_max);
  impl->micro_batch_rows = llama_n_ubatch(impl->context);
  impl->allocate_batch();
  std::unique_ptr<Context> context(new Context);
  context->impl_ = std::move(impl);
  return context;
}

Context::~Context() = default;

DecodeCode Context::decode(std::span<const Row> rows) {
  Impl& impl = *impl_;
  if (!impl.valid(rows)) return DecodeCode::bad_batch;
  int code = 0;
  try {
    const QuietScope quiet;
    code = llama_decode(impl.context, impl.fill(rows));
  } catch (const std::exception& error) {
    log_error("a decode step failed", {{"source", "libllama"}, {"error", error.what()}});
    return DecodeCode::failed;
  }
  if (code == 0 || code == 2) impl.micro_batches += impl.count_micro_batches(rows);
  switch (code) {
    case 0:
      return DecodeCode::ok;
    case 1:
      return DecodeCode::no_space;
    case 2:
      return DecodeCode::aborted;
    case -1:
      return DecodeCode::bad_batch;
    default:
      return DecodeCode::failed;
  }
}

std::span<const float> Context::logits(int index) const {
  if (index < 0) return {};  // the library counts negative ones from the end
  const float* row = llama_get_logits_ith(impl_->context, index);
  if (row == nullptr) return {};
  return {row, static_cast<std::size_t>(impl_->vocab_size)};
}

bool Context::remove(int slot, std::int32_t from, std::int32_t to) {
  if (slot < 0 || slot >= impl_->slots) return false;
  return llama_memory_seq_rm(impl_->memory, slot, from, to);
}

std::int32_t Context::position_min(int slot) const {
  return slot < 0 || slot >= impl_->slots ? -1 : llama_memory_seq_pos_min(impl_->memory, slot);
}

std::int32_t Context::position_max(int slot) const {
  return slot < 0 || slot >= impl_->slots ? -1 : llama_memory_seq_pos_max(impl_->memory, slot);
}

Bytes Context::state_bytes(int slot, bool partial) const {
  if (slot < 0 || slot >= impl_->slots) return 0;
  llama_synchronize(impl_->context);
  return llama_state_seq_get_size_ext(impl_->context, slot, state_flags(partial));
}

Bytes Context::export_state(int slot, bool partial, std::span<std::byte> out) const {
  if (slot < 0 || slot >= impl_->slots) return 0;
  const QuietScope quiet;
  llama_synchronize(impl_->context);
  return llama_state_seq_get_data_ext(impl_->context, reinterpret_cast<std::uint8_t*>(out.data()), out.size(),
                                      slot, state_flags(partial));
}

Bytes Context::import_state(int slot, bool partial, std::span<const std::byte> image) {
  if (slot < 0 || slot >= impl_->slots) return 0;
  const QuietScope quiet;
  return llama_state_seq_set_data_ext(impl_->context, reinterpret_cast<const std::uint8_t*>(image.data()),
                                      image.size(), slot, state_flags(partial));
}

void Context::set_abort_flag(const std::atomic<bool>* flag) {
  impl_->abort_flag.store(flag, std::memory_order_relaxed);
}

void Context::set_threads(int threads) {
  const int count = std::clamp(threads, 1, GGML_MAX_N_THREADS);
  llama_set_n_threads(impl_->context, count, count);
}
int Context::threads() const {
  return llama_n_threads(impl_->context);
}

int Context::slots() const {
  return impl_->slots;
}
std::int64_t Context::context_per_slot() const {
  return llama_n_ctx_seq(impl_->context);
}
int Context::batch_tokens() const {
  return static_cast<int>(impl_->most_rows);
}
int Context::max_outputs() const {
  return impl_->most_outputs;
}
std::uint64_t Context::micro_batches() const {
  return impl_->micro_batches;
}
MemoryUse Context::memory() const {
  MemoryUse use;
  if (llama_get_memory_breakdown == nullptr) return use;
  for (const auto& [type, data] : llama_get_memory_breakdown(impl_->context)) {
    (is_plain(type) ? use.weights : use.repack) += data.model;
    use.kv += data.context;
    use.compute += data.compute;
  }
  return use;
}

}  // namespace gezel::llama
