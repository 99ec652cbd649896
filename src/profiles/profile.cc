// A file is read as it stands and, where it is laid over a shipped one, once more as what comes out of that.
// The first reading finds what is wrong with it; the second cannot find anything but that a member is
// missing.
#include "profiles/profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

#include "grammar/tool_grammar.h"
#include "profiles/reader.h"
#include "prompt/sampling_fields.h"
#include "prompt/tuning_profiles.h"
#include "turn/family.h"

namespace gezel::profiles {
namespace {

// What a profile may say for all requests, and a named tuning profile inside it for some.
constexpr std::array<std::string_view, 6> kOverlayMembers{
    "sampling", "sampling_when_thinking", "template_kwargs", "max_tokens", "thinking_budget", "prompt_tags"};
constexpr std::array<std::string_view, 10> kOwnMembers{"name",           "order",   "source",    "match",
                                                       "dialect",        "family",  "reasoning", "behaviors",
                                                       "tuning_profile", "profiles"};
constexpr std::array<std::string_view, 3> kMatchMembers{"chat_template", "architecture", "model"};
constexpr std::array<std::string_view, 2> kReasoningMembers{"open", "close"};
constexpr std::array<std::string_view, 2> kTagMembers{"enable_thinking", "disable_thinking"};

std::vector<std::string_view> member_names() {
  std::vector<std::string_view> names(kOwnMembers.begin(), kOwnMembers.end());
  names.insert(names.end(), kOverlayMembers.begin(), kOverlayMembers.end());
  return names;
}

std::vector<std::string_view> sampling_names() {
  std::vector<std::string_view> names;
  for (const auto& field : prompt::kSamplingNumbers) names.push_back(field.name);
  for (const auto& field : prompt::kSamplingIntegers) names.push_back(field.name);
  names.push_back(prompt::kDryBreakers);
  return names;
}

prompt::SamplingOptions read_sampling(const Reader& file, std::string_view member) {
  prompt::SamplingOptions out;
  const auto* object = file.object(member);
  if (object == nullptr) return out;
  const Reader in(*object, file.pointer_to(member), file.file(), file.problems());
  in.allow_only(sampling_names());
  for (const auto& field : prompt::kSamplingNumbers) {
    if (const auto number = in.number(field.name, field.low, field.high, field.above_low))
      out.*field.target = static_cast<float>(*number);
  }
  for (const auto& field : prompt::kSamplingIntegers) {
    if (const auto number = in.integer(field.name, field.low, field.high)) out.*field.target = *number;
  }
  if (auto breakers = in.texts(prompt::kDryBreakers, kMaxBreakers, kMaxMarkBytes))
    out.dry_sequence_breakers = std::move(*breakers);
  return out;
}

Overlay read_overlay(const Reader& in) {
  Overlay out;
  out.sampling = read_sampling(in, "sampling");
  out.sampling_when_thinking = read_sampling(in, "sampling_when_thinking");
  if (const auto* variables = in.object("template_kwargs")) out.template_kwargs = *variables;
  out.max_tokens = in.integer("max_tokens", 1, prompt::kSamplingIntegerMax);
  out.thinking_budget = in.integer("thinking_budget", 1, prompt::kSamplingIntegerMax);
  if (const auto* object = in.object("prompt_tags")) {
    const Reader tags(*object, in.pointer_to("prompt_tags"), in.file(), in.problems());
    tags.allow_only(kTagMembers);
    out.think_tag = tags.text("enable_thinking", kMaxTagBytes);
    out.no_think_tag = tags.text("disable_thinking", kMaxTagBytes);
  }
  return out;
}

// One of the eight.
std::optional<std::string> read_profile_id(const Reader& in, std::string_view member) {
  auto id = in.text(member, kMaxNameBytes);
  if (id && prompt::find_tuning_profile(*id) == nullptr) {
    in.problem(member, json::value(*id), "one of " + prompt::tuning_profile_ids());
    id.reset();
  }
  return id;
}

Values read_values(const Reader& in) {
  Values out{read_overlay(in), {}, read_profile_id(in, "tuning_profile")};
  const auto* object = in.object("profiles");
  if (object == nullptr) return out;
  const Reader profiles(*object, in.pointer_to("profiles"), in.file(), in.problems());
  std::vector<std::string_view> ids;
  for (const auto& profile : prompt::kTuningProfiles) ids.push_back(profile.id);
  profiles.allow_only(ids);
  for (const auto id : ids) {
    const auto* overlay = profiles.object(id);
    if (overlay == nullptr) continue;
    const Reader named(*overlay, profiles.pointer_to(id), in.file(), in.problems());
    named.allow_only(kOverlayMembers);
    out.named.emplace_back(id, read_overlay(named));
  }
  return out;
}

void read_match(const Reader& file, Match& match) {
  const auto* object = file.object("match");
  if (object == nullptr) return;
  const Reader in(*object, file.pointer_to("match"), file.file(), file.problems());
  in.allow_only(kMatchMembers);
  const auto list = [&](std::string_view name, std::vector<std::string>& target) {
    if (auto texts = in.texts(name, kMaxMarks, kMaxMarkBytes)) target = std::move(*texts);
  };
  list("chat_template", match.chat_template);
  list("architecture", match.architecture);
  list("model", match.model);
}

void read_reasoning(const Reader& file, Profile& profile) {
  const auto* object = file.object("reasoning");
  if (object == nullptr) return;
  const Reader in(*object, file.pointer_to("reasoning"), file.file(), file.problems());
  in.allow_only(kReasoningMembers);
  const auto marker = [&](std::string_view member) {
    auto text = in.text(member, kMaxMarkBytes);
    if (text && text->find_first_not_of(" \t\r\n") == std::string::npos) {
      in.problem(member, json::value(*text), "more than white space");
      text.reset();
    }
    return text;
  };
  auto open = marker("open"), close = marker("close");
  if (open && close) {
    profile.reasoning.emplace(std::move(*open), std::move(*close));
  } else if (object->if_contains("open") == nullptr || object->if_contains("close") == nullptr) {
    file.complain(file.pointer_to("reasoning"), "must have both \"open\" and \"close\"");
  }
}

void read_behaviors(const Reader& file, Profile& profile) {
  const auto ids = file.texts("behaviors", kMaxMarks, kMaxNameBytes);
  if (!ids) return;
  profile.behaviors.emplace();
  for (const auto& id : *ids) {
    if (const auto* row = prompt::find_behavior(id)) {
      (*profile.behaviors).*row->on = true;
    } else {
      file.complain(file.pointer_to("behaviors"),
                    fmt::format("has \"{}\"; known are: {}", id, fmt::join(prompt::behavior_ids(), ", ")));
    }
  }
}

bool is_name(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  };
  return !text.empty() && text.size() <= kMaxNameBytes && text.front() != '-' && text.front() != '.' &&
         std::ranges::all_of(text, allowed);
}

// A name that must be one of a table's; "" is none of them on purpose.
void read_listed(const Reader& in, std::string_view member, std::optional<std::string>& target,
                 bool (*known)(std::string_view), std::vector<std::string_view> (*all)()) {
  auto text = in.text(member, kMaxNameBytes, true);
  if (!text) return;
  if (text->empty() || known(*text)) {
    target = std::move(*text);
  } else {
    in.problem(member, json::value(*text), fmt::format("\"\" or one of {}", fmt::join(all(), ", ")));
  }
}

std::vector<std::string_view> dialect_names() {
  std::vector<std::string_view> out;
  for (const auto& dialect : grammar::tool_dialects()) out.push_back(dialect.name);
  return out;
}

Profile read_profile(const json::object& object, std::string_view file, std::vector<Problem>& problems) {
  const Reader in(object, "", file, problems);
  in.allow_only(member_names());
  Profile out;
  const auto* name = object.if_contains("name");
  if (name == nullptr) {
    in.complain("/name", "is missing; it must be the profile's name, for example \"my-model\"");
  } else if (!name->is_string() || !is_name(name->get_string())) {
    in.problem("name", *name, fmt::format("1 to {} of a-z, 0-9, '-' and '.'", kMaxNameBytes));
  } else {
    out.name = name->get_string();
  }
  out.order = in.integer("order", 0, kMaxOrder).value_or(kDefaultOrder);
  (void)in.text("source", kMaxSourceBytes);  // for whoever reads the file
  read_match(in, out.match);
  read_listed(
      in, "dialect", out.dialect,
      [](std::string_view text) { return grammar::find_tool_dialect(text) != nullptr; }, dialect_names);
  read_listed(
      in, "family", out.family, [](std::string_view text) { return turn::family_named(text).has_value(); },
      turn::family_names);
  read_reasoning(in, out);
  read_behaviors(in, out);
  out.values = read_values(in);
  return out;
}

bool matches_nothing(const Match& match) {
  return match.chat_template.empty() && match.architecture.empty() && match.model.empty();
}

// RFC 7396.
void merge_patch(json::value& target, const json::value& patch) {
  if (!patch.is_object()) {
    target = patch;
    return;
  }
  if (!target.is_object()) target.emplace_object();
  json::object& object = target.get_object();
  for (const auto& [name, value] : patch.get_object()) {
    if (value.is_null()) {
      object.erase(name);
    } else {
      merge_patch(object[name], value);
    }
  }
}

// What is collected while the files are gone through.
class Assembly {
 public:
  void add(const File& file, bool user) {
    std::vector<Problem> found;
    read(file, user, found);
    // What follows from a wrong file is often one mistake many times.
    if (found.size() > kMaxProblems) {
      const auto more = found.size() - kMaxProblems;
      found.resize(kMaxProblems);
      found.push_back({file.name, "", fmt::format("and {} more", more)});
    }
    std::ranges::move(found, std::back_inserter(problems_));
  }

