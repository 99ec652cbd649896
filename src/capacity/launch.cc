// A plan is a search over rounds: the same question with more and more of the machine made available. Each
// round resolves cache type, slots, ladder, sliding windows and growth anew, because all of them depend on
// what other models hold. Concurrency and window shrink inside a round, before anything is stopped: two
// models that evict each other for the sake of another slot would spend their time loading.
#include "capacity/launch.h"

#include <fmt/format.h>

#include "capacity/arithmetic.h"
#include "capacity/growth.h"
#include "capacity/slots.h"
#include "capacity/swa.h"

namespace gezel::capacity {
namespace {

constexpr Bytes kSpareCacheShare = 4;  // a quarter of what is left over
constexpr Bytes kSpareCacheStep = 16 * kMiB;

struct Round {
  std::string what;
  Bytes committed_other = 0, budget = 0;
  std::optional<Bytes> free_ram;
  Bytes vram = 0;
  std::vector<std::string> evicts;
  std::optional<Tokens> below_floor;
};

struct Costs {
  LinearCost full, windowed;  // the same without sliding windows
  bool windows = false, layout_known = true, exact = false;
};

struct Attempt {
  KvChoice kv;
  int planned = 1, slots = 1;
  Tokens context = 0;
  Ladder ladder;
  Costs costs;
  LinearCost cost;      // of the layout that was chosen
  bool checked = true;  // false: no ladder was applied
  bool swa_full = false, grown = false;
  PlanBytes bytes;
  Bytes missing = 0;  // the broker's shortfall
  bool possible = false;
  Binding binding = Binding::none;
  std::vector<Note> notes;
};

KvGeometry unwindowed(KvGeometry geometry) {
  geometry.global_elements += geometry.windowed_elements;
  geometry.windowed_elements = 0;
  geometry.window = 0;
  return geometry;
}

void add(LinearCost& cost, const KvCost& kv) {
  cost.token = plus(cost.token, kv.slope);
  cost.slot_fixed = plus(cost.slot_fixed, kv.fixed);
}

Bytes kv_at(const LinearCost& cost, int slots, Tokens context) {
  return times(plus(cost.slot_fixed, times(cost.token, static_cast<std::uint64_t>(context))),
               static_cast<std::uint64_t>(slots));
}

class Planner {
 public:
  explicit Planner(const LaunchInput& input)
      : in_(input),
        model_(input.model),
        machine_(input.machine),
        settings_(input.settings),
        discrete_(machine_.pools.kind == PoolKind::discrete_gpu) {
    need_ = launch_requirement(input);
    weights_ = model_.weights.value_or(kUnknownWeights);
    resident_ = resident();
  }

  MemoryPlan plan() {
    const auto rounds = all_rounds();
    const auto below = below_floor_minimum(need_);
    std::vector<std::pair<Round, Attempt>> tried;
    const auto take = [&](const Round& round) {
      tried.emplace_back(round, attempt(round));
      return tried.back().second.possible;
    };
    bool found = false;
    for (const Round& round : rounds) {
      if ((found = take(round))) break;
    }
    // Beside busy models the card is the limit, and a smaller plan may respect it.
    const bool card = std::ranges::any_of(tried, [](const auto& t) { return t.second.missing > 0; });
    for (const Round& round : rounds) {
      if (found || !card) break;
      const Round limited = on_the_card(round);
      if (limited.budget < round.budget) found = take(limited);
    }
    if (!found && below) {
      Round last = on_the_card(rounds.back());
      last.below_floor = below;
      last.what += ", with a shorter window than usual";
      if ((found = take(last))) found = shed_evictions(rounds, *below, tried);
    }
    return found ? granted(tried) : denied(tried);
  }

 private:
  Bytes resident() const {
    Bytes bytes = 0;
    if (const auto& dry = in_.dry_run) {
      bytes = plus(plus(dry->weights, dry->repack), plus(dry->compute, dry->process));
    } else {
      bytes = model_.resident.value_or(resident_bytes(settings_.family, weights_, model_.projector));
    }
    if (model_.draft_weights > 0) bytes = plus(bytes, resident_bytes(settings_.family, model_.draft_weights));
    return plus(bytes, settings_.prompt_cache);
  }

