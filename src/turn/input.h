// turn/input.h
//
// The text of one message as its readers see it: what has arrived and is not consumed yet, and whether more
// can come. Readers are coroutines (turn/task.h); they ask for a decision and are suspended until the text
// decides it. A decision is a function of the bytes and of where the text ends, so no result depends on how
// the text was cut into pieces.
#pragma once
#include <algorithm>
#include <coroutine>
#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace gezel::turn {

constexpr bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
constexpr bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
constexpr bool is_name_char(char c) {
  return is_name_start(c) || (c >= '0' && c <= '9') || c == '.' || c == '-';
}

// White space that a grammar looks through; behind more of it nothing belongs together.
inline constexpr std::size_t kMaxSpace = 64 * 1024;
// A name or key in markup.
inline constexpr std::size_t kMaxName = 256;

class Input {
 public:
  std::string_view view() const { return std::string_view(buffer_).substr(at_); }
  bool ended() const { return ended_; }
  std::size_t offset() const { return offset_; }  // bytes consumed since the beginning
  void skip(std::size_t size) {
    if (capture_ && capture_->size() < capture_limit_) {
      capture_->append(view().substr(0, std::min(size, capture_limit_ - capture_->size())));
    }
    at_ += size;
    offset_ += size;
    while (!specials_.empty() && specials_.front() < offset_) specials_.pop_front();
  }

  // Consumed text is copied to `out`, at most `limit` bytes of it; null ends that.
  void capture(std::string* out, std::size_t limit = 0) {
    capture_ = out;
    capture_limit_ = limit;
  }

  // A special token of the engine begins at this offset of the whole text.
  bool special_at(std::size_t offset) const { return std::ranges::binary_search(specials_, offset); }

  // --- for whoever has the text

  void append(std::string_view piece, bool special = false) {
    if (at_ == buffer_.size()) {
      buffer_.clear();
      at_ = 0;
    } else if (at_ > 4096 && at_ * 2 > buffer_.size()) {
      buffer_.erase(0, at_);
      at_ = 0;
    }
    if (special) specials_.push_back(offset_ + buffer_.size() - at_);
    buffer_.append(piece);
    wake();
  }
  void end() {
    ended_ = true;
    wake();
  }

  // --- for readers