  Profiles finish() {
    Profiles out;
    for (auto& [name, entry] : entries_) out.all.push_back(std::move(entry.profile));
    std::ranges::sort(out.all, {}, [](const Profile& profile) {
      return std::pair(profile.order, std::string_view(profile.name));
    });
    out.problems = std::move(problems_);
    return out;
  }

 private:
  struct Entry {
    json::value document;
    std::string file;
    Profile profile;
  };

  void read(const File& file, bool user, std::vector<Problem>& found) {
    const auto whole = [&](std::string message) { found.push_back({file.name, "", std::move(message)}); };
    if (file.text.size() > kMaxFileBytes)
      return whole(fmt::format("has {} bytes; at most {} are read", file.text.size(), kMaxFileBytes));
    auto document = parse_json(file.text);
    if (!document) return whole(document.error().message);
    if (!document->is_object())
      return whole(fmt::format("is {}; it must be a JSON object", shown(*document)));

    Profile profile = read_profile(document->get_object(), file.name, found);
    if (!found.empty()) return;
    const auto there = entries_.find(profile.name);
    if (there != entries_.end() && there->second.profile.user == user) {
      found.push_back({file.name, "/name",
                       fmt::format("/name is \"{}\", as in {}; it must be another one, or the two one file",
                                   profile.name, there->second.file)});
      return;
    }
    json::value merged = there == entries_.end() ? json::value(json::object()) : there->second.document;
    merge_patch(merged, *document);
    Profile result = read_profile(merged.get_object(), file.name, found);
    if (found.empty() && matches_nothing(result.match)) {
      found.push_back(
          {file.name, "/match",
           fmt::format("/match is missing; it must have at least one of {}, or /name be that of a "
                       "shipped profile",
                       fmt::join(kMatchMembers, ", "))});
    }
    if (!found.empty()) return;
    result.user = user;
    if (user) result.own = std::move(profile.values);
    entries_.insert_or_assign(result.name, Entry{std::move(merged), file.name, result});
  }

  std::map<std::string, Entry, std::less<>> entries_;
  std::vector<Problem> problems_;
};

}  // namespace

Profiles assemble(std::span<const File> shipped, std::span<const File> user) {
  Assembly assembly;
  for (const auto& file : shipped) assembly.add(file, false);
  for (const auto& file : user) assembly.add(file, true);
  return assembly.finish();
}

}  // namespace gezel::profiles
