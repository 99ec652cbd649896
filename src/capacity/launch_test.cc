#include "capacity/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "capacity/swa.h"
#include "capacity/test_machines.h"

namespace gezel::capacity {
namespace {

using namespace testing;  // gib(), the machines and models of this module
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// 128 KiB per token of f16.
constexpr KvGeometry kDense{.global_elements = 65'536, .attention_layers = 32};

LaunchInput launch(const MemoryProfile& profile, Bytes weights, const KvGeometry& geometry = kDense) {
  LaunchInput input;
  input.model = {.key = "llama-cpp:new:0",
                 .id = "new",
                 .name = "New Model",
                 .architecture = "llama",
                 .weights = weights,
                 .geometry = geometry,
                 .native = 65'536};
  input.machine = machine(profile);
  input.settings.kv_type = KvType::f16;
  return input;
}

void load(LaunchInput& input, const std::string& key, Bytes bytes, bool busy) {
  input.machine.residents.push_back({.key = key, .bytes = bytes, .busy = busy});
  input.machine.committed_other += bytes;
}

// --- the full sliding-window cache: SWA-A in a file of 6 GiB

LaunchInput swa_launch(double ram, int slots, double free) {
  LaunchInput input = launch(unified_host(ram), gib(6), swa_geometry());
  input.model.architecture = "gemma3";
  input.settings.slots = slots;
  input.machine.free_ram = gib(free);
  return input;
}

TEST(Swa, Case61_GemmaKeepsTheWholeContextWhereItFits) {
  const MemoryPlan plan = plan_launch(swa_launch(64, 2, 40));
  EXPECT_TRUE(plan.swa_full);
  EXPECT_EQ(plan.inputs.resident, 7'355'131'494u);
  EXPECT_EQ(plan.bytes.kv, gib(11));
  EXPECT_EQ(plan.decision, Decision::fits);
  EXPECT_THAT(plan.notes, IsEmpty());
}

TEST(Swa, Case62_AboveTheCeilingTheWindowedCacheIsAPolicy) {
  const MemoryPlan plan = plan_launch(swa_launch(64, 4, 40));
  EXPECT_FALSE(plan.swa_full);
  EXPECT_EQ(plan.slots, 4);
  EXPECT_EQ(plan.context, 65'536);
  ASSERT_EQ(plan.notes.size(), 1u);
  EXPECT_EQ(plan.notes[0].level, NoteLevel::info);
  EXPECT_THAT(plan.notes[0].text, HasSubstr("262144 tokens would take 22.0 GiB, above the 12.0 GiB"));
  EXPECT_THAT(plan.notes[0].text, HasSubstr("prefix reuse across requests is unavailable"));
}

TEST(Swa, Case63_AShortageIsAWarningAndTheWindowedPlanIsGranted) {
  const LaunchInput input = swa_launch(24, 2, 14);
  const MemoryPlan plan = plan_launch(input);
  EXPECT_FALSE(plan.swa_full);
  EXPECT_EQ(plan.slots, 2);
  EXPECT_EQ(plan.context, 65'536);
  EXPECT_EQ(plan.reservation(), 9'880'102'502u);
  ASSERT_EQ(plan.notes.size(), 1u);
  EXPECT_EQ(plan.notes[0].level, NoteLevel::warn);
  EXPECT_THAT(plan.notes[0].text, HasSubstr("17.8 GiB, and 16.8 GiB of fast memory are available"));
  const Ladder full = run_ladder({.requested = 65'536,
                                  .minimum = 65'536,
                                  .slots = 2,
                                  .cost = {.resident = 7'355'131'494, .token = 90'112},
                                  .room = {.budget = input.machine.broker.budget, .free_ram = gib(14)}});
  EXPECT_FALSE(full.satisfied);
  EXPECT_EQ(full.context, 48'128);
}

TEST(Swa, Case64_AnExplicitChoiceIsTakenWithoutAWord) {
  LaunchInput input = swa_launch(64, 4, 40);
  input.settings.swa_full = true;
  const MemoryPlan plan = plan_launch(input);
  EXPECT_TRUE(plan.swa_full);
  EXPECT_EQ(plan.slots, 4);
  EXPECT_THAT(plan.notes, IsEmpty());
  input.settings.swa_full.reset();
  input.settings.catalog_swa_full = false;
  EXPECT_FALSE(plan_launch(input).swa_full);
  EXPECT_THAT(plan_launch(input).notes, IsEmpty());
}

TEST(Swa, Case65_OtherFamiliesNeverGetItByThemselves) {
  LaunchInput input = swa_launch(64, 2, 40);
  input.model.architecture = "gpt-oss";
  const MemoryPlan plan = plan_launch(input);
  EXPECT_FALSE(plan.swa_full);
  EXPECT_THAT(plan.notes, IsEmpty());
  EXPECT_EQ(plan.bytes.kv, 2u * 1'262'485'504);
}

TEST(Swa, AnUnknownGeometryKeepsTheDefault) {
  EXPECT_TRUE(decide_swa({.gemma = true}).full);
  EXPECT_FALSE(decide_swa({}).full);
}

TEST(Swa, AnUnknownWindowPatternClampsNothing) {
  LaunchInput input = launch(plain_host(16), gib(4));
  input.model.geometry->window_layout_known = false;
  input.settings.slots = 4;
  input.settings.floor = 4'096;
  input.machine.broker.enforced = false;
  const MemoryPlan plan = plan_launch(input);
  EXPECT_EQ(plan.slots, 4);
  EXPECT_EQ(plan.context, 65'536);
  EXPECT_TRUE(plan.estimated);
}

// --- decisions

TEST(Launch, AModelWithRoomFits) {
  const MemoryPlan plan = plan_launch(launch(plain_host(64), gib(4)));
  EXPECT_EQ(plan.decision, Decision::fits);
  EXPECT_EQ(plan.slots, 3);
  EXPECT_EQ(plan.context, 65'536);
  EXPECT_EQ(plan.binding, Binding::none);
  EXPECT_EQ(plan.largest_context, 65'536);
  EXPECT_FALSE(plan.estimated);
}

TEST(Launch, ThePartsAddUpToTheReservation) {
  LaunchInput input = launch(plain_host(64), gib(4));
  input.model.projector = gib(0.5);
  input.model.draft_weights = gib(0.25);
  input.model.draft_geometry = KvGeometry{.global_elements = 1024};
  input.settings.prompt_cache = gib(1);
  const MemoryPlan plan = plan_launch(input);
  EXPECT_EQ(plan.bytes.weights, gib(4.75));
  EXPECT_EQ(plan.bytes.cache, gib(1));
  EXPECT_EQ(plan.bytes.kv, static_cast<Bytes>(plan.slots) * 65'536 * (65'536 + 1024) * 2);
  EXPECT_EQ(plan.reservation(), resident_bytes(EngineFamily::llama_cpp, gib(4), gib(0.5)) +
                                    resident_bytes(EngineFamily::llama_cpp, gib(0.25)) + plan.bytes.kv +
                                    gib(1));
}

TEST(Launch, ComputedPromptsGetAQuarterOfWhatIsLeftOver) {
  LaunchInput input = launch(plain_host(64), gib(4));
  const MemoryPlan without = plan_launch(input);
  input.settings.spare_cache = gib(1);
  const MemoryPlan with = plan_launch(input);
  EXPECT_EQ(with.bytes.cache, gib(1));
  EXPECT_EQ(with.slots, without.slots);
  EXPECT_EQ(with.context, without.context);
  EXPECT_EQ(with.bytes.kv, without.bytes.kv);
  input.settings.spare_cache = gib(1000);
  const MemoryPlan most = plan_launch(input);
  EXPECT_GT(most.bytes.cache, 0u);
  EXPECT_LE(4 * most.bytes.cache, most.inputs.budget - without.bytes.total());
  EXPECT_EQ(most.context, without.context);
}

TEST(Launch, ComputedPromptsGetNothingThatIsNotFree) {
  LaunchInput input = launch(plain_host(64), gib(4));
  input.settings.spare_cache = gib(4);
  input.machine.free_ram = plan_launch(input).bytes.total();
  EXPECT_LE(plan_launch(input).bytes.total(), *input.machine.free_ram);
}

// Spec 40, case 1.
TEST(Budget, ComputedPromptsHaveMemoryByTheMachines) {
  EXPECT_EQ(default_prompt_cache(gib(15.9)), gib(2));
  EXPECT_EQ(default_prompt_cache(gib(16)), gib(4));
  EXPECT_EQ(default_prompt_cache(gib(32)), gib(8));
  EXPECT_EQ(default_prompt_cache(gib(64)), gib(16));
}

TEST(Launch, ADryRunReplacesTheEstimates) {
  LaunchInput input = launch(plain_host(64), gib(4));
  input.settings.slots = 2;
  input.dry_run = DryRun{.weights = gib(3.9),
                         .repack = gib(1),
                         .kv = gib(16) + 77,
                         .compute = gib(0.125),
                         .process = gib(0.0625),
                         .slots = 2,
                         .context = 65'536};
  const MemoryPlan plan = plan_launch(input);
  ASSERT_EQ(plan.slots, 2);
  EXPECT_EQ(plan.bytes.weights, gib(3.9));
  EXPECT_EQ(plan.bytes.repack, gib(1));
  EXPECT_EQ(plan.bytes.compute, gib(0.1875));
  EXPECT_EQ(plan.bytes.kv, gib(16) + 77);
  EXPECT_EQ(plan.inputs.resident, gib(3.9) + gib(1) + gib(0.1875));
  EXPECT_FALSE(plan.estimated);
  // Of another shape it says nothing exact about the cache.
  input.dry_run->slots = 1;
  EXPECT_EQ(plan_launch(input).bytes.kv, gib(16));
}

TEST(Launch, ADryRunOfAnUnknownGeometryGivesTheSlope) {
  LaunchInput input = launch(plain_host(64), gib(4));
  input.model.geometry.reset();
  input.settings.slots = 2;
  input.dry_run = DryRun{.weights = gib(4), .kv = 1'000 * 1'024, .slots = 1, .context = 1'000};
  const MemoryPlan plan = plan_launch(input);
  EXPECT_EQ(plan.inputs.kv_per_token, 1'024u);
  EXPECT_EQ(plan.bytes.kv, 2u * 65'536 * 1'024);
  EXPECT_TRUE(plan.estimated);
}

TEST(Launch, OurOwnWorkersCachesAreCountedAsItLaysThemOut) {
  LaunchInput input = launch(plain_host(64), gib(1), swa_geometry());
  input.model.native = 1'000;
  input.settings.slots = 3;
  input.settings.micro_batch = 256;
  const MemoryPlan plan = plan_launch(input);
  EXPECT_EQ(plan.context, 1'000);
  EXPECT_EQ(plan.bytes.kv, kv_bytes(swa_geometry(), {.slots = 3, .micro_batch = 256}, 1'000));
  EXPECT_EQ(plan.bytes.kv, 3u * 2 * (1'024 * 8'192 + 768 * 36'864));
}

TEST(Launch, SlotsAreShedBesideOthersBeforeAnyoneIsStopped) {
  LaunchInput input = launch(plain_host(64), gib(4));
  input.settings.slots = 2;
  load(input, "llama-cpp:idle:0", gib(20), false);
  const MemoryPlan plan = plan_launch(input);
  EXPECT_EQ(plan.decision, Decision::smaller);
  EXPECT_EQ(plan.slots, 1);
  EXPECT_EQ(plan.context, 65'536);
  EXPECT_THAT(plan.evicts, IsEmpty());
  EXPECT_EQ(plan.binding, Binding::budget);
}

TEST(Launch, IdleEnginesAreStoppedWhenNothingElseHelps) {
  LaunchInput input = launch(plain_host(64), gib(4));
  load(input, "llama-cpp:idle-a:0", gib(15), false);
  load(input, "llama-cpp:idle-b:0", gib(15), false);
  input.machine.residents[0].last_used_ms = 5;
  const MemoryPlan plan = plan_launch(input);
  EXPECT_EQ(plan.decision, Decision::evict);
  EXPECT_THAT(plan.evicts, ElementsAre("llama-cpp:idle-b:0"));
  ASSERT_EQ(plan.alternatives.size(), 2u);
  EXPECT_EQ(plan.alternatives[0].what, "beside the loaded models");
  EXPECT_FALSE(plan.alternatives[0].possible);
  EXPECT_TRUE(plan.alternatives[1].possible);
}

TEST(Launch, BusyEnginesAreNotStoppedAndTheWindowGetsShorter) {
  LaunchInput input = launch(plain_host(64), gib(4));
  load(input, "llama-cpp:busy:0", gib(28), true);
  const MemoryPlan plan = plan_launch(input);
  EXPECT_EQ(plan.decision, Decision::smaller);
  EXPECT_TRUE(plan.below_floor);
  EXPECT_EQ(plan.slots, 1);
  EXPECT_LT(plan.context, 65'536);
  EXPECT_GE(plan.context, kBelowFloorMinimum);
  EXPECT_EQ(plan.context, plan.largest_context);
  EXPECT_EQ(plan.notes.back().level, NoteLevel::warn);
}

TEST(Launch, ANamedWindowIsNotShortened) {
  LaunchInput input = launch(plain_host(64), gib(4));
  input.settings.context.configured = 65'536;
  load(input, "llama-cpp:busy:0", gib(28), true);
  const MemoryPlan plan = plan_launch(input);
  EXPECT_EQ(plan.decision, Decision::no);
  ASSERT_TRUE(plan.denial);
  EXPECT_EQ(plan.denial->rule, DenialRule::context);
  EXPECT_THAT(plan.denial->error.message, HasSubstr("a context window of 65536 tokens"));
  EXPECT_GT(plan.largest_context, 0);
}

TEST(Launch, AModelLargerThanTheBudgetIsDeniedWithWhatItNeeds) {
  const MemoryPlan plan = plan_launch(launch(plain_host(16), gib(20)));
  EXPECT_EQ(plan.decision, Decision::no);
  ASSERT_TRUE(plan.denial);
  EXPECT_EQ(plan.denial->rule, DenialRule::budget);
  EXPECT_EQ(plan.denial->bytes, plan.reservation());
  EXPECT_GT(plan.reservation(), gib(22));
}

TEST(Launch, ASecondModelIsKeptOnTheCard) {
  LaunchInput input = launch(card_host(16, 48), gib(2));
  input.settings.kv_type = KvType::q8_0;
  input.settings.slots = 1;
  input.settings.floor = 4'096;
  load(input, "llama-cpp:busy:0", gib(10), true);
  const MemoryPlan plan = plan_launch(input);
  EXPECT_EQ(plan.decision, Decision::smaller);
  EXPECT_EQ(plan.binding, Binding::co_residency);
  EXPECT_LE(plan.reservation() + gib(10), input.machine.broker.co_residency);
  input.machine.residents[0].busy = false;
  const MemoryPlan alone = plan_launch(input);
  EXPECT_EQ(alone.decision, Decision::evict);
  EXPECT_EQ(alone.context, 65'536);
}

TEST(Launch, AProcessorTakesANarrowerCacheBeforeAShorterWindow) {
  LaunchInput input = launch(plain_host(22), gib(4));
  input.settings.kv_type.reset();
  const MemoryPlan plan = plan_launch(input);
  EXPECT_EQ(plan.kv_type, KvType::q8_0);
  EXPECT_EQ(plan.flash_attention, true);
  EXPECT_EQ(plan.context, 65'536);
  EXPECT_FALSE(plan.below_floor);
  input.machine = machine(plain_host(64));
  EXPECT_EQ(plan_launch(input).kv_type, KvType::f16);
}

TEST(Launch, TheEnvironmentsWindowIsGrantedWhateverItCosts) {
  LaunchInput input = launch(plain_host(16), gib(4));
  input.settings.context.environment = 65'536;
  input.settings.slots = 3;
  const MemoryPlan plan = plan_launch(input);
  EXPECT_EQ(plan.decision, Decision::fits);
  EXPECT_EQ(plan.slots, 3);
  EXPECT_EQ(plan.context, 65'536);
  EXPECT_GT(plan.reservation(), input.machine.broker.budget);
  EXPECT_TRUE(plan.unchecked);
}

TEST(Launch, UnreadableMetadataIsNotHeldAgainstTheModel) {
  LaunchInput input = launch(plain_host(32), gib(4));
  input.model.geometry.reset();
  input.model.readable = false;
  input.model.native.reset();
  input.settings.slots = 1;
  const MemoryPlan plan = plan_launch(input);
  EXPECT_EQ(plan.decision, Decision::fits);
  EXPECT_TRUE(plan.estimated);
  EXPECT_THAT(plan.notes.back().text, HasSubstr("could not be read"));
  EXPECT_EQ(plan.offload, Offload{});
}

TEST(Launch, LeftOverFastMemoryBecomesALongerWindow) {
  LaunchInput input = launch(unified_host(128), gib(4));
  input.model.native = 262'144;
  const MemoryPlan plan = plan_launch(input);
  EXPECT_TRUE(plan.grown);
  EXPECT_GT(plan.context, 65'536);
  EXPECT_LE(plan.bytes.kv, auto_kv_ceiling(input.machine.broker.fast_budget));
}

TEST(Launch, TheExplanationPrintsInputsAndAlternatives) {
  LaunchInput input = launch(plain_host(64), gib(4));
  load(input, "llama-cpp:idle:0", gib(30), false);
  const MemoryPlan plan = plan_launch(input);
  const std::string text = explain(plan, "New Model");
  EXPECT_THAT(text, HasSubstr("New Model gets 3 slots of 65536 tokens, with its cache in f16"));
  EXPECT_THAT(text, HasSubstr("weights 4.0 GiB, KV cache 24.0 GiB, buffers"));
  EXPECT_THAT(text, HasSubstr("stopped first: llama-cpp:idle:0"));
  EXPECT_THAT(text, HasSubstr("beside the loaded models: 1 slot of"));
  EXPECT_THAT(text, HasSubstr("held by others 30.0 GiB"));
}

TEST(Launch, APreviewIsNotDepressedByWhatIsFreeNow) {
  LaunchInput input = launch(plain_host(64), gib(4));
  input.machine.free_ram = gib(3);
  const LaunchPreview preview = preview_launch(input);
  EXPECT_EQ(preview.context_window, 65'536);
  EXPECT_EQ(preview.slots, 3);
  EXPECT_EQ(preview.kv_per_token, 131'072u);
  EXPECT_EQ(preview.planned_resident + 2 * Bytes{131'072} * 65'536, preview.reserved_resident);
  EXPECT_EQ(preview.override_context, std::nullopt);
  input.settings.context.model_override = 8'192;
  const LaunchPreview overridden = preview_launch(input);
  EXPECT_EQ(overridden.context_window, 8'192);
  EXPECT_EQ(overridden.override_context, 8'192);
  EXPECT_EQ(overridden.auto_context, 65'536);
}

TEST(Launch, ALoadedWindowGoesStaleWhenAnotherIsNamedOrItIsTooShort) {
  LaunchInput input = launch(plain_host(64), gib(4));
  const LaunchPreview preview = preview_launch(input);
  EXPECT_FALSE(stale_window("M", 65'536, false, preview));
  EXPECT_FALSE(stale_window("M", 131'072, false, preview));
  EXPECT_TRUE(stale_window("M", 32'768, false, preview));
  EXPECT_FALSE(stale_window("M", 32'768, true, preview));
  input.settings.context.model_override = 8'192;
  EXPECT_FALSE(stale_window("M", 8'192, false, preview_launch(input)));
  EXPECT_EQ(stale_window("M", 65'536, false, preview_launch(input))->rule, DenialRule::stale_window);
}

TEST(Launch, ASmallModelLoadsInAContainerOfOneGiB) {
  LaunchInput input = launch(plain_host(1), 100 * kMiB, {.global_elements = 11'520});
  input.model.native = 8'192;
  input.machine.free_ram = gib(0.95);
  const MemoryPlan plan = plan_launch(input);
  EXPECT_NE(plan.decision, Decision::no);
  EXPECT_EQ(plan.context, 8'192);
  EXPECT_EQ(plan.slots, 2);
  EXPECT_LE(plan.reservation(), gib(0.95) - 128 * kMiB);
}

TEST(Launch, FiguresBeyondAllMeasureAreDenied) {
  LaunchInput input = launch(plain_host(64), ~Bytes{0} - 5, {.global_elements = ~std::uint64_t{0}});
  EXPECT_EQ(plan_launch(input).decision, Decision::no);
  input.model.weights = gib(1);
  input.model.geometry->window_layout_known = false;  // nothing is clamped
  EXPECT_EQ(plan_launch(input).decision, Decision::no);
  input.settings.context.environment = 65'536;
  EXPECT_EQ(plan_launch(input).reservation(), ~Bytes{0});
}

// --- properties

TEST(Launch, PropertyGrantsFitTheBudgetAndPartsAddUp) {
  std::mt19937_64 random{7};
  const auto upto = [&](Bytes most) { return random() % (most + 1); };
  for (int i = 0; i < 3'000; ++i) {
    const double ram = 4 + static_cast<double>(upto(124));
    const bool card = upto(1) == 1;
    LaunchInput input = launch(card ? card_host(8 + static_cast<double>(upto(24)), ram) : plain_host(ram),
                               kMiB + upto(gib(30)), {.global_elements = 1 + upto(200'000)});
    input.model.native = static_cast<Tokens>(1024 + upto(262'144));
    input.settings.kv_type.reset();
    for (Bytes k = upto(3); k > 0; --k)
      load(input, "llama-cpp:m" + std::to_string(k) + ":0", upto(gib(8)), upto(1) == 1);
    if (upto(1) == 1) input.machine.free_ram = upto(gib(ram));
    const MemoryPlan plan = plan_launch(input);
    if (plan.decision == Decision::no) {
      ASSERT_TRUE(plan.denial);
      continue;
    }
    ASSERT_GE(plan.slots, 1);
    ASSERT_GE(plan.context, std::min<Tokens>(plan.inputs.native, kBelowFloorMinimum));
    Bytes others = input.machine.committed_other;
    for (const Resident& r : input.machine.residents) {
      if (std::ranges::find(plan.evicts, r.key) != plan.evicts.end()) others -= r.bytes;
    }
    ASSERT_EQ(shortfall(input.machine.broker, others, plan.reservation()), 0u);
    ASSERT_EQ(plan.reservation(), plan.inputs.resident + plan.bytes.kv);
  }
}

// Of one machine, with growth left out: it trades lanes for length.
TEST(Launch, PropertyMoreCommittedNeverGivesMore) {
  std::mt19937_64 random{11};
  const auto upto = [&](Bytes most) { return random() % (most + 1); };
  for (int i = 0; i < 3'000; ++i) {
    LaunchInput input = launch(plain_host(64), kMiB + upto(gib(30)), {.global_elements = 1 + upto(200'000)});
    input.settings.slots = static_cast<int>(1 + upto(4));
    input.machine.committed_other = upto(gib(10));
    const MemoryPlan before = plan_launch(input);
    input.machine.committed_other += upto(gib(10));
    const MemoryPlan after = plan_launch(input);
    ASSERT_LE(std::pair(after.slots, after.context), std::pair(before.slots, before.context));
    input.machine.broker.budget += upto(gib(30));
    const MemoryPlan larger = plan_launch(input);
    ASSERT_GE(std::pair(larger.slots, larger.context), std::pair(after.slots, after.context));
  }
}

}  // namespace
}  // namespace gezel::capacity