  // Our own worker pads and rounds in a way that is known.
  bool exact_layout() const {
    return model_.geometry && settings_.embedded && settings_.micro_batch.has_value();
  }

  Costs costs(KvType type) const {
    Costs out;
    out.exact = model_.geometry.has_value();
    if (model_.geometry) {
      out.windows = model_.geometry->windowed_elements > 0;
      out.layout_known = model_.geometry->window_layout_known;
      KvCost windowed = kv_cost(*model_.geometry, type);
      if (exact_layout()) {
        // Of the largest window that may be granted; a shorter one takes less.
        KvGeometry fixed = *model_.geometry;
        fixed.global_elements = 0;
        windowed.fixed = kv_bytes(fixed, {.type = type, .micro_batch = settings_.micro_batch},
                                  need_.growth_target.value_or(need_.requested));
      }
      add(out.windowed, windowed);
      add(out.full, kv_cost(unwindowed(*model_.geometry), type));
    } else {
      KvCost guess = heuristic_kv(weights_, type);
      if (const auto& dry = in_.dry_run; dry && dry->slots > 0 && dry->context > 0 && dry->type == type) {
        const Bytes cells = static_cast<Bytes>(dry->slots) * static_cast<Bytes>(dry->context);
        guess.slope = (dry->kv + cells - 1) / cells;
      }
      add(out.windowed, guess);
      add(out.full, guess);
    }
    if (model_.draft_geometry) {
      add(out.windowed, kv_cost(*model_.draft_geometry, type));
      add(out.full, kv_cost(unwindowed(*model_.draft_geometry), type));
    }
    out.full.resident = out.windowed.resident = resident_;
    return out;
  }

  // Beside everything first, then with one more idle engine gone each time.
  std::vector<Round> all_rounds() const {
    const Bytes usable = machine_.pools.vram_bytes;
    Round round{
        .what = machine_.committed_other > 0 ? "beside the loaded models" : "with nothing else loaded",
        .committed_other = machine_.committed_other,
        .budget = machine_.broker.budget,
        .free_ram = machine_.free_ram,
        .vram = discrete_ ? std::min(usable, machine_.free_vram.value_or(usable)) : 0};
    std::vector<Round> rounds{round};
    for (const Resident& victim : idle_victims(machine_.residents, model_.key)) {
      round.evicts.push_back(victim.key);
      round.what = round.evicts.size() == 1 ? "after stopping " + victim.key : round.what + ", " + victim.key;
      round.committed_other = minus(round.committed_other, victim.bytes);
      // Where its memory comes back is not known exactly; on a card it was on the card first.
      const Bytes to_card = discrete_ ? std::min(victim.bytes, usable - round.vram) : 0;
      round.vram += to_card;
      if (round.free_ram) round.free_ram = plus(*round.free_ram, victim.bytes - to_card);
      rounds.push_back(round);
    }
    return rounds;
  }

  Round on_the_card(Round round) const {
    if (round.committed_other == 0 || machine_.broker.co_residency >= round.budget) return round;
    round.budget = machine_.broker.co_residency;
    round.what += ", inside the graphics memory";
    return round;
  }

  SlotInput slot_input(const Round& round, KvType type) const {
    return {.family = settings_.family,
            .fast_bytes = machine_.pools.fast_bytes,
            .fast_budget = machine_.broker.fast_budget,
            .concurrency_bytes = machine_.pools.concurrency_bytes,
            .committed_other = round.committed_other,
            .weights = model_.weights,
            .resident = resident_,
            .slot_kv = slot_kv_bytes(model_.geometry, weights_, type, need_.requested),
            .configured = settings_.slots,
            .embedded = settings_.embedded,
            .draft_mtp = settings_.draft_mtp};
  }

