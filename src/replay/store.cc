// Two tables: `message` holds the bytes, `call` finds them. A call's key is a hash over everything that must
// be as it was, so that neither keys nor arguments lie in the file a second time.
#include "replay/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>

#include "base/files.h"
#include "base/ids.h"
#include "base/json.h"
#include "base/log.h"
#include "turn/calls.h"

namespace gezel::replay {
namespace {

constexpr int kVersion = 1;  // of the tables; another version's records are dropped
constexpr int kBusyMs = 1000;
constexpr Bytes kPerMessage = 128;  // what a row needs beside its text, about
constexpr Bytes kPerCall = 128;

constexpr const char* kTables = R"(
  CREATE TABLE message (
    id INTEGER PRIMARY KEY,
    created INTEGER NOT NULL,        -- Unix seconds
    cost INTEGER NOT NULL,           -- bytes, as Limits counts them
    text BLOB NOT NULL,
    digest TEXT NOT NULL,            -- SHA-256 of the text: a flipped bit must not become part of a prompt
    reasoning_bytes INTEGER NOT NULL,
    began_in_reasoning INTEGER NOT NULL,
    calls INTEGER NOT NULL);
  CREATE TABLE call (
    key TEXT PRIMARY KEY,            -- SHA-256, see key_of()
    message INTEGER NOT NULL REFERENCES message(id) ON DELETE CASCADE,
    place INTEGER NOT NULL,
    engine_id TEXT NOT NULL) WITHOUT ROWID;
  CREATE INDEX call_of_message ON call(message);
)";

// Pieces with their lengths, so that no two lists of pieces give the same text.
std::string joined(std::initializer_list<std::string_view> pieces) {
  std::string out;
  for (const auto piece : pieces) out.append(std::to_string(piece.size())).append(":").append(piece);
  return out;
}

std::string key_of(const Scope& scope, const prompt::ToolCall& call, std::string_view content) {
  const auto value = parse_json(call.arguments);
  const std::string arguments = value ? turn::canonical_json(*value) : call.arguments;
  return sha256_hex(joined(
      {scope.caller, scope.model, call.id, sha256_hex(joined({call.name, arguments})), sha256_hex(content)}));
}

class Statement {
 public:
  Statement(sqlite3* db, const char* sql) {
    if (sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr) != SQLITE_OK) statement_ = nullptr;
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  Statement& text(int place, std::string_view value) {
    sqlite3_bind_text64(statement_, place, value.data(), value.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
    return *this;
  }
  Statement& blob(int place, std::string_view value) {
    sqlite3_bind_blob64(statement_, place, value.data(), value.size(), SQLITE_TRANSIENT);
    return *this;
  }
  Statement& number(int place, std::int64_t value) {
    sqlite3_bind_int64(statement_, place, value);
    return *this;
  }
  // True while there is a row.
  bool row() { return step() == SQLITE_ROW; }
  bool done() { return step() == SQLITE_DONE; }

  std::int64_t number_at(int column) { return sqlite3_column_int64(statement_, column); }
  std::string bytes_at(int column) {
    const auto* data = static_cast<const char*>(sqlite3_column_blob(statement_, column));
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column));
    return data == nullptr ? std::string() : std::string(data, size);
  }

 private:
  int step() { return statement_ == nullptr ? SQLITE_ERROR : sqlite3_step(statement_); }
  sqlite3_stmt* statement_ = nullptr;
};

struct Close {
  void operator()(sqlite3* db) const { sqlite3_close(db); }
};
using Database = std::unique_ptr<sqlite3, Close>;

bool run(sqlite3* db, const char* sql) {
  return sqlite3_exec(db, sql, nullptr, nullptr, nullptr) == SQLITE_OK;
}

bool damaged(int code) {
  return (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB;
}

// SQLite gives its side files the mode of the main one, so that has to be private before it is opened.
Result<> make_private_file(const fs::path& file) {
  const int fd = ::open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return std::unexpected(errno_error(file.string(), errno));
  const int refused = ::fchmod(fd, 0600) == 0 ? 0 : errno;
  ::close(fd);
  if (refused != 0) return std::unexpected(errno_error(file.string(), refused));
  return {};
}

void remove_files(const fs::path& file) {
  std::error_code ignored;
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) fs::remove(file.string() + suffix, ignored);
}

class Implementation final : public Store {
 public:
  Implementation(fs::path file, const Clock& clock, Limits limits)
      : file_(std::move(file)), clock_(clock), limits_(limits) {}

  Result<> start() {
    GEZEL_CHECK(make_private_folder(file_.parent_path()));
    if (auto opened = open(); opened) return {};
    // Damaged, or no database at all.
    if (!lost_) return std::unexpected(problem());
    begin_anew();
    return db_ ? Result<>() : std::unexpected(problem());
  }

