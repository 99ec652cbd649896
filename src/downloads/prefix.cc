// Each request asks for what is missing up to the next goal, and the goals double. Whatever a host answers is
// used: a part, more than the part, or the whole file from its beginning, which is then cut off as soon as
// the reader has enough.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "downloads/attempt.h"

namespace gezel::downloads {
namespace {

// A host may send less than it was asked for, but not for ever.
constexpr int kMostRequests = 64;

class PrefixTarget final : public Target {
 public:
  PrefixTarget(const PrefixRequest& request, const PrefixReader& enough)
      : request_(request), enough_(enough), goal_(std::min(request.first_bytes, request.most_bytes)) {}

  bool on_head(const ResponseHead& head) override {
    head_ = head;
    return Target::on_head(head);
  }
  // Without ranges every answer is the whole file.
  Bytes offset() const override { return ranges_ ? bytes_.size() : 0; }
  Bytes length() const override { return ranges_ ? goal_ - bytes_.size() : 0; }
  // A file that changes while it is read begins anew; the question is for its first request.
  std::string unless_etag() const override { return bytes_.empty() ? request_.unless_etag : std::string(); }
  bool public_only() const override { return request_.public_only; }

  Result<> on_body(std::string_view data) override {
    out_.read_bytes += data.size();
    while (!data.empty() && !over()) {
      const std::size_t room = std::min<std::size_t>(data.size(), goal_ - bytes_.size());
      bytes_ += data.substr(0, room);
      data.remove_prefix(room);
      if (bytes_.size() == goal_) look();
    }
    if (over())
      return fail(ErrorKind::cancelled, "complete", "there is enough of the file; the rest is not read");
    return {};
  }

  Attempt finish(std::optional<Error> broken) override {
    if (problem_) return stopped(std::move(*problem_), false);
    if (done_) return {};
    if (head_.status == 304 && !request_.unless_etag.empty()) {
      done_ = out_.unchanged = true;
      out_.etag = request_.unless_etag;
      return {};
    }
    if (changed_) return start_over("changed", "the file changed on the host while it was read");
    if (head_.status == 416 && bytes_.empty()) return no_such_range();
    if (broken) {
      const bool again = broken->kind == ErrorKind::unavailable || broken->kind == ErrorKind::timeout;
      return stopped(std::move(*broken), again);
    }
    switch (decision_.action) {
      case Action::append:
      case Action::restart:
        return part_ended();
      case Action::retry_without_range:
        ranges_ = false;
        return start_over(decision_.error.code, decision_.error.message);
      case Action::complete:  // the file ends where we are
        total_ = bytes_.size();
        return part_ended();
      case Action::retry:
        return stopped(decision_.error, true);
      case Action::redirect:
      case Action::fail:
        break;
    }
    return stopped(decision_.error, false);
  }

  bool done() const { return done_; }
  Bytes size() const { return bytes_.size(); }
  Prefix result() { return out_; }

 protected:
  bool accept() override {
    changed_ = false;
    if (decision_.action != Action::append && decision_.action != Action::restart) return false;
    if (decision_.action == Action::restart) {
      bytes_.clear();
      looked_at_ = 0;
    }
    const auto total = total_of_head();
    const bool other_size = total && total_ && *total != *total_;
    const bool other_tag = !head_.etag.empty() && !out_.etag.empty() && head_.etag != out_.etag;
    changed_ = !bytes_.empty() && (other_size || other_tag);
    if (changed_) return false;
    // decide() takes the end of a part for the end of the file where the host does not say how large that is.
    if (total) total_ = total;
    if (!head_.etag.empty()) out_.etag = head_.etag;
    return true;
  }

 private:
  std::optional<Bytes> total_of_head() const {
    if (head_.status == 206) return head_.content_range ? head_.content_range->total : std::nullopt;
    return head_.content_length;
  }
  bool over() const { return done_ || problem_; }