  void choose_type(const Round& round, Attempt& out) const {
    out.kv = choose_kv({.configured = settings_.kv_type,
                        .on_gpu = machine_.on_gpu,
                        .architecture = model_.architecture,
                        .model_id = model_.id,
                        .calibrated = settings_.calibrated});
    SlotInput slots = slot_input(round, out.kv.type);
    const SlotInput with_q8 = slot_input(round, KvType::q8_0);
    // On a processor a quantized cache costs speed at depth; a slot is not worth that.
    if (machine_.on_gpu && trade_for_a_slot({.type_configured = settings_.kv_type.has_value(),
                                             .slots_configured = settings_.slots.has_value(),
                                             .chosen = out.kv.type,
                                             .tier = tier_slots(machine_.pools.fast_bytes),
                                             .f16_ceiling = slot_ceiling(slots),
                                             .q8_ceiling = slot_ceiling(with_q8)})) {
      out.kv = with_type(KvType::q8_0);
      slots = with_q8;
      out.notes.push_back({NoteLevel::info, "The KV cache is kept as q8_0, which gives a second slot."});
    }
    out.planned = plan_slots(slots);
  }

  // Ladder and sliding windows for one cache type.
  void fit_context(const Round& round, Attempt& out) const {
    out.costs = costs(out.kv.type);
    const Costs& costs = out.costs;
    const Room room = room_of(round);
    const Ladder full = run_ladder({need_.requested, need_.minimum, out.planned, costs.full, room});
    SwaDecision swa;
    if (settings_.swa_full || settings_.catalog_swa_full || !costs.exact || costs.windows ||
        !costs.layout_known) {
      const Bytes full_kv = kv_at(costs.full, out.planned, need_.requested);
      swa = decide_swa({.configured = settings_.swa_full,
                        .catalog = settings_.catalog_swa_full,
                        .gemma = is_gemma_family(model_.architecture, model_.id),
                        .full_kv = costs.exact ? std::optional(full_kv) : std::nullopt,
                        .total_tokens = need_.requested * out.planned,
                        .resident = resident_,
                        .fast_budget = machine_.broker.fast_budget,
                        .committed_other = round.committed_other,
                        .kv_ceiling = kv_ceiling(),
                        .planned_slots = out.planned,
                        .ladder = full});
    }
    if (swa.note) out.notes.push_back(*swa.note);
    out.swa_full = swa.full;
    out.cost = swa.full ? costs.full : costs.windowed;
    // Windows in an unknown pattern: their cost as if they were none is an upper bound that would clamp far
    // too much, so nothing is clamped.
    out.checked = !need_.unchecked && model_.readable && (costs.layout_known || swa.full);
    if (!out.checked) {
      out.ladder = {.slots = out.planned, .context = need_.requested, .satisfied = true};
    } else {
      out.ladder =
          run_ladder({need_.requested, need_.minimum, out.planned, out.cost, room}, round.below_floor);
    }
  }

  Attempt attempt(const Round& round) const {
    Attempt out;
    choose_type(round, out);
    fit_context(round, out);
    const bool open = !settings_.kv_type && !settings_.calibrated && !machine_.on_gpu;
    if (open && out.kv.type == KvType::f16 && (!out.ladder.satisfied || out.ladder.below_floor)) {
      Attempt narrow;
      narrow.kv = with_type(KvType::q8_0);
      narrow.planned = out.planned;
      fit_context(round, narrow);
      if (narrow.ladder.satisfied && !narrow.ladder.below_floor) {
        narrow.notes.push_back({NoteLevel::info,
                                "The KV cache is kept as q8_0 with flash attention: as f16 the window would "
                                "be shorter than this machine's least."});
        out = std::move(narrow);
      }
    }
    out.slots = out.ladder.slots;
    out.context = out.ladder.context;
    grow(round, out);
    out.bytes = bytes(out);
    out.missing = shortfall(machine_.broker, round.committed_other, out.bytes.total());
    out.possible = out.ladder.satisfied && (out.missing == 0 || need_.unchecked);
    out.binding = binding(round, out);
    return out;
  }

  Room room_of(const Round& round) const {
    return {.budget = round.budget,
            .committed_other = round.committed_other,
            .free_ram = round.free_ram,
            .vram = round.vram,
            .reserve = live_reserve(machine_.total_ram)};
  }

  Bytes kv_ceiling() const { return auto_kv_ceiling(machine_.broker.fast_budget, settings_.kv_ceiling); }

