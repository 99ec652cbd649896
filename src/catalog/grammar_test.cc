#include "catalog/grammar.h"

#include <gtest/gtest.h>

namespace gezel::catalog {
namespace {

TEST(Grammar, CatalogIds) {
  for (const char* id : {"qwen3.5-9b-q4", "a1", "x:y", "0.", "gemma4-e2b-q4"})
    EXPECT_TRUE(is_catalog_id(id)) << id;
  for (const char* id : {"", "a", ".a", "-a", "A1", "a/b", "a\\b", "a_b", "../x", "a b"})
    EXPECT_FALSE(is_catalog_id(id)) << id;
  EXPECT_TRUE(is_catalog_id(std::string(64, 'a')));
  EXPECT_FALSE(is_catalog_id(std::string(65, 'a')));
}

TEST(Grammar, PortableIdsAreNoDeviceNames) {
  for (const char* id : {"sd-1.5", "@org", "console", "com10", "x.con"})
    EXPECT_TRUE(is_portable_id(id)) << id;
  for (const char* id : {"", "CON", "nul.txt", "Com1", "lpt9.bin", ".a", "a:b", "a/b"})
    EXPECT_FALSE(is_portable_id(id)) << id;
}

TEST(Grammar, ContainedPathsStayWhereTheyArePut) {
  for (const char* path : {"a", "a/b.gguf", "..a/b", "a b"}) EXPECT_TRUE(is_contained_path(path)) << path;
  for (const char* path : {"", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a\\b", "a\nb"})
    EXPECT_FALSE(is_contained_path(path)) << path;
  EXPECT_FALSE(is_contained_path(std::string(1025, 'a')));
  EXPECT_FALSE(is_contained_path(std::string_view("a\0b", 3)));
}

TEST(Grammar, RepositoriesAndRevisions) {
  EXPECT_TRUE(is_repository("org/name_1.2-x"));
  for (const char* text : {"org", "a/b/c", "../x", "a/..", "a/b?c", "/a", "a/"})
    EXPECT_FALSE(is_repository(text)) << text;
  EXPECT_TRUE(is_revision("refs/pr/1"));
  EXPECT_FALSE(is_revision("../main"));
}

TEST(Grammar, WebAddresses) {
  EXPECT_TRUE(is_web_url("https://example.org/x"));
  EXPECT_FALSE(is_web_url("http://example.org/x"));
  EXPECT_TRUE(is_web_url("http://127.0.0.1:1/x", true));
  for (const char* url :
       {"", "https://", "https:///x", "ftp://a/b", "https://u:p@a/b", "https://a/b c", "file:///x"})
    EXPECT_FALSE(is_web_url(url, true)) << url;
}

}  // namespace
}  // namespace gezel::catalog
