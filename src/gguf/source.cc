#include "gguf/source.h"

#include <cstring>

namespace gezel::gguf {

bool MemorySource::read_at(Bytes offset, std::span<char> out) {
  if (offset > bytes_.size() || out.size() > bytes_.size() - offset) return false;
  std::memcpy(out.data(), bytes_.data() + offset, out.size());
  return true;
}

bool PrefixSource::read_at(Bytes offset, std::span<char> out) {
  overran_ = offset > beginning_.size() || out.size() > beginning_.size() - offset;
  return !overran_ && MemorySource(beginning_).read_at(offset, out);
}

Result<FileSource> FileSource::open(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    return fail(ErrorKind::not_found, "model-invalid",
                "the model file " + name + " does not exist; install the model again");
  }
  if (!std::filesystem::status_known(status)) {
    return fail(ErrorKind::io, "model-invalid",
                "the model file " + name + " cannot be reached: " + error.message());
  }
  // A pipe or device could block or never end.
  if (!std::filesystem::is_regular_file(status)) {
    return fail(ErrorKind::corrupt, "model-invalid", name + " is not a regular file; name a GGUF file");
  }
  FileSource source;
  source.size_ = std::filesystem::file_size(path, error);
  source.file_.rdbuf()->pubsetbuf(nullptr, 0);  // the reader has its own window
  source.file_.open(path, std::ios::binary);
  if (error || !source.file_) {
    return fail(ErrorKind::io, "model-invalid",
                "the model file " + name + " cannot be opened; check that this user may read it");
  }
  return source;
}

bool FileSource::read_at(Bytes offset, std::span<char> out) {
  file_.clear();
  file_.seekg(static_cast<std::streamoff>(offset));
  file_.read(out.data(), static_cast<std::streamsize>(out.size()));
  return static_cast<std::size_t>(file_.gcount()) == out.size();
}

}  // namespace gezel::gguf
