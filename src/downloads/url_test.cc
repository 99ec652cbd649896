#include "downloads/url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gezel::downloads {
namespace {

TEST(Url, OnlyHttpsOrThisMachine) {
  for (const char* url :
       {"https://huggingface.co/a", "http://127.0.0.1:8080/a", "http://localhost/a", "http://[::1]:1/a"})
    EXPECT_TRUE(parse_url(url)) << url;
  for (const char* url : {"http://example.org/a", "ftp://example.org/a", "file:///etc/passwd",
                          "https://u:p@example.org/", "", "https://", "a", "https://a b/",
                          "http://127.evil.example/", "http://127.0.0.1.example/", "https://a/\n"})
    EXPECT_FALSE(parse_url(url)) << url;
}

TEST(Url, RedirectsAreResolvedAgainstTheirSender) {
  const auto from = parse_url("https://a.example/x/y?z=1").value();
  EXPECT_EQ(resolve_redirect(from, "/r")->text, "https://a.example/r");
  EXPECT_EQ(resolve_redirect(from, "r?q")->text, "https://a.example/x/r?q");
  EXPECT_EQ(resolve_redirect(from, "//b.example/r")->text, "https://b.example/r");
  EXPECT_EQ(resolve_redirect(from, "https://b.example/r")->origin(), "https://b.example:443");
}

TEST(Url, ARedirectMayNotLeaveTheRules) {
  const auto from = parse_url("https://a.example/x").value();
  for (const char* location :
       {"http://b.example/x", "file:///etc/passwd", "gopher://b/", "http://127.0.0.1/x"})
    EXPECT_EQ(resolve_redirect(from, location).error().code, "bad_url") << location;
}

TEST(Url, AnErrorShowsNoSecret) {
  const std::string tokens = "?token=secret#secret";
  const auto from = parse_url("https://a.example/x").value();
  const std::vector<std::string> texts{"https://me:secret@hub.example/x",
                                       "https://secret@hub.example",
                                       "http://cdn.example/x" + tokens,
                                       "https://me:secret@hub.example/x y",
                                       "https:/me:secret@hub.example/ ",
                                       "me:secret@hub.example",
                                       "//me:secret@hub.example",
                                       "https://me:se/secret@hub.example",
                                       "https://" + tokens,
                                       "/a b" + tokens,
                                       "https://a.example/" + std::string(9'000, 'x') + tokens,
                                       "ftp://me:secret@hub.example" + tokens};
  for (const auto& text : texts) {
    const auto given = parse_url(text);
    const auto redirected = resolve_redirect(from, text);
    const auto source = parse_source(text);
    for (const auto* result : {&given, &redirected, &source}) {
      if (*result) continue;
      EXPECT_THAT(result->error().message, testing::Not(testing::HasSubstr("secret"))) << text.substr(0, 80);
    }
    EXPECT_FALSE(given) << text.substr(0, 80);
  }
  EXPECT_THAT(parse_url("ftp://me:secret@hub.example/x").error().message,
              testing::HasSubstr("\"ftp://[hidden]@hub.example/x\""));
}

TEST(Url, AnOriginIsSchemeHostAndPort) {
  EXPECT_EQ(parse_url("https://A.Example/x")->origin(), parse_url("https://a.example:443/y")->origin());
  EXPECT_NE(parse_url("https://a.example:444/x")->origin(), parse_url("https://a.example/x")->origin());
  EXPECT_NE(parse_url("http://localhost:443/x")->origin(), parse_url("https://localhost/x")->origin());
}

TEST(Url, EncodesWhatIsNotUnreserved) {
  EXPECT_EQ(percent_encoded("refs/pr/1"), "refs%2Fpr%2F1");
  EXPECT_EQ(percent_encoded_path("a b/c?d#e%/ä"), "a%20b/c%3Fd%23e%25/%C3%A4");
}

}  // namespace
}  // namespace gezel::downloads
