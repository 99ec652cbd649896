// Any file of a user's: it is used or refused, and whatever comes of it holds for a model without harm.
#include <cstdint>
#include <cstdlib>

#include "profiles/match.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gezel::profiles;
  static const auto shipped = assemble(shipped_files(), {}).all.size();
  const File file{"mine.json", std::string(reinterpret_cast<const char*>(data), size)};
  const auto profiles = assemble(shipped_files(), {&file, 1});
  std::size_t own = 0;
  for (const auto& profile : profiles.all) own += profile.user ? 1 : 0;
  if (own > 1 || (own == 0) == profiles.problems.empty()) std::abort();
  if (profiles.all.size() < shipped || profiles.problems.size() > kMaxProblems + 1) std::abort();
  for (const auto& problem : profiles.problems)
    if (problem.file != file.name || problem.message.empty()) std::abort();
  const auto applied = apply(profiles, {"smollm2", "gemma3", "<tool_call> <think>"});
  if (!gezel::parse_json(gezel::to_json(to_json_object(applied)))) std::abort();
  return 0;
}
