// Every template of the pinned source, and a table of expressions, rendered by us and by Python's jinja2
// (tests/templates/reference.py) with the same contexts: equal byte for byte, and refused where the reference
// refuses. What differs is listed with its reason in testdata/templates/*differences.jsonl; a row that no
// case needs is an error too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/json.h"
#include "base/test_folder.h"
#include "template/renderer.h"
#include "template/test_support.h"

namespace gezel::chat {
namespace {

using namespace testing_support;

constexpr std::int64_t kNow = 1'700'000'000;  // 2023-11-14 22:13:20

struct Case {
  std::string name;
  std::string source;
  std::string context;
};

// The reference's answers, one a case: {"text": ...} or {"error": ...}.
std::vector<json::value> ask_reference(const std::vector<Case>& cases) {
  const TestFolder folder;
  const fs::path in = folder.path() / "cases.jsonl";
  const fs::path out = folder.path() / "reference.jsonl";
  std::ofstream file(in, std::ios::binary);
  for (const Case& c : cases) {
    file << json::serialize(json::object{{"template", c.source}, {"context", c.context}}) << '\n';
  }
  file.close();
  const std::string python = output_of("'" + (root() / "scripts/python.sh").string() + "'") + "/bin/python";
  output_of("'" + python + "' '" + (root() / "tests/templates/reference.py").string() + "' --now " +
            std::to_string(kNow) + " <'" + in.string() + "' >'" + out.string() + "'");
  return read_lines(out);
}

struct Outcome {
  bool rendered = false;
  std::string text;  // the prompt, or why there is none
};

class Renderers {
 public:
  Outcome render(const Case& c) {
    auto found = compiled_.find(c.source);
    if (found == compiled_.end()) found = compiled_.emplace(c.source, Renderer::compile(c.source)).first;
    if (!found->second) return {false, describe(found->second.error())};
    auto text = found->second->render(c.context, kNow);
    return text ? Outcome{true, *text} : Outcome{false, describe(text.error())};
  }

 private:
  std::map<std::string, std::expected<Renderer, RenderError>> compiled_;
};

Outcome reference_outcome(const json::value& answer) {
  const json::object& object = answer.as_object();
  const bool rendered = object.contains("text");
  return {rendered, string_or(object, rendered ? "text" : "error")};
}

bool same(const Outcome& ours, const Outcome& reference) {
  return ours.rendered == reference.rendered && (!ours.rendered || ours.text == reference.text);
}

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

std::string without_html_escapes(std::string text) {
  for (const auto& [escape, plain] :
       {std::pair{"&lt;", "<"}, {"&gt;", ">"}, {"&#34;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}}) {
    text = replace_all(std::move(text), escape, plain);
  }
  return text;
}

// The row says what differs: the reference raises a certain error, or it escapes.
bool explains(const json::object& row, const Outcome& ours, const Outcome& reference) {
  if (!ours.rendered) return false;
  if (bool_or(row, "html_escaped", false)) {
    return reference.rendered && without_html_escapes(reference.text) == without_html_escapes(ours.text);
  }
  return !reference.rendered && reference.text == string_or(row, "reference_error");
}

std::string around_difference(const std::string& a, const std::string& b) {
  const auto at = static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  const std::size_t from = at > 80 ? at - 80 : 0;
  return "at byte " + std::to_string(at) + "\n  ours:      " + a.substr(from, 160) +
         "\n  reference: " + b.substr(from, 160);
}

std::vector<Case> template_cases() {
  const auto conversations = read_lines(testdata("conversations.jsonl"));
  const auto settings = read_lines(testdata("settings.jsonl"));
  std::vector<Case> cases;
  for (const auto& [file, text] : pinned_templates()) {
    for (const auto& conversation : conversations) {
      for (const auto& setting : settings) {
        json::object context{{"messages", conversation.at("messages")}};
        for (const auto& [name, value] : setting.at("context").as_object()) context[name] = value;
        cases.push_back({file + " | " + string_or(conversation.as_object(), "name") + " | " +
                             string_or(setting.as_object(), "name"),
                         text, json::serialize(context)});
      }
    }
  }
  return cases;
}

TEST(TemplateParity, EveryPinnedTemplateRendersLikeTheReference) {
  const std::vector<Case> cases = template_cases();
  ASSERT_GT(cases.size(), 60U * 31 * 7) << "are the templates of the pinned source there?";
  const auto answers = ask_reference(cases);
  ASSERT_EQ(answers.size(), cases.size());
  const auto rows = read_lines(testdata("differences.jsonl"));
  std::set<const json::value*> used;
  Renderers renderers;
  int rendered = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Outcome ours = renderers.render(cases[i]);
    const Outcome reference = reference_outcome(answers[i]);
    rendered += ours.rendered ? 1 : 0;
    if (same(ours, reference)) continue;
    const auto row = std::ranges::find_if(rows, [&](const json::value& candidate) {
      return cases[i].name.starts_with(string_or(candidate.as_object(), "template") + " |") &&
             explains(candidate.as_object(), ours, reference);
    });
    if (row != rows.end()) {
      used.insert(&*row);
      continue;
    }
    ADD_FAILURE() << cases[i].name << ": " << around_difference(ours.text, reference.text);
  }
  for (const auto& row : rows) EXPECT_TRUE(used.contains(&row)) << "nothing needs the row " << row;
  EXPECT_GT(rendered, 10'000) << "most conversations must render, or the comparison says little";
}

TEST(TemplateParity, ExpressionsEvaluateLikeTheReference) {
  const std::string context = read_text(testdata("expressions_context.json"));
  std::vector<Case> cases;
  for (const auto& line : read_lines(testdata("expressions.jsonl"))) {
    const std::string source(line.as_string());
    cases.push_back({source, source, context});
  }
  std::set<std::string> different;
  for (const auto& row : read_lines(testdata("expression_differences.jsonl"))) {
    different.insert(string_or(row.as_object(), "template"));
  }
  const auto answers = ask_reference(cases);
  ASSERT_EQ(answers.size(), cases.size());
  Renderers renderers;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Outcome ours = renderers.render(cases[i]);
    const Outcome reference = reference_outcome(answers[i]);
    EXPECT_EQ(same(ours, reference), !different.contains(cases[i].name))
        << cases[i].name << "\n  ours:      " << ours.text << "\n  reference: " << reference.text;
  }
}

}  // namespace
}  // namespace gezel::chat
