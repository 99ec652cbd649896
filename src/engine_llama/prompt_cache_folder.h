// engine_llama/prompt_cache_folder.h
//
// Where workers keep computed prompts on disk, and what is done there for all models at once. Blocking.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/result.h"

namespace gezel::engine_llama {

// A folder per model, type of cache and worker lies in it.
std::filesystem::path prompt_cache_root(const std::filesystem::path& home);

// That of one worker; `content` names the model's files, so that a replaced file starts afresh. Records of
// one type of cache are of no use to the other and have the same names; workers of one model never share a
// folder, because each counts its own.
std::filesystem::path prompt_cache_folder(const std::filesystem::path& home, std::string_view content,
                                          std::string_view kv_type, int replica);

// Removes what only this session has, whichever model it is of: those that are not loaded keep their records
// too, and so do settings that a model had before. Returns how many. Error `io_error`: some stayed.
Result<std::uint64_t> forget_session_on_disk(const std::filesystem::path& home, std::string_view session);

}  // namespace gezel::engine_llama
