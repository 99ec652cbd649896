// The public test suite of JSON Schema against the walk, the constraint and the validator. It also writes and
// checks the table of keywords in docs/json-schema.md: GEZEL_UPDATE_DOCS=1 writes it.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/files.h"
#include "grammar/schema_settle.h"
#include "grammar/spaced_json.h"
#include "grammar/test_support.h"
#include "grammar/validator.h"

namespace gezel::grammar {
namespace {

using testing::accepts;
using testing::must;

fs::path suite_folder() {
  const char* base = std::getenv("XDG_CACHE_HOME");
  const fs::path root =
      base != nullptr && *base != '\0' ? fs::path(base) : fs::path(std::getenv("HOME")) / ".cache";
  return root / "gezel-inference" / "src" / "json-schema-test-suite" / "tests";
}

struct Case {
  std::string file;  // "required", "optional/format/date"
  std::string name;
  json::value schema;
  json::value data;
  bool valid = false;
};

constexpr std::string_view kDrafts[] = {"draft4", "draft6", "draft7", "draft2019-09"};

std::string_view meta_schema(std::string_view draft) {
  if (draft == "draft4") return "http://json-schema.org/draft-04/schema#";
  if (draft == "draft6") return "http://json-schema.org/draft-06/schema#";
  if (draft == "draft7") return "http://json-schema.org/draft-07/schema#";
  return "https://json-schema.org/draft/2019-09/schema";
}

// Every schema of the suite, with the draft it belongs to said in it.
std::vector<Case> cases_of(std::string_view draft) {
  std::vector<Case> cases;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(suite_folder() / draft)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  for (const auto& path : files) {
    // Deeper than requests may be.
    json::parse_options options;
    options.max_depth = 256;
    const auto groups = json::parse(must(read_file(path)), {}, options);
    for (const auto& group : groups.as_array()) {
      auto schema = group.at("schema");
      if (auto* object = schema.if_object(); object != nullptr && !object->contains("$schema"))
        (*object)["$schema"] = meta_schema(draft);
      for (const auto& test : group.at("tests").as_array()) {
        const auto name = fmt::format("{}: {}", std::string_view(group.at("description").as_string()),
                                      std::string_view(test.at("description").as_string()));
        cases.push_back({path.stem().string(), name, schema, test.at("data"), test.at("valid").as_bool()});
      }
    }
  }
  return cases;
}

class Suite : public ::testing::TestWithParam<std::string_view> {};
INSTANTIATE_TEST_SUITE_P(Grammar, Suite, ::testing::ValuesIn(kDrafts), [](const auto& info) {
  std::string name(info.param);
  std::ranges::replace_if(name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

TEST_P(Suite, IsThere) {
  EXPECT_GT(cases_of(GetParam()).size(), 500U) << "run: scripts/fetch.sh suite";
}

TEST_P(Suite, ValidatorAgrees) {
  std::size_t judged = 0;
  std::size_t all = 0;
  for (const auto& test : cases_of(GetParam())) {
    ++all;
    Validator validator(test.schema);
    const auto verdict = validator.check(test.data);
    if (!verdict.unjudged.empty()) {
      // What cannot be judged must not make a value invalid.
      EXPECT_TRUE(verdict.valid || !test.valid) << test.file << ", " << test.name << ": " << verdict.message;
      continue;
    }
    ++judged;
    EXPECT_EQ(verdict.valid, test.valid) << test.file << ", " << test.name << ": " << verdict.message << "\n"
                                         << json::serialize(test.schema) << "\n"
                                         << json::serialize(test.data);
  }
  EXPECT_GT(judged * 100, all * 90) << "of " << all;
}

// ---- the table

struct Row {
  std::size_t schemas = 0;
  std::size_t refused = 0;
  std::size_t valid = 0;
  std::size_t let_through = 0;  // of the valid ones
  std::size_t invalid = 0;
  std::size_t escaped = 0;  // invalid and let through
};

struct Constrained {
  std::map<std::string, Row> rows;
  std::vector<std::string> escapes;
};

const Constrained& constrained() {
  static const auto all = [] {
    Constrained result;
    for (const auto draft : kDrafts) {
      std::string last;
      std::optional<Matcher> matcher;
      for (const auto& test : cases_of(draft)) {
        auto& row = result.rows[test.file];
        if (const auto text = test.file + json::serialize(test.schema); text != last) {
          last = text;
          matcher.reset();
          ++row.schemas;
          auto walked = walk_schema(test.schema, SchemaMode::strict);
          if (walked && settle_schema(*walked, SchemaMode::strict)) {
            auto compiled =
                Matcher::compile(Vocabulary::of_bytes(), Notation::json_schema, schema_text(*walked));
            if (compiled) matcher.emplace(std::move(*compiled));
          }
          if (!matcher) ++row.refused;
        }
        if (!matcher) continue;
        const bool through = accepts(*matcher, spaced_json(test.data));
        if (test.valid) {
          ++row.valid;
          row.let_through += through ? 1 : 0;
        } else {
          ++row.invalid;
          row.escaped += through ? 1 : 0;
          if (through)
            result.escapes.push_back(fmt::format("{} {}, {}: {} for {}", draft, test.file, test.name,
                                                 spaced_json(test.data), last));
        }
      }
    }
    return result;
  }();
  return all;
}

TEST(SuiteTable, NothingInvalidIsLetThrough) {
  EXPECT_THAT(constrained().escapes, ::testing::IsEmpty());
}

std::string table() {
  std::string text =
      "| tests of | schemas | refused | sound | complete |\n"
      "|---|---|---|---|---|\n";
  for (const auto& [file, row] : constrained().rows) {
    const auto sound = row.refused == row.schemas ? std::string("-")
                       : row.escaped == 0         ? std::string("yes")
                                                  : fmt::format("{} escape", row.escaped);
    const auto complete = row.valid == 0 ? std::string("-")
                          : row.let_through == row.valid
                              ? std::string("yes")
                              : fmt::format("{} of {}", row.let_through, row.valid);
    text += fmt::format("| `{}` | {} | {} | {} | {} |\n", file, row.schemas,
                        row.refused == 0             ? "-"
                        : row.refused == row.schemas ? "all"
                                                     : std::to_string(row.refused),
                        sound, complete);
  }
  return text;
}

std::string keyword_table() {
  std::string text = "| keyword | | |\n|---|---|---|\n";
  std::string annotations;
  for (const auto& [name, use, note] : known_keywords()) {
    if (use == KeywordUse::annotation && note.empty()) {
      annotations += fmt::format("{}`{}`", annotations.empty() ? "" : ", ", name);
      continue;
    }
    const auto* what = use == KeywordUse::enforced  ? "enforced"
                       : use == KeywordUse::partly  ? "partly"
                       : use == KeywordUse::refused ? "refused"
                                                    : "changes nothing";
    text += fmt::format("| `{}` | {} | {} |\n", name, what, note);
  }
  return text + fmt::format("\n{} change nothing.\n", annotations);
}

// What stands between the marks of `name` in the documentation is `wanted`, or becomes it.
void check_part(const std::string& name, const std::string& wanted) {
  const fs::path path = fs::path(GEZEL_TESTDATA).parent_path() / "docs" / "json-schema.md";
  auto text = must(read_file(path));
  const auto mark = "<!-- generated: " + name + " -->\n";
  const auto begin = text.find(mark);
  const auto end = text.find("<!-- end -->", begin);
  ASSERT_NE(end, std::string::npos);
  const auto from = begin + mark.size();
  if (std::getenv("GEZEL_UPDATE_DOCS") != nullptr) {
    text.replace(from, end - from, wanted);
    ASSERT_TRUE(write_file_atomic(path, text, 0644, false));
    return;
  }
  EXPECT_EQ(text.substr(from, end - from), wanted) << "GEZEL_UPDATE_DOCS=1 writes the table";
}

TEST(SuiteTable, IsTheOneInTheDocumentation) {
  check_part("suite", table());
}

TEST(SuiteTable, KeywordsAreThoseInTheDocumentation) {
  check_part("keywords", keyword_table());
}

}  // namespace
}  // namespace gezel::grammar
