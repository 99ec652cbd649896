// cli/generation_flags.h
//
// The flags `run` and `chat` share, and the request they make.
#pragma once
#include "base/json.h"
#include "cli/command.h"

namespace gezel::cli {

inline constexpr Flag kSystemFlag{.name = "-s,--system",
                                  .kind = Flag::Kind::text,
                                  .value = "TEXT",
                                  .help = "what the model is told about its role before the conversation"};
inline constexpr Flag kMaxTokensFlag{.name = "-n,--max-tokens",
                                     .kind = Flag::Kind::integer,
                                     .value = "N",
                                     .help = "end the answer after so many tokens",
                                     .low = 1,
                                     .high = 16'777'216};
inline constexpr Flag kTemperatureFlag{
    .name = "-t,--temperature",
    .kind = Flag::Kind::number,
    .value = "X",
    .help = "0 = always the likeliest word, higher = more varied (unset: the model's own)",
    .low = 0,
    .high = 2};
inline constexpr Flag kSeedFlag{.name = "--seed",
                                .kind = Flag::Kind::integer,
                                .value = "N",
                                .help = "start of the random choices, to repeat an answer",
                                .low = 0,
                                .high = 4'294'967'295};

// The request body without messages. What is not given is left to the model.
json::object generation_body(const std::string& model, const Arguments& arguments);

}  // namespace gezel::cli
