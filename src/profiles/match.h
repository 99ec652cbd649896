// profiles/match.h
//
// Which profiles hold for a model, and what they and the model's file amount to. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "profiles/profile.h"
#include "prompt/tuning.h"

namespace gezel::profiles {

// What a model is recognised by.
struct Model {
  std::string_view id;             // without "llama-cpp:"
  std::string_view architecture;   // general.architecture
  std::string_view chat_template;  // tokenizer.chat_template; "": the file has none
};

// What holds for one model.
struct Applied {
  std::string name;                    // of the family's profile; "": no profile is for this model
  std::vector<std::string> overrides;  // profiles that name the model, the strongest first
  bool user = false;                   // a user's file had a say
  std::string catalog;                 // id of the catalog entry that had a say; "": none
  prompt::WritingStyle style;
  prompt::Tuning tuning;
  std::vector<prompt::NamedTuning> named;  // what tuning profiles make of it
  std::string tuning_profile;              // for requests that name none; "": nobody chose one
};

bool fits(const Match& match, const Model& model);

// The family's profile is the first that fits and names no model; profiles that name the model are laid over
// it. For values: shipped profiles, then `of_file` (the model file's own general.sampling.*), then what the
// user's files say; within each layer sampling_when_thinking counts more than sampling. A named tuning
// profile is laid over all of that: its sampling over `sampling`, and over the outcome every
// sampling_when_thinking, except where the profile is one for thinking itself.
// `catalog`, what the entry of a catalog says for this model (catalog_tuning.h), lies below all of them.
Applied apply(const Profiles& profiles, const Model& model, const prompt::SamplingOptions& of_file = {},
              const Values* catalog = nullptr);

// {"name", "overrides", "user", "dialect", "family", "reasoning", "sampling", "sampling_when_thinking", ...}:
// "catalog" where an entry had a say; what is empty is left out, except name and user.
json::object to_json_object(const Applied& applied);

}  // namespace gezel::profiles
