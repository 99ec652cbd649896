// engine_llama/self_test_record.h
//
// What the engine's self-test found on this machine (spec 35 section 1.3): run once per engine build and
// processor, before the first model is loaded, and remembered in <home>/engines/embedded/self-test.json.
// Blocking; called on pool threads.
#pragma once
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/result.h"

namespace gezel::engine_llama {

inline constexpr Millis kSelfTestLimit{120'000};

// Weight layouts and types that compute wrong here, as protocol::Load::excluded_buffer_types takes them. Runs
// the self-test (some seconds) unless it is remembered for this build and `cpu_model`. Errors: the test could
// not be run at all, or did not end within `limit` and was killed; `cancelled` once `stop` was asked for.
Result<std::vector<std::string>> failing_buffer_types(const std::filesystem::path& home,
                                                      const std::filesystem::path& engine_program,
                                                      const std::string& cpu_model,
                                                      Millis limit = kSelfTestLimit,
                                                      const std::stop_token& stop = {});

// Remembers a report that somebody else had the engine make (`gezel doctor --deep`).
Result<> remember_self_test(const std::filesystem::path& home, const std::filesystem::path& engine_program,
                            const std::string& cpu_model, const json::object& report);

}  // namespace gezel::engine_llama
