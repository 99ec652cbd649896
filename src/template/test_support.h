// template/test_support.h
//
// What the tests of this module share: files of testdata/, the pinned source's templates, commands.
#pragma once
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace gezel::chat::testing_support {

namespace fs = std::filesystem;

inline fs::path testdata(std::string_view name) {
  return fs::path(GEZEL_TESTDATA) / "templates" / name;
}
inline fs::path root() {
  return fs::path(GEZEL_TESTDATA).parent_path();
}

inline std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::vector<json::value> read_lines(const fs::path& path) {
  std::vector<json::value> lines;
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
  return lines;
}

// Standard output of a shell command that must succeed, without line ends at its end.
inline std::string output_of(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  std::string out;
  char buffer[4096];
  while (const std::size_t size = std::fread(buffer, 1, sizeof buffer, pipe)) out.append(buffer, size);
  EXPECT_EQ(pclose(pipe), 0) << command;
  while (out.ends_with('\n')) out.pop_back();
  return out;
}

// File name to source, in the order of names.
inline std::map<std::string, std::string> pinned_templates() {
  const std::string source = output_of("bash -c 'source \"" + (root() / "scripts/common.sh").string() +
                                       "\" && printf %s \"$LLAMA_SOURCE\"'");
  std::map<std::string, std::string> templates;
  for (const auto& entry : fs::directory_iterator(fs::path(source) / "vendor/llama.cpp/models/templates")) {
    if (entry.path().extension() == ".jinja")
      templates[entry.path().filename().string()] = read_text(entry.path());
  }
  return templates;
}

}  // namespace gezel::chat::testing_support
