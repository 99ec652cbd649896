// replay/store.h
//
// What models wrote for their tool calls, byte for byte. A client sends history back as JSON; rendered anew,
// a call rarely has the very bytes that were sampled (blanks, order of markers, the model's own ids), and
// everything after it must be computed again. With the bytes of the whole message at hand the prompt can be
// what it was.
//
// A record is found again only by the caller that got it, for the model that wrote it, and only while the
// call is as it was delivered: id, name, arguments as values, and the text beside the calls. Anything else is
// a miss, which costs nothing but the reuse.
//
// Records live in one private SQLite file. They are a cache: a file that is damaged is begun anew.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/result.h"
#include "prompt/request.h"

namespace gezel::replay {

struct Limits {
  Bytes bytes =
      64 * kMiB;  // of all records together, with what each needs beside its text; the oldest go first
  std::chrono::hours age{7 * 24};
};

// Whose records: nobody gets what another caller's model wrote.
struct Scope {
  std::string caller;  // identity of the API key
  std::string model;   // fingerprint of the model's files
};

// One assistant message with calls, as it was delivered and as it was sampled.
struct Answer {
  std::string content;
  std::vector<prompt::ToolCall> calls;  // as delivered, with the ids of the wire
  std::vector<std::string> engine_ids;  // of each call: the id that the model itself wrote, or ""
  prompt::Sampled sampled;
};

struct Kept {
  prompt::Sampled sampled;
  std::vector<std::string> engine_ids;
};

struct Counters {
  std::uint64_t hits = 0;     // messages
  std::uint64_t misses = 0;   // messages with calls that no record was found for
  std::uint64_t records = 0;  // messages held
  Bytes bytes = 0;
};

class Store {
 public:
  // Opens or creates the file, private to its owner. `clock` must outlive the store. Errors: `io` where the
  // file cannot be made, "<path>: <reason>".
  static Result<std::unique_ptr<Store>> open(const std::filesystem::path& file, const Clock& clock,
                                             Limits limits = {});
  virtual ~Store() = default;

  // Both may be called from any thread and block for the disk.
  virtual Result<> keep(const Scope& scope, const Answer& answer) = 0;
  // The record of a message: all its calls, in their order, and nothing else.
  virtual std::optional<Kept> find(const Scope& scope, std::span<const prompt::ToolCall> calls,
                                   std::string_view content) = 0;
  virtual Counters counters() const = 0;
};

}  // namespace gezel::replay