  // co_await when(attempt): the first result of `attempt(Input&)`, which returns an optional: nothing means
  // that more text is needed. It is asked again when text has arrived, and must answer once the text has
  // ended.
  template <class Attempt>
  auto when(Attempt attempt) {
    return Waiter<Attempt>(*this, std::move(attempt));
  }
  // Until there is more text, or the text has ended.
  auto more() {
    return when([seen = view().size()](Input& in) -> std::optional<bool> {
      return in.view().size() > seen || in.ended() ? std::optional<bool>(true) : std::nullopt;
    });
  }
  // The next byte, or -1 at the end. Consumes nothing.
  auto peek() {
    return when([](Input& in) -> std::optional<int> {
      if (!in.view().empty()) return static_cast<unsigned char>(in.view().front());
      return in.ended() ? std::optional<int>(-1) : std::nullopt;
    });
  }
  // Consumes white space.
  auto skip_space() {
    return when([](Input& in) -> std::optional<bool> {
      const std::string_view text = in.view();
      const auto end = std::ranges::find_if_not(text, is_space);
      in.skip(static_cast<std::size_t>(end - text.begin()));
      return end != text.end() || in.ended() ? std::optional<bool>(true) : std::nullopt;
    });
  }
  // Consumes `literal` if the text begins with it.
  auto literal(std::string_view literal) {
    return when([literal](Input& in) -> std::optional<bool> {
      const std::string_view text = in.view();
      if (text.starts_with(literal)) {
        in.skip(literal.size());
        return true;
      }
      if (!in.ended() && literal.starts_with(text)) return std::nullopt;
      return false;
    });
  }
  // Looks over white space for one of `literals`: which one, or -1. Consumes both if found (only the white
  // space if `keep` is set), otherwise nothing. No literal may begin another.
  auto after_space(std::span<const std::string_view> literals, bool keep = false) {
    return when([literals, keep, space = std::size_t{0}](Input& in) mutable -> std::optional<int> {
      const std::string_view text = in.view();
      while (space < text.size() && is_space(text[space])) ++space;
      if (space > kMaxSpace) return -1;
      const std::string_view rest = text.substr(space);
      bool may_come = rest.empty();
      for (std::size_t i = 0; i < literals.size(); ++i) {
        if (rest.starts_with(literals[i])) {
          in.skip(space + (keep ? 0 : literals[i].size()));
          return static_cast<int>(i);
        }
        may_come = may_come || literals[i].starts_with(rest);
      }
      if (may_come && !in.ended()) return std::nullopt;
      return -1;
    });
  }
  // Looks over white space at the next byte without consuming anything; -1 at the end.
  auto peek_after_space() {
    return when([space = std::size_t{0}](Input& in) mutable -> std::optional<int> {
      const std::string_view text = in.view();
      while (space < text.size() && is_space(text[space])) ++space;
      if (space < text.size()) return static_cast<unsigned char>(text[space]);
      return in.ended() || space > kMaxSpace ? std::optional<int>(-1) : std::nullopt;
    });
  }
  // Consumes a NAME (section 5): empty if there is none or it is longer than kMaxName.
  auto name() {
    return when([](Input& in) -> std::optional<std::string> {
      const std::string_view text = in.view();
      if (text.empty() && !in.ended()) return std::nullopt;
      if (text.empty() || !is_name_start(text.front())) return std::string();
      const std::string_view bounded = text.substr(0, kMaxName + 1);
      const auto end = std::ranges::find_if_not(bounded, is_name_char);
      if (end == bounded.end() && bounded.size() <= kMaxName && !in.ended()) return std::nullopt;
      const auto size = static_cast<std::size_t>(end - bounded.begin());
      if (size > kMaxName) return std::string();
      in.skip(size);
      return std::string(bounded.substr(0, size));
    });
  }
  // Consumes the text up to and including `stop` and returns what stood before it; nothing (and consumes
  // nothing) if a byte of `never` or the end comes first, or more than kMaxName bytes.
  auto until(std::string_view stop, std::string_view never = "\n") {
    return when([stop, never](Input& in) -> std::optional<std::optional<std::string>> {
      const std::string_view text = in.view().substr(0, kMaxName + stop.size());
      const std::size_t found = text.find(stop);
      const std::size_t bad = text.find_first_of(never);
      if (found != text.npos && (bad == text.npos || bad >= found)) {
        std::string before(text.substr(0, found));
        in.skip(found + stop.size());
        return before;
      }
      if (bad != text.npos || text.size() >= kMaxName + stop.size() || in.ended()) {
        return std::optional<std::string>();
      }
      return std::nullopt;
    });
  }

 private:
  struct WaiterBase {
    std::coroutine_handle<> reader;
    virtual bool decided() = 0;

   protected:
    ~WaiterBase() = default;
  };
  template <class Attempt>
  class Waiter final : WaiterBase {
   public:
    Waiter(Input& in, Attempt attempt) : in_(in), attempt_(std::move(attempt)) {}
    bool await_ready() { return decided(); }
    void await_suspend(std::coroutine_handle<> reader) {
      this->reader = reader;
      in_.waiting_ = this;
    }
    auto await_resume() { return *std::move(result_); }

   private:
    bool decided() override {
      result_ = attempt_(in_);
      return result_.has_value();
    }
    Input& in_;
    Attempt attempt_;
    decltype(std::declval<Attempt&>()(std::declval<Input&>())) result_;
  };

  void wake() {
    if (!waiting_ || !waiting_->decided()) return;
    std::exchange(waiting_, nullptr)->reader.resume();
  }

  std::string buffer_;
  std::size_t at_ = 0;
  std::size_t offset_ = 0;
  bool ended_ = false;
  std::deque<std::size_t> specials_;  // offsets, ascending
  std::string* capture_ = nullptr;
  std::size_t capture_limit_ = 0;
  WaiterBase* waiting_ = nullptr;
};

}  // namespace gezel::turn
