// What the hub answers, and ids that people type. Whatever they hold: no crash, and a plan that was made has
// names that may reach the disk.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "models/hub.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gezel::models;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t line = text.find('\n');
  const auto id = parse_hub_id(text.substr(0, line));
  static_cast<void>(parse_commit(text));
  const auto files = parse_listing(line == std::string_view::npos ? text : text.substr(line + 1));
  if (!files) return 0;
  const auto chosen = choose_files(*files, id ? id->selector : std::string());
  if (!chosen) return 0;
  const auto plan = plan_hub(id ? *id : HubId{"org/repo", "main", {}}, std::string(40, 'a'), *chosen, {});
  if (plan && !check_plan(*plan)) std::abort();
  return 0;
}
