// llama/library.h
//
// The library's process-wide switches, for the other files of this module: where its log goes, what it said
// about the file being loaded, which of its weight layouts a load may use.
#pragma once
#include <memory>
#include <string>
#include <vector>

struct ggml_backend_buffer_type;

namespace gezel::llama {

// Keeps the library's last warnings and errors while it lives: what it says about a file is the best
// description of what is wrong with it. One at a time per process.
class LogCapture {
 public:
  LogCapture();
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;
  std::vector<std::string> lines() const;  // oldest first, at most kMaxLines
  static constexpr std::size_t kMaxLines = 8;
};

// While it lives, warnings of the library on this thread are debug output: a full cache and an aborted step
// are part of a scheduler's day and would otherwise fill the log.
class QuietScope {
 public:
  QuietScope();
  ~QuietScope();
  QuietScope(const QuietScope&) = delete;
  QuietScope& operator=(const QuietScope&) = delete;

 private:
  bool before_;
};

// While it lives, a failed check inside the library on this thread is thrown as a std::runtime_error instead
// of ending the process. Used around loading only: what the library asserts there is about the file, and its
// loader turns exceptions into a refusal. Nothing of the half-loaded model is used afterwards.
class AssertsThrow {
 public:
  AssertsThrow();
  ~AssertsThrow();
  AssertsThrow(const AssertsThrow&) = delete;
  AssertsThrow& operator=(const AssertsThrow&) = delete;
};

// Takes weight layouts ("AMX", "CPU_REPACK") out of the list that the library chooses from, until destroyed.
class BufferTypeFilter {
 public:
  explicit BufferTypeFilter(const std::vector<std::string>& excluded);
  ~BufferTypeFilter();
  BufferTypeFilter(const BufferTypeFilter&) = delete;
  BufferTypeFilter& operator=(const BufferTypeFilter&) = delete;
  // False: an excluded layout could not be taken out, so the load must do without any.
  bool complete() const { return complete_; }

 private:
  ggml_backend_buffer_type** list_ = nullptr;
  std::vector<ggml_backend_buffer_type*> saved_;  // with the closing null
  bool complete_ = true;
};

// Names of the weight layouts that the library would choose from now, in its order.
std::vector<std::string> extra_buffer_types();

}  // namespace gezel::llama
