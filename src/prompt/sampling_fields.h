// prompt/sampling_fields.h
//
// The names of sampling options outside of this program, with what each may be: one row each. Used wherever
// they are read or shown (requests, profiles). Names are OpenAI's where it has one, else those of llama.cpp's
// server.
#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "prompt/request.h"

namespace gezel::prompt {

struct SamplingNumber {
  std::string_view name;
  double low, high;
  std::optional<float> SamplingOptions::* target;
  bool above_low = false;  // the lower bound itself is excluded
  bool alias = false;      // another name of the row after it, which wins where both are given
};
inline constexpr std::array kSamplingNumbers{
    SamplingNumber{"temperature", 0, 2, &SamplingOptions::temperature},
    SamplingNumber{"top_p", 0, 1, &SamplingOptions::top_p},
    SamplingNumber{"min_p", 0, 1, &SamplingOptions::min_p},
    SamplingNumber{"typical_p", 0, 1, &SamplingOptions::typical_p},
    SamplingNumber{"presence_penalty", -2, 2, &SamplingOptions::presence_penalty},
    SamplingNumber{"frequency_penalty", -2, 2, &SamplingOptions::frequency_penalty},
    SamplingNumber{"repetition_penalty", 0, 100, &SamplingOptions::repeat_penalty, true, true},
    SamplingNumber{"repeat_penalty", 0, 100, &SamplingOptions::repeat_penalty, true},
    SamplingNumber{"dry_multiplier", 0, 100, &SamplingOptions::dry_multiplier},
    SamplingNumber{"dry_base", 1, 100, &SamplingOptions::dry_base},
    SamplingNumber{"xtc_probability", 0, 1, &SamplingOptions::xtc_probability},
    SamplingNumber{"xtc_threshold", 0, 1, &SamplingOptions::xtc_threshold},
    SamplingNumber{"mirostat_tau", 0, 100, &SamplingOptions::mirostat_tau},
    SamplingNumber{"mirostat_eta", 0, 1, &SamplingOptions::mirostat_eta},
};

inline constexpr std::int64_t kSamplingIntegerMax = std::numeric_limits<int>::max();

struct SamplingInteger {
  std::string_view name;
  std::int64_t low, high;
  std::optional<int> SamplingOptions::* target;
};
inline constexpr std::array kSamplingIntegers{
    SamplingInteger{"top_k", -1, kSamplingIntegerMax, &SamplingOptions::top_k},
    SamplingInteger{"repeat_last_n", -1, kSamplingIntegerMax, &SamplingOptions::repeat_last_n},
    SamplingInteger{"dry_allowed_length", 0, kSamplingIntegerMax, &SamplingOptions::dry_allowed_length},
    SamplingInteger{"dry_penalty_last_n", -1, kSamplingIntegerMax, &SamplingOptions::dry_penalty_last_n},
    SamplingInteger{"mirostat", 0, 2, &SamplingOptions::mirostat},
};

// A list of non-empty strings.
inline constexpr std::string_view kDryBreakers = "dry_sequence_breakers";

}  // namespace gezel::prompt