  void grow(const Round& round, Attempt& out) const {
    if (!out.checked || !need_.growth_target || !out.ladder.satisfied || out.ladder.below_floor) return;
    const Growth growth = grow_context({.base = out.context,
                                        .target = *need_.growth_target,
                                        .slots = out.slots,
                                        .slots_configured = settings_.slots.has_value(),
                                        .cost = out.cost,
                                        .exact = out.costs.exact,
                                        .moe = model_.moe,
                                        .discrete = discrete_,
                                        .fast_budget = machine_.broker.fast_budget,
                                        .committed_other = round.committed_other,
                                        .free_ram = round.free_ram,
                                        .vram = round.vram,
                                        .reserve = live_reserve(machine_.total_ram),
                                        .kv_ceiling = kv_ceiling()});
    if (!growth.grown) return;
    out.grown = true;
    out.notes.push_back({NoteLevel::info, fmt::format("The window grows from {} to {} tokens ({} slots).",
                                                      out.context, growth.context, growth.slots)});
    out.slots = growth.slots;
    out.context = growth.context;
  }

  // The dry run had just this shape, so that its cache is exact.
  bool measured(const Attempt& attempt) const {
    const auto& dry = in_.dry_run;
    if (!dry || dry->kv == 0 || model_.draft_weights > 0) return false;
    return dry->slots == 0 ||
           (dry->slots == attempt.slots && dry->context == attempt.context && dry->type == attempt.kv.type);
  }

  PlanBytes bytes(const Attempt& attempt) const {
    PlanBytes out{.cache = settings_.prompt_cache};
    const Bytes engine = resident_ - settings_.prompt_cache;  // resident() added it
    if (const auto& dry = in_.dry_run) {
      out.weights = plus(dry->weights, model_.draft_weights);
      out.repack = dry->repack;
    } else {
      out.weights = std::min(plus(plus(weights_, model_.projector), model_.draft_weights), engine);
    }
    out.compute = minus(engine, plus(out.weights, out.repack));
    out.kv = kv_at(attempt.cost, attempt.slots, attempt.context);
    if (exact_layout()) {
      LinearCost draft;
      if (model_.draft_geometry) {
        add(draft, kv_cost(attempt.swa_full ? unwindowed(*model_.draft_geometry) : *model_.draft_geometry,
                           attempt.kv.type));
      }
      out.kv = plus(kv_bytes(*model_.geometry,
                             {.type = attempt.kv.type,
                              .slots = attempt.slots,
                              .full_window = attempt.swa_full,
                              .micro_batch = settings_.micro_batch},
                             attempt.context),
                    kv_at(draft, attempt.slots, attempt.context));
    }
    if (measured(attempt)) out.kv = in_.dry_run->kv;
    return out;
  }

  Binding binding(const Round& round, const Attempt& attempt) const {
    if (attempt.missing > 0 && attempt.ladder.satisfied) {
      const bool over = plus(round.committed_other, attempt.bytes.total()) > machine_.broker.budget;
      return over ? Binding::budget : Binding::co_residency;
    }
    if (!attempt.checked || attempt.grown) return Binding::none;
    const Clamp wanted = clamp_context(need_.requested, attempt.planned, attempt.cost, room_of(round), 1);
    if (wanted.binding == Binding::budget && round.budget < machine_.broker.budget)
      return Binding::co_residency;
    return wanted.binding;
  }

  // A short window is granted with everything idle gone; engines whose going did not lengthen it may stay.
  bool shed_evictions(const std::vector<Round>& rounds, Tokens below,
                      std::vector<std::pair<Round, Attempt>>& tried) const {
    const Tokens best = tried.back().second.context;
    for (Round round : rounds) {
      round = on_the_card(round);
      round.below_floor = below;
      Attempt fewer = attempt(round);
      if (fewer.possible && fewer.context >= best) {
        tried.back() = {std::move(round), std::move(fewer)};
        break;
      }
    }
    return true;
  }

  Tokens largest(const Round& round, const Attempt& attempt) const {
    return clamp_context(need_.native, 1, attempt.cost, room_of(round), 1).context;
  }

