#include "engine_llama/prompt_cache_folder.h"

#include "kvcache/store.h"

namespace gezel::engine_llama {

std::filesystem::path prompt_cache_root(const std::filesystem::path& home) {
  return home / "engines" / "embedded" / "kv";
}

Result<std::uint64_t> forget_session_on_disk(const std::filesystem::path& home, std::string_view session) {
  return kvcache::forget_session_records(prompt_cache_root(home), kvcache::session_tag(session));
}

}  // namespace gezel::engine_llama
