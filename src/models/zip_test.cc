#include "models/zip.h"

#include <gmock/gmock.h>

#include "models/bundle_test_support.h"

namespace gezel::models::zip {
namespace {

using ::testing::HasSubstr;
using testing::raw_archive;
using testing::RawEntry;
using testing::TextSource;

// "" = it can be read to its end; else the message.
std::string problem_of(const std::string& archive) {
  const TextSource source(archive);
  const auto index = read_index(source);
  if (!index) {
    EXPECT_EQ(index.error().kind, ErrorKind::invalid);
    EXPECT_EQ(index.error().code, "invalid_bundle");
    return index.error().message;
  }
  for (const auto& entry : *index) {
    const auto text = unpack_text(source, entry, kMiB);
    if (!text) return text.error().message;
  }
  return "";
}

std::string content_of(const Source& source, const Entry& entry) {
  return unpack_text(source, entry, kMiB).value();
}

TEST(Zip, ReadsStoredAndDeflatedEntries) {
  const std::string text(5000, 'a');
  const TextSource source(raw_archive({{.name = "a.txt", .content = "hello"},
                                       {.name = "d/b.txt", .content = text, .deflate = true},
                                       {.name = "empty", .content = ""}}));
  const auto index = read_index(source);
  ASSERT_TRUE(index) << index.error().message;
  ASSERT_EQ(index->size(), 3U);
  EXPECT_EQ((*index)[0].name, "a.txt");
  EXPECT_EQ(content_of(source, (*index)[0]), "hello");
  EXPECT_TRUE((*index)[1].deflated);
  EXPECT_EQ(content_of(source, (*index)[1]), text);
  EXPECT_EQ(content_of(source, (*index)[2]), "");
}

TEST(Zip, BeginsInMidEntryWhereItIsToldTo) {
  for (const bool deflate : {false, true}) {
    const TextSource source(raw_archive({{.name = "a", .content = "0123456789", .deflate = deflate}}));
    const auto index = read_index(source);
    ASSERT_TRUE(index);
    std::string got;
    const std::function<Result<>(std::string_view)> take = [&](std::string_view piece) -> Result<> {
      got += piece;
      return {};
    };
    ASSERT_TRUE(unpack(source, index->front(), take, 4));
    EXPECT_EQ(got, "456789");
  }
}

TEST(Zip, WhatItWritesItReads) {
  std::vector<Layout::File> files{{"manifest.json", 2, crc32(0, "{}")},
                                  {"model/m.gguf", 4, crc32(0, "GGUF")}};
  const Layout layout(files);
  const std::string archive = layout.header(0) + "{}" + layout.header(1) + "GGUF" + layout.end();
  EXPECT_EQ(archive.size(), layout.total_bytes());
  EXPECT_EQ(problem_of(archive), "");
}

TEST(Zip, SizesAndPlacesBeyond32BitsAreInTheExtraField) {
  const Bytes large = 5 * kGiB;
  const Layout layout({{"a", large, 0}, {"b", 3, crc32(0, "abc")}, {"c", 0xFFFFFFFF, 0}});
  // A file with holes: only what is written is there.
  class Holes final : public Source {
   public:
    void put(Bytes at, std::string text) {
      size_ = std::max(size_, at + text.size());
      pieces_.emplace_back(at, std::move(text));
    }
    Bytes size() const override { return size_; }
    Result<> read(Bytes offset, char* out, std::size_t count) const override {
      std::memset(out, 0, count);
      for (const auto& [at, text] : pieces_) {
        for (std::size_t i = 0; i < count; ++i) {
          if (offset + i >= at && offset + i - at < text.size()) out[i] = text[offset + i - at];
        }
      }
      return {};
    }

   private:
    Bytes size_ = 0;
    std::vector<std::pair<Bytes, std::string>> pieces_;
  } holes;
  Bytes at = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    holes.put(at, layout.header(i));
    at += layout.header(i).size() + layout.files()[i].size;
  }
  holes.put(large + layout.header(0).size() + layout.header(1).size(), "abc");
  holes.put(at, layout.end());
  EXPECT_EQ(layout.total_bytes(), at + layout.end().size());
  const auto index = read_index(holes);
  ASSERT_TRUE(index) << index.error().message;
  EXPECT_EQ((*index)[0].size, large);
  EXPECT_EQ(content_of(holes, (*index)[1]), "abc");
  EXPECT_EQ((*index)[2].size, 0xFFFFFFFFU);
}

TEST(Zip, ReadsFiguresThatAWriterAddedBehindTheBytes) {
  for (const std::string_view mark : {"", "PK\x07\x08"}) {
    for (const int wide : {4, 8}) {
      std::string behind(mark);
      put(behind, crc32(0, "hello"), 4);
      put(behind, 5, wide);
      put(behind, 5, wide);
      EXPECT_EQ(
          problem_of(raw_archive({{.name = "a", .content = "hello", .flags = kStreamedFlag, .gap = behind},
                                  {.name = "b", .content = "x"}})),
          "");
      behind[mark.size()] ^= 1;
      EXPECT_THAT(
          problem_of(raw_archive({{.name = "a", .content = "hello", .flags = kStreamedFlag, .gap = behind}})),
          HasSubstr("other figures"));
    }
  }
}

TEST(Zip, RefusesEveryOtherKindOfEntry) {
  struct Case {
    RawEntry entry;
    std::string_view message;
  };
  for (const auto& [entry, message] : {
           Case{{.name = "../a"}, "unsafe path"},
           Case{{.name = "/etc/passwd"}, "unsafe path"},
           Case{{.name = "a/../../b"}, "unsafe path"},
           Case{{.name = "a//b"}, "unsafe path"},
           Case{{.name = "./a"}, "unsafe path"},
           Case{{.name = "a\\b"}, "unsafe path"},
           Case{{.name = "C:\\a"}, "unsafe path"},
           Case{{.name = std::string("a\0b", 3)}, "unsafe path"},
           Case{{.name = "a\nb"}, "unsafe path"},
           Case{{.name = ""}, "unsafe path"},
           Case{{.name = std::string(1025, 'a')}, "unsafe path"},
           Case{{.name = "a\xff"}, "not valid UTF-8"},
           Case{{.name = "folder/"}, "is a folder"},
           Case{{.name = "a", .mode = 0040755}, "is a folder"},
           Case{{.name = "a", .content = "/etc/passwd", .mode = 0120777}, "is a link"},
           Case{{.name = "a", .mode = 0010644}, "is no regular file"},
           Case{{.name = "a", .mode = 0060644}, "is no regular file"},
           Case{{.name = "a", .flags = 1}, "is encrypted"},
           Case{{.name = "a", .flags = 1U << 6}, "is encrypted"},
           Case{{.name = "a", .flags = 1U << 13}, "is encrypted"},
           Case{{.name = "a", .flags = 1U << 5}, "uses a feature"},
           Case{{.name = "a", .content = "x", .method_shown = 14}, "method 14"},
           Case{{.name = "a", .content = "x", .local_name = "b"}, "something else of itself"},
           Case{{.name = "a", .content = "x", .crc32 = 7}, "damaged"},
           Case{{.name = "a", .content = "xyz", .size_shown = 2}, "two different sizes"},
           Case{{.name = "a", .content = "xyz", .deflate = true, .size_shown = 2}, "unpacks to more"},
           Case{{.name = "a", .content = "xyz", .deflate = true, .size_shown = 4}, "unpacks to less"},
           Case{{.name = "a", .content = "xyz", .gap = "hidden"}, "not followed by the next"},
           Case{{.name = "a", .content = "\xff\xff\xff", .method_shown = kDeflated}, "cannot be unpacked"},
       }) {
    EXPECT_THAT(problem_of(raw_archive({entry})), HasSubstr(message)) << entry.name;
  }
}

TEST(Zip, NamesDifferWhateverTheirCase) {
  EXPECT_THAT(problem_of(raw_archive({{.name = "Model.gguf"}, {.name = "model.GGUF"}})),
              HasSubstr("there twice"));
  EXPECT_THAT(problem_of(raw_archive({{.name = "a"}, {.name = "a"}})), HasSubstr("there twice"));
}

TEST(Zip, RefusesWhatLiesAroundTheEntries) {
  EXPECT_THAT(problem_of(raw_archive({{.name = "a", .content = "x"}}, "#!/bin/sh\n")),
              HasSubstr("before its first"));
  EXPECT_THAT(problem_of(raw_archive({{.name = "a", .content = "x"}}, "", "comment")), HasSubstr("comment"));
  EXPECT_THAT(problem_of(raw_archive({{.name = "a", .content = "x"}}) + "more"), HasSubstr("does not end"));
  EXPECT_THAT(problem_of(""), HasSubstr("too short"));
  EXPECT_THAT(problem_of("this is no archive at all, but a text"), HasSubstr("does not end"));
  EXPECT_EQ(problem_of(raw_archive({})), "");
}

TEST(Zip, OneEntryInsideAnotherIsRefused) {
  // The directory names the same bytes twice.
  const std::string inner = raw_archive({{.name = "b", .content = "y"}});
  std::string outer = raw_archive({{.name = "a", .content = inner}});
  const std::size_t at = outer.find(inner);
  std::string hostile = raw_archive({{.name = "a", .content = inner}, {.name = "b", .content = "y"}});
  // Its second entry points into the first.
  const std::size_t listed = hostile.rfind("PK\x01\x02");
  std::string place;
  put(place, at, 4);
  hostile.replace(listed + 42, 4, place);
  EXPECT_NE(problem_of(hostile), "");
}

TEST(Zip, ABombIsRefusedUnopened) {
  const std::string zeros(4'000'000, '\0');
  EXPECT_THAT(problem_of(raw_archive({{.name = "a", .content = zeros, .deflate = true}})),
              HasSubstr("200 to 1"));
  EXPECT_EQ(problem_of(raw_archive({{.name = "a", .content = std::string(100'000, '\0'), .deflate = true}})),
            "")
      << "what is small when packed is small enough unpacked";
}

TEST(Zip, CutOffAnywhereItIsAnError) {
  const std::string whole =
      raw_archive({{.name = "manifest.json", .content = "{\"a\":1}"},
                   {.name = "model/m.gguf", .content = std::string(300, 'g'), .deflate = true}});
  ASSERT_EQ(problem_of(whole), "");
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(problem_of(whole.substr(0, size)), "") << size;
}

TEST(Zip, EveryChangedByteIsNoticedOrHarmless) {
  const std::vector<RawEntry> entries{
      {.name = "manifest.json", .content = "{\"a\":1}"},
      {.name = "model/m.gguf", .content = std::string(300, 'g'), .deflate = true}};
  const std::string whole = raw_archive(entries);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int bit : {0, 3, 7}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      const TextSource source(changed);
      const auto index = read_index(source);
      if (!index) continue;
      for (const auto& entry : *index) {
        const auto text = unpack_text(source, entry, kMiB);
        if (text) EXPECT_TRUE(*text == entries[0].content || *text == entries[1].content) << at;
      }
    }
  }
}

TEST(Zip, TheNumberOfEntriesIsBounded) {
  std::vector<RawEntry> many;
  for (std::size_t i = 0; i <= kMaxEntries; ++i) many.push_back({.name = std::to_string(i), .content = ""});
  EXPECT_THAT(problem_of(raw_archive(many)), HasSubstr("at most 16384"));
  many.pop_back();
  EXPECT_EQ(problem_of(raw_archive(many)), "");
}

}  // namespace
}  // namespace gezel::models::zip