  Result<> keep(const Scope& scope, const Answer& answer) override;
  std::optional<Kept> find(const Scope& scope, std::span<const prompt::ToolCall> calls,
                           std::string_view content) override;
  Counters counters() const override {
    const std::lock_guard lock(mutex_);
    return counters_;
  }

 private:
  bool open();
  bool prepare_tables();
  void count();
  bool insert(const Scope& scope, const Answer& answer);
  bool drop_old();
  std::optional<Kept> lookup(const Scope& scope, std::span<const prompt::ToolCall> calls,
                             std::string_view content);
  // After a failure: a damaged file goes, anything else (a full disk, say) may pass.
  void mend();
  void begin_anew();
  Error problem() const {
    return {ErrorKind::io,
            "replay-store",
            fmt::format("{}: {}", file_.string(), reason_.empty() ? "cannot be used" : reason_),
            {}};
  }
  std::int64_t oldest_allowed() const {
    return unix_seconds(clock_.wall_now()) -
           std::chrono::duration_cast<std::chrono::seconds>(limits_.age).count();
  }

  const fs::path file_;
  const Clock& clock_;
  const Limits limits_;
  mutable std::mutex mutex_;
  Database db_;
  Counters counters_;
  std::string reason_;  // of the last failure
  bool lost_ = false;   // the last failure was damage
};

bool Implementation::open() {
  if (const auto made = make_private_file(file_); !made) {
    reason_ = made.error().message;
    return false;
  }
  sqlite3* raw = nullptr;
  const int code =
      sqlite3_open_v2(file_.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX, nullptr);
  db_.reset(raw);
  if (code == SQLITE_OK && prepare_tables()) {
    count();
    return true;
  }
  reason_ = raw == nullptr ? "no memory" : sqlite3_errmsg(raw);
  lost_ = raw != nullptr && damaged(sqlite3_errcode(raw));
  db_.reset();
  return false;
}

bool Implementation::prepare_tables() {
  sqlite3_busy_timeout(db_.get(), kBusyMs);
  // The journal keeps what was said to be kept through a crash of the daemon; a crash of the machine may cost
  // the last records.
  if (!run(db_.get(),
           "PRAGMA auto_vacuum=INCREMENTAL; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
           "PRAGMA foreign_keys=ON; PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON;"))
    return false;
  std::int64_t version = 0;
  {
    Statement asked(db_.get(), "PRAGMA user_version");
    if (!asked.row()) return false;
    version = asked.number_at(0);
  }
  if (version != kVersion) {
    const std::string sql = fmt::format(
        "BEGIN IMMEDIATE; DROP TABLE IF EXISTS call; DROP TABLE IF EXISTS message; {} PRAGMA "
        "user_version={}; COMMIT;",
        kTables, kVersion);
    if (!run(db_.get(), sql.c_str())) return false;
  }
  return drop_old();
}

void Implementation::count() {
  Statement sums(db_.get(), "SELECT count(*), coalesce(sum(cost), 0) FROM message");
  if (!sums.row()) return;
  counters_.records = static_cast<std::uint64_t>(sums.number_at(0));
  counters_.bytes = static_cast<Bytes>(sums.number_at(1));
}

bool Implementation::drop_old() {
  if (!Statement(db_.get(), "DELETE FROM message WHERE created < ?1").number(1, oldest_allowed()).done())
    return false;
  // The running sum from the newest on: what lies beyond the limit goes.
  if (!Statement(db_.get(),
                 "DELETE FROM message WHERE id <= (SELECT max(id) FROM (SELECT id, sum(cost) OVER (ORDER BY "
                 "id DESC) "
                 "AS total FROM message) WHERE total > ?1)")
           .number(1, static_cast<std::int64_t>(limits_.bytes))
           .done())
    return false;
  return run(db_.get(), "PRAGMA incremental_vacuum");
}

