// Requests queue up as jobs, one per file and depth. The job in front is with the reader: it takes the file's
// stamps and what is remembered of it along, and brings back either that or a new reading, so that not even
// the look at a file's time is taken on the event loop.
#include "gguf/inspector.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <list>

#include "base/files.h"
#include "gguf/split.h"

namespace gezel::gguf {
namespace {

using Stamps = std::vector<FileStamp>;

// Of the file and all its shards; a missing one has the stamp of nothing.
Stamps stamps_of(const std::filesystem::path& path) {
  constexpr std::size_t kMostShards = 1000;
  Stamps stamps;
  for (const auto& shard : shard_paths(path)) {
    stamps.push_back(stamp_file(shard).value_or(FileStamp{}));
    if (stamps.size() == kMostShards) break;
  }
  return stamps;
}

struct Memory {
  std::filesystem::path path;
  Inspector::Depth depth{};
  Stamps stamps;
  std::shared_ptr<const Metadata> metadata;
};

struct Waiting {
  Inspector::Ticket ticket = 0;
  Inspector::Reply reply;
};

struct Job {
  std::filesystem::path path;
  Inspector::Depth depth{};
  std::vector<Waiting> waiting;
};

// What the reader brings back.
struct Outcome {
  Stamps stamps;
  Inspector::Found found = fail(ErrorKind::internal, "inspection-failed", "The reader did not answer.");
  bool parsed = false;
};

}  // namespace

struct Inspector::State : std::enable_shared_from_this<Inspector::State> {
  Runner runner;
  Read read;
  std::deque<Job> jobs;
  bool running = false;
  std::list<Memory> memories;  // most recently used first
  Ticket next_ticket = 1;
  std::uint64_t parses = 0;

  std::list<Memory>::iterator find(const Job& job) {
    return std::ranges::find_if(memories,
                                [&](const Memory& m) { return m.path == job.path && m.depth == job.depth; });
  }

  void start_next() {
    if (running || jobs.empty()) return;
    running = true;
    const Job& job = jobs.front();
    const auto known = find(job);
    auto outcome = std::make_shared<Outcome>();
    runner(
        [outcome, read = read, path = job.path, depth = job.depth,
         before = known == memories.end() ? Memory{} : *known] {
          try {
            outcome->stamps = stamps_of(path);
            if (before.metadata && before.stamps == outcome->stamps) {
              outcome->found = before.metadata;
              return;
            }
            outcome->parsed = true;
            auto metadata = read(path, depth);
            if (metadata) {
              outcome->found = std::make_shared<const Metadata>(std::move(*metadata));
            } else {
              outcome->found = std::unexpected(std::move(metadata).error());
            }
          } catch (const std::exception& failure) {
            outcome->found = fail(ErrorKind::internal, "inspection-failed",
                                  path.filename().string() + " could not be inspected: " + failure.what());
          }
        },
        [weak = weak_from_this(), outcome] {
          if (const auto self = weak.lock()) self->finish(*outcome);
        });
  }

  void remember(const Job& job, const Outcome& outcome) {
    if (const auto known = find(job); known != memories.end()) memories.erase(known);
    if (!outcome.found) return;
    memories.push_front({job.path, job.depth, outcome.stamps, *outcome.found});
    if (memories.size() > kRemembered) memories.pop_back();
  }

  void finish(const Outcome& outcome) {
    const Job job = std::move(jobs.front());
    jobs.pop_front();
    running = false;
    parses += outcome.parsed ? 1 : 0;
    remember(job, outcome);
    const auto keep = shared_from_this();  // a reply may destroy the inspector
    start_next();
    for (const Waiting& waiting : job.waiting) waiting.reply(outcome.found);
  }
};

Inspector::Inspector(Runner runner, Read read) : state_(std::make_shared<State>()) {
  state_->runner = std::move(runner);
  state_->read = std::move(read);
}

Inspector::~Inspector() = default;

Inspector::Ticket Inspector::inspect(const std::filesystem::path& path, Depth depth, Reply reply) {
  const Ticket ticket = state_->next_ticket++;
  const auto same = [&](const Job& job) { return job.path == path && job.depth == depth; };
  auto job = std::ranges::find_if(state_->jobs, same);
  if (job == state_->jobs.end()) {
    state_->jobs.push_back({path, depth, {}});
    job = state_->jobs.end() - 1;
  }
  job->waiting.push_back({ticket, std::move(reply)});
  state_->start_next();
  return ticket;
}

void Inspector::abandon(Ticket ticket) {
  for (Job& job : state_->jobs)
    std::erase_if(job.waiting, [&](const Waiting& waiting) { return waiting.ticket == ticket; });
}

std::uint64_t Inspector::parses() const {
  return state_->parses;
}

Result<Metadata> Inspector::read_file_header(const std::filesystem::path& path, Depth depth) {
  return depth == Depth::whole_model ? read_model(path) : read_metadata(path);
}

}  // namespace gezel::gguf