  // Asks the reader, once for each size.
  void look() {
    const Bytes total = total_.value_or(request_.expected_bytes);
    if (total == 0) {
      problem_ = Error{ErrorKind::unavailable,
                       "unknown_size",
                       "the host does not say how large the file is, so that nothing can be planned with it",
                       {}};
      return;
    }
    looked_at_ = bytes_.size();
    out_.file_bytes = total;
    done_ = enough_(bytes_, total);
    if (done_) return;
    if (bytes_.size() >= request_.most_bytes) {
      problem_ = Error{ErrorKind::too_large,
                       "header_too_large",
                       fmt::format("the header goes on after {}, the most that is read of one",
                                   format_bytes(request_.most_bytes)),
                       {}};
      return;
    }
    goal_ = std::min(goal_ * 2, request_.most_bytes);
  }

  // The body is over. Either that is all of the file, or the next part is asked for.
  Attempt part_ended() {
    if (!total_ && decision_.action == Action::restart) total_ = bytes_.size();  // it ended by itself
    const bool whole = total_ && bytes_.size() >= *total_;
    if (bytes_.size() > looked_at_ && (whole || bytes_.size() == goal_)) look();
    if (problem_) return stopped(std::move(*problem_), false);
    if (done_ || !whole) return {};
    // The reader asks for more than there is: it has said what is wrong with that.
    done_ = true;
    return {};
  }

  // Already the first bytes are none that it has, or it takes no ranges at all.
  Attempt no_such_range() {
    if (head_.content_range && head_.content_range->total == Bytes{0}) {
      return stopped({ErrorKind::corrupt, "empty_file", "the file on the host is empty (0 bytes)", {}},
                     false);
    }
    const bool asked = std::exchange(ranges_, false);
    return start_over("http_416", "the host answered 416 to the first bytes of the file", asked);
  }

  Attempt start_over(std::string code, std::string message, bool again = true) {
    bytes_.clear();
    looked_at_ = 0;
    total_.reset();
    out_.etag.clear();
    changed_ = false;
    return stopped({ErrorKind::unavailable, std::move(code), std::move(message), {}}, again);
  }

  const PrefixRequest& request_;
  const PrefixReader& enough_;
  std::string bytes_;
  Bytes goal_;
  Bytes looked_at_ = 0;
  bool ranges_ = true;  // false: the host refuses them
  ResponseHead head_;
  std::optional<Bytes> total_;
  std::optional<Error> problem_;
  bool done_ = false, changed_ = false;
  Prefix out_;
};

}  // namespace

Result<Prefix> Transfers::fetch_prefix(const PrefixRequest& request, const PrefixReader& enough,
                                       const Cancellation& cancellation) const {
  RetryRules rules = rules_;
  rules.without_headway = std::min(rules.without_headway, kSmallAttempts);
  RetryBudget budget(rules, entropy_);
  PrefixTarget target(request, enough);
  for (int requests = 0; requests < kMostRequests; ++requests) {
    const Bytes before = target.size();
    auto attempt = follow(client_, request.url, request.token, target, cancellation);
    if (target.done()) return target.result();
    if (!attempt.error) {
      if (target.size() > before) continue;
      attempt = stopped(
          {ErrorKind::unavailable, "dropped", "the host sent nothing of what it was asked for", {}}, true);
    }
    if (cancellation.cancelled() || !attempt.again)
      return std::unexpected(after_attempts(*attempt.error, budget.attempts() + 1));
    const auto delay = budget.failed(target.size());
    if (!delay) return std::unexpected(after_attempts(*attempt.error, budget.attempts()));
    if (!waiter_.wait(*delay, cancellation))
      return fail(ErrorKind::cancelled, "cancelled", "the request was cancelled");
  }
  return fail(ErrorKind::unavailable, "dropped",
              fmt::format("the host sends the file in pieces too small: {} requests brought {} bytes",
                          kMostRequests, target.size()));
}

}  // namespace gezel::downloads
