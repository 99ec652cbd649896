#include "engine_llama/prompt_cache_folder.h"

#include <fmt/format.h>

#include "base/ids.h"
#include "kvcache/store.h"

namespace gezel::engine_llama {

std::filesystem::path prompt_cache_root(const std::filesystem::path& home) {
  return home / "engines" / "embedded" / "kv";
}

std::filesystem::path prompt_cache_folder(const std::filesystem::path& home, std::string_view content,
                                          std::string_view kv_type, int replica) {
  auto identity = fmt::format("{}:{}", content, kv_type);
  if (replica > 0) identity += fmt::format(":{}", replica);
  return prompt_cache_root(home) / sha256_hex(identity).substr(0, 24);
}

Result<std::uint64_t> forget_session_on_disk(const std::filesystem::path& home, std::string_view session) {
  return kvcache::forget_session_records(prompt_cache_root(home), kvcache::session_tag(session));
}

}  // namespace gezel::engine_llama