bool Implementation::insert(const Scope& scope, const Answer& answer) {
  Bytes cost = kPerMessage + answer.sampled.text.size() + kPerCall * answer.calls.size();
  for (const auto& id : answer.engine_ids) cost += id.size();
  if (!run(db_.get(), "BEGIN IMMEDIATE")) return false;
  bool good =
      Statement(
          db_.get(),
          "INSERT INTO message(created, cost, text, reasoning_bytes, began_in_reasoning, calls, digest) "
          "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)")
          .number(1, unix_seconds(clock_.wall_now()))
          .number(2, static_cast<std::int64_t>(cost))
          .blob(3, answer.sampled.text)
          .number(4, static_cast<std::int64_t>(answer.sampled.reasoning_bytes))
          .number(5, answer.sampled.began_in_reasoning ? 1 : 0)
          .number(6, static_cast<std::int64_t>(answer.calls.size()))
          .text(7, sha256_hex(answer.sampled.text))
          .done();
  const std::int64_t message = sqlite3_last_insert_rowid(db_.get());
  for (std::size_t i = 0; good && i < answer.calls.size(); ++i) {
    good = Statement(db_.get(),
                     "INSERT OR REPLACE INTO call(key, message, place, engine_id) VALUES(?1, ?2, ?3, ?4)")
               .text(1, key_of(scope, answer.calls[i], answer.content))
               .number(2, message)
               .number(3, static_cast<std::int64_t>(i))
               .text(4, i < answer.engine_ids.size() ? answer.engine_ids[i] : "")
               .done();
  }
  if (good) {
    ++counters_.records;
    counters_.bytes += cost;
    const bool old = Statement(db_.get(), "SELECT 1 FROM message WHERE created < ?1 LIMIT 1")
                         .number(1, oldest_allowed())
                         .row();
    if (old || counters_.bytes > limits_.bytes) {
      good = drop_old();
      count();
    }
  }
  if (good && run(db_.get(), "COMMIT")) return true;
  reason_ = sqlite3_errmsg(db_.get());
  lost_ = damaged(sqlite3_errcode(db_.get()));
  run(db_.get(), "ROLLBACK");
  return false;
}

Result<> Implementation::keep(const Scope& scope, const Answer& answer) {
  if (answer.calls.empty()) return {};
  const std::lock_guard lock(mutex_);
  if (!db_ && !open()) return std::unexpected(problem());
  if (insert(scope, answer)) return {};
  Error error = problem();
  mend();
  return std::unexpected(std::move(error));
}

std::optional<Kept> Implementation::lookup(const Scope& scope, std::span<const prompt::ToolCall> calls,
                                           std::string_view content) {
  Kept kept;
  std::optional<std::int64_t> message;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    Statement found(db_.get(), "SELECT message, place, engine_id FROM call WHERE key = ?1");
    if (!found.text(1, key_of(scope, calls[i], content)).row()) return std::nullopt;
    if (found.number_at(1) != static_cast<std::int64_t>(i)) return std::nullopt;
    if (message.value_or(found.number_at(0)) != found.number_at(0)) return std::nullopt;
    message = found.number_at(0);
    kept.engine_ids.push_back(found.bytes_at(2));
  }
  if (!message) return std::nullopt;
  Statement found(db_.get(),
                  "SELECT text, reasoning_bytes, began_in_reasoning, digest FROM message WHERE id = ?1 AND "
                  "calls = ?2 AND "
                  "created >= ?3");
  found.number(1, *message).number(2, static_cast<std::int64_t>(calls.size())).number(3, oldest_allowed());
  if (!found.row()) return std::nullopt;
  kept.sampled.text = found.bytes_at(0);
  kept.sampled.reasoning_bytes = static_cast<std::size_t>(found.number_at(1));
  kept.sampled.began_in_reasoning = found.number_at(2) != 0;
  const bool whole = sha256_hex(kept.sampled.text) == found.bytes_at(3);
  if (!whole || kept.sampled.reasoning_bytes > kept.sampled.text.size()) return std::nullopt;
  return kept;
}

std::optional<Kept> Implementation::find(const Scope& scope, std::span<const prompt::ToolCall> calls,
                                         std::string_view content) {
  if (calls.empty()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  std::optional<Kept> kept;
  if (db_) {
    kept = lookup(scope, calls, content);
    if (!kept && damaged(sqlite3_errcode(db_.get()))) {
      reason_ = sqlite3_errmsg(db_.get());
      lost_ = true;
      mend();
    }
  }
  ++(kept ? counters_.hits : counters_.misses);
  return kept;
}

void Implementation::mend() {
  log_warn("the store of tool calls failed", {{"file", file_.string()}, {"reason", reason_}});
  if (lost_) begin_anew();
}

void Implementation::begin_anew() {
  log_warn("the store of tool calls was damaged and is begun anew",
           {{"file", file_.string()}, {"reason", reason_}});
  db_.reset();
  remove_files(file_);
  lost_ = false;
  counters_.records = 0;
  counters_.bytes = 0;
  (void)open();
}

}  // namespace

Result<std::unique_ptr<Store>> Store::open(const fs::path& file, const Clock& clock, Limits limits) {
  auto store = std::make_unique<Implementation>(file, clock, limits);
  GEZEL_CHECK(store->start());
  return store;
}

}  // namespace gezel::replay
