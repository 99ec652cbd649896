// Stored entries with everything in their local headers: the same files give the same archive, byte for byte,
// and its size is known before. Numbers that do not fit 32 bits go into the extra field, and only then.

#include <sys/stat.h>

#include <algorithm>

#include "models/zip.h"
#include "models/zip_format.h"

namespace gezel::models::zip {
namespace {

constexpr unsigned kVersion = 20, kVersion64 = 45;  // 2.0; 4.5, of 64-bit numbers
constexpr unsigned kFirstDay = 1 << 5 | 1;          // 1 January 1980, the first there is
constexpr std::uint32_t kFileMode = S_IFREG | 0644;

Bytes in_32(Bytes number) {
  return std::min(number, kMax32);
}

// The extra field with those of the numbers that do not fit.
std::string extra64(std::initializer_list<Bytes> numbers) {
  std::string values, out;
  for (const Bytes number : numbers) {
    if (number >= kMax32) put(values, number, 8);
  }
  if (values.empty()) return out;
  put(out, kExtra64, 2);
  put(out, values.size(), 2);
  return out + values;
}

// From the version to the size, as both headers have it.
void put_common(std::string& out, const Layout::File& file, bool large) {
  put(out, large ? kVersion64 : kVersion, 2);
  put(out, kUtf8Flag, 2);
  put(out, kStored, 2);
  put(out, 0, 2);  // midnight
  put(out, kFirstDay, 2);
  put(out, file.crc32, 4);
  put(out, in_32(file.size), 4);
  put(out, in_32(file.size), 4);
  put(out, file.name.size(), 2);
}

}  // namespace

Layout::Layout(std::vector<File> files) : files_(std::move(files)) {
  for (std::size_t i = 0; i < files_.size(); ++i) {
    offsets_.push_back(directory_at_);
    directory_at_ += header(i).size() + files_[i].size;
  }
}

std::string Layout::header(std::size_t index) const {
  const File& file = files_[index];
  const std::string extra = extra64({file.size, file.size});
  std::string out;
  put(out, kLocal, 4);
  put_common(out, file, !extra.empty());
  put(out, extra.size(), 2);
  return out + file.name + extra;
}

std::string Layout::end() const {
  std::string out;
  bool large = files_.size() >= kMax16;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const File& file = files_[i];
    const std::string extra = extra64({file.size, file.size, offsets_[i]});
    large = large || !extra.empty();
    put(out, kListed, 4);
    put(out, kMadeByUnix << 8 | (extra.empty() ? kVersion : kVersion64), 2);
    put_common(out, file, !extra.empty());
    put(out, extra.size(), 2);
    put(out, 0, 2);  // no comment
    put(out, 0, 2);  // in the first part
    put(out, 0, 2);
    put(out, std::uint64_t{kFileMode} << 16, 4);
    put(out, in_32(offsets_[i]), 4);
    out += file.name + extra;
  }
  const Bytes directory_size = out.size();
  large = large || directory_at_ >= kMax32;
  if (large) {
    put(out, kEnd64, 4);
    put(out, kEnd64Size - 12, 8);
    put(out, kMadeByUnix << 8 | kVersion64, 2);
    put(out, kVersion64, 2);
    put(out, 0, 4);
    put(out, 0, 4);
    put(out, files_.size(), 8);
    put(out, files_.size(), 8);
    put(out, directory_size, 8);
    put(out, directory_at_, 8);
    put(out, kLocator64, 4);
    put(out, 0, 4);
    put(out, directory_at_ + directory_size, 8);
    put(out, 1, 4);
  }
  const Bytes count = large ? kMax16 : files_.size();
  put(out, kEnd, 4);
  put(out, 0, 2);
  put(out, 0, 2);
  put(out, count, 2);
  put(out, count, 2);
  put(out, large ? kMax32 : directory_size, 4);
  put(out, large ? kMax32 : directory_at_, 4);
  put(out, 0, 2);
  return out;
}

}  // namespace gezel::models::zip