  MemoryPlan common(const std::vector<std::pair<Round, Attempt>>& tried) const {
    const auto& [round, last] = tried.back();
    MemoryPlan plan;
    plan.kv_type = last.kv.type;
    plan.flash_attention = last.kv.flash_attention;
    plan.swa_full = last.swa_full;
    plan.binding = last.binding;
    plan.largest_context = largest(round, last);
    plan.estimated = !measured(last) &&
                     (!last.costs.exact || !last.costs.layout_known || !model_.weights || !model_.readable);
    plan.inputs = {.requested = need_.requested,
                   .minimum = need_.minimum,
                   .native = need_.native,
                   .planned_slots = last.planned,
                   .resident = resident_,
                   .kv_per_token = last.cost.token,
                   .kv_fixed_per_slot = last.cost.slot_fixed,
                   .budget = machine_.broker.budget,
                   .fast_budget = machine_.broker.fast_budget,
                   .co_residency = machine_.broker.co_residency,
                   .committed_other = machine_.committed_other,
                   .free_ram = machine_.free_ram,
                   .vram = round.vram};
    for (const auto& [where, attempt] : tried) {
      plan.alternatives.push_back({.what = where.what,
                                   .slots = attempt.slots,
                                   .context = attempt.context,
                                   .bytes = attempt.bytes.total(),
                                   .possible = attempt.possible,
                                   .binding = attempt.binding,
                                   .why = attempt.ladder.reason});
    }
    return plan;
  }

  // Of what is left in the budget and really free.
  Bytes spare_cache(const Round& round, Bytes taken) const {
    Bytes left = minus(round.budget, plus(round.committed_other, taken));
    if (round.free_ram)
      left = std::min(left, minus(*round.free_ram, plus(taken, live_reserve(machine_.total_ram))));
    // In steps, so that two looks at the same machine give the same figure.
    const Bytes share = left / kSpareCacheShare / kSpareCacheStep * kSpareCacheStep;
    const Bytes cache = std::min(settings_.spare_cache, share);
    return shortfall(machine_.broker, round.committed_other, plus(taken, cache)) == 0 ? cache : 0;
  }

  MemoryPlan granted(const std::vector<std::pair<Round, Attempt>>& tried) const {
    const auto& [round, taken] = tried.back();
    MemoryPlan plan = common(tried);
    plan.slots = taken.slots;
    plan.context = taken.context;
    plan.bytes = taken.bytes;
    plan.bytes.cache = plus(plan.bytes.cache, spare_cache(round, taken.bytes.total()));
    plan.evicts = round.evicts;
    plan.below_floor = taken.ladder.below_floor;
    plan.grown = taken.grown;
    plan.unchecked = need_.unchecked;
    plan.notes = taken.notes;
    const bool fewer = taken.ladder.slots < taken.planned, shorter = taken.ladder.clamped;
    plan.decision = plan.below_floor       ? Decision::smaller
                    : !plan.evicts.empty() ? Decision::evict
                    : fewer || shorter     ? Decision::smaller
                                           : Decision::fits;
    if (!model_.readable) {
      plan.notes.push_back({NoteLevel::warn,
                            "The model's metadata could not be read: what it needs is "
                            "guessed from its size, and its window is not checked."});
    }
    if (fewer) {
      plan.notes.push_back({NoteLevel::info, fmt::format("{} of {} slots, so that each has its window.",
                                                         taken.ladder.slots, taken.planned)});
    }
    if (shorter) plan.notes.push_back({NoteLevel::warn, taken.ladder.reason});
    if (plan.below_floor) {
      plan.notes.push_back(
          {NoteLevel::warn,
           fmt::format("The window is {} tokens, shorter than the {} that this machine usually "
                       "grants: there is no memory for more.",
                       plan.context, need_.minimum)});
    }
    if (model_.readable && machine_.on_gpu) {
      plan.offload = plan_offload({.vram = machine_.largest_vram,
                                   .moe = model_.moe,
                                   .resident = resident_,
                                   .kv = plan.bytes.kv,
                                   .tensors = model_.tensors,
                                   .blocks = model_.blocks});
    }
    return plan;
  }

