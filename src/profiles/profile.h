// profiles/profile.h
//
// Profiles: what is known about families of models, as data. A profile says which models it is for, how they
// write calls and reasoning, and what to use where a request says nothing. Shipped ones are files of the
// folder profiles/ that are built into the program; a user's own lie in <home>/profiles. docs/profiles.md
// describes every field and the order in which the layers count.
//
// Pure: texts of files in, profiles and problems out. A file that is wrong is left out and never stops
// anything.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "prompt/request.h"
#include "prompt/tuning.h"

namespace gezel::profiles {

// Limits of what a user may bring.
inline constexpr std::size_t kMaxFileBytes = 64 * 1024;
inline constexpr std::size_t kMaxFiles = 256;
inline constexpr std::size_t kMaxMarks = 16;       // texts of one list in `match`
inline constexpr std::size_t kMaxMarkBytes = 512;  // of each, and of a reasoning marker
inline constexpr std::size_t kMaxNameBytes = 64;   // of a profile's name
inline constexpr std::size_t kMaxSourceBytes = 1024;
inline constexpr std::size_t kMaxBreakers = 128;  // of dry_sequence_breakers
inline constexpr std::size_t kMaxTagBytes = 64;   // of a word that switches thinking
inline constexpr std::size_t kMaxProblems = 16;   // told of one file
inline constexpr int kMaxOrder = 1'000'000;
inline constexpr int kDefaultOrder = 0;  // before every shipped one

// Which models a profile is for: every list that is given must fit.
struct Match {
  std::vector<std::string> chat_template;  // all of them stand in the model's chat template
  std::vector<std::string> architecture;   // one of them is general.architecture
  std::vector<std::string> model;          // one of them fits the model's id; * is any text, ? any character
};

// What applies where a request says nothing.
struct Overlay {
  prompt::SamplingOptions sampling;
  prompt::SamplingOptions sampling_when_thinking;
  json::object template_kwargs;
  std::optional<int> max_tokens;
  std::optional<int> thinking_budget;
  std::optional<std::string> think_tag, no_think_tag;
};

struct Values : Overlay {
  // What named tuning profiles (prompt/tuning_profiles.h) change of it; each name once.
  std::vector<std::pair<std::string, Overlay>> named;
  std::optional<std::string> tuning_profile;  // the one for requests that name none
};

struct Profile {
  std::string name;
  int order = 0;  // lower ones are asked first
  Match match;
  // Nothing where the file does not say.
  std::optional<std::string> dialect;
  std::optional<std::string> family;
  std::optional<std::pair<std::string, std::string>> reasoning;  // opener, closer
  std::optional<prompt::Behaviors> behaviors;
  Values values;
  Values own;         // of these, what a user's file says
  bool user = false;  // a user's file says something
};

// One thing that is wrong with a file.
struct Problem {
  std::string file;     // its name, without folder
  std::string pointer;  // JSON pointer; "" = the whole file
  std::string message;  // "/sampling/top_p is 3; it must be a number from 0 to 1"
};

struct File {
  std::string name;  // "gemma-3.json"
  std::string text;
};

struct Profiles {
  std::vector<Profile> all;  // by `order`, then by name
  std::vector<Problem> problems;
};

// The profiles of these files. A user's file with the name of a shipped profile is laid over it, member by
// member (JSON merge patch, RFC 7396: null takes a member away). Of two files of one owner with the same name
// the later one is refused.
Profiles assemble(std::span<const File> shipped, std::span<const File> user);

// Those of the program, as they were in profiles/ when it was built.
std::span<const File> shipped_files();

}  // namespace gezel::profiles
