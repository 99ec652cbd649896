// gguf/inspector.h
//
// Reads model files off the event loop, one at a time, and remembers the last ones (spec 20 section 5.6).
//
// It lives on the event loop and owns no thread: `Runner` is the composition root's way to a reader of
// low priority. While a reading is under way that runner keeps the process; an inspector with nothing
// to do holds nothing.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

#include "gguf/metadata.h"

namespace gezel::gguf {

class Inspector {
 public:
  enum class Depth {
    metadata,     // the file that is named
    whole_model,  // the tensor sizes of all shards, too
  };
  using Found = Result<std::shared_ptr<const Metadata>>;
  using Reply = std::function<void(const Found&)>;
  // Runs `work` on the reader, then `then` on the event loop.
  using Runner = std::function<void(std::function<void()> work, std::function<void()> then)>;
  // What reads a file; blocking, called from `work` only.
  using Read = std::function<Result<Metadata>(const std::filesystem::path&, Depth)>;
  using Ticket = std::uint64_t;

  static constexpr std::size_t kRemembered = 32;

  explicit Inspector(Runner runner, Read read = read_file_header);
  ~Inspector();  // replies that are outstanding are never called
  Inspector(const Inspector&) = delete;
  Inspector& operator=(const Inspector&) = delete;

  // Replies on the event loop, never inside this call. Requests for the same file share one reading; a file
  // whose size or time of change (or a shard's) is as before is not parsed again. Failures are not
  // remembered. A reader that throws fails the requests that wait for it with `inspection-failed`; the next
  // request is served again.
  Ticket inspect(const std::filesystem::path& path, Depth depth, Reply reply);

  // Gives up waiting. The reading goes on for the others and for the memory.
  void abandon(Ticket ticket);

  std::uint64_t parses() const;  // since the start

  static Result<Metadata> read_file_header(const std::filesystem::path& path, Depth depth);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace gezel::gguf