  MemoryPlan denied(const std::vector<std::pair<Round, Attempt>>& tried) const {
    const auto& [round, last] = tried.back();
    MemoryPlan plan = common(tried);
    plan.decision = Decision::no;
    // What the least that is worth loading would take.
    Attempt least = last;
    least.slots = 1;
    least.context = round.below_floor.value_or(need_.minimum);
    plan.bytes = bytes(least);
    const Bytes total = plan.bytes.total();
    const Bytes others = round.committed_other;
    Denial denial;
    if (plus(others, last.cost.resident) > machine_.broker.budget ||
        (last.ladder.satisfied && plan.binding == Binding::budget)) {
      const Budget& pools = machine_.pools;
      denial = deny_over_budget(model_.name, total,
                                {.kind = pools.kind,
                                 .budget = machine_.broker.budget,
                                 .vram = std::min(pools.vram_bytes, machine_.broker.budget),
                                 .ram_share = minus(machine_.broker.budget, pools.vram_bytes),
                                 .total_ram = machine_.total_ram,
                                 .committed_other = others});
      denial.limit = machine_.broker.budget;
    } else if (plan.binding == Binding::co_residency) {
      denial = deny_co_residency(model_.name);
      denial.limit = machine_.broker.co_residency;
    } else {
      denial = deny_context(model_.name, least.context, plan.largest_context, last.ladder.reason);
      denial.limit = last.ladder.clamp.cap;
    }
    denial.key = model_.key;
    denial.bytes = total;
    denial.would_commit = plus(others, total);
    plan.denial = std::move(denial);
    return plan;
  }

  const LaunchInput& in_;
  const ModelFacts& model_;
  const MachineState& machine_;
  const LaunchSettings& settings_;
  const bool discrete_;
  ContextRequirement need_;
  Bytes weights_ = 0, resident_ = 0;
};

}  // namespace

ModelFacts model_facts(const gguf::Metadata& metadata) {
  const gguf::Geometry& geometry = metadata.geometry;
  ModelFacts out;
  out.architecture = metadata.architecture;
  out.name = metadata.name;
  out.weights = metadata.file_size_bytes;
  out.geometry = kv_geometry(metadata);
  if (geometry.context_length && *geometry.context_length < (std::uint64_t{1} << 40))
    out.native = static_cast<Tokens>(*geometry.context_length);
  out.moe = geometry.expert_count.value_or(0) > 1;
  out.blocks = static_cast<int>(std::min<std::uint64_t>(geometry.block_count.value_or(0), 65'536));
  out.tensors = metadata.tensor_sizes;
  return out;
}

ContextRequirement launch_requirement(const LaunchInput& input) {
  ContextWish wish = input.settings.context;
  wish.native = input.model.native;
  const MachineState& machine = input.machine;
  const bool discrete = machine.pools.kind == PoolKind::discrete_gpu;
  return context_requirement(wish, input.settings.floor.value_or(context_floor(
                                       discrete ? machine.pools.vram_bytes : 0, machine.total_ram)));
}

MemoryPlan plan_launch(const LaunchInput& input) {
  return Planner(input).plan();
}

LaunchPreview preview_launch(LaunchInput input) {
  input.machine.free_ram.reset();
  input.machine.free_vram.reset();
  const MemoryPlan plan = plan_launch(input);
  LaunchPreview out;
  out.context_window = plan.context;
  out.native_context_window = plan.inputs.native;
  out.minimum = plan.inputs.minimum;
  out.slots = plan.slots;
  out.weights_resident = plan.inputs.resident;
  out.kv_per_token = plan.inputs.kv_per_token;
  out.kv_fixed = plan.inputs.kv_fixed_per_slot;
  out.reserved_resident = plan.slots > 0 ? plan.reservation() : 0;
  const Bytes one_slot = plan.slots > 0 ? plan.bytes.kv / static_cast<Bytes>(plan.slots) : 0;
  out.planned_resident = plan.slots > 0 ? plus(minus(plan.reservation(), plan.bytes.kv), one_slot) : 0;
  ContextWish& wish = input.settings.context;
  const auto named = wish.environment      ? wish.environment
                     : wish.model_override ? wish.model_override
                                           : wish.configured;
  if (named) {
    out.override_context = named;
    wish.environment = wish.model_override = wish.configured = std::nullopt;
    out.auto_context = plan_launch(input).context;
  }
  return out;
}

std::optional<Denial> stale_window(std::string_view name, Tokens resident, bool below_floor,
                                   const LaunchPreview& preview) {
  if (preview.override_context && resident != preview.context_window)
    return deny_stale_window(name, resident, preview.context_window);
  if (resident >= preview.minimum || below_floor) return std::nullopt;
  return deny_stale_window(name, resident, preview.minimum);
}

}  // namespace gezel::capacity
