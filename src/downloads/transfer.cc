// A transfer is a loop of attempts; an attempt is a chain of requests along redirects that ends with a body
// or with a reason. Bytes go to the disk as they arrive, and through the hash as long as the file has no part
// that was there before.

#include "downloads/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "downloads/attempt.h"
#include "downloads/partial_file.h"
#include "downloads/sha256.h"
#include "downloads/xet_transfer.h"

namespace gezel::downloads {
namespace {

class FileTarget final : public Target, public xet::FileSink {
 public:
  FileTarget(PartialFile file, const FileRequest& request, const TransferEvents& events)
      : file_(std::move(file)), request_(request), events_(events), whole_(file_.size() == 0) {}

  Bytes offset() const override { return file_.size(); }
  bool public_only() const override { return request_.public_only; }
  Bytes high_water() const { return high_water_; }

  void asking(bool at_home) override { at_home_ = at_home; }
  bool on_head(const ResponseHead& head) override {
    status_ = head.status;
    // Only the hub itself may say where its storage is: who asks there shows the token.
    if (const auto access = link_target(head.link, "xet-auth");
        at_home_ && !request_.public_only && !head.xet_hash.empty() && !access.empty())
      stored_ = xet::StoredFile{request_.url, access, head.xet_hash};
    return Target::on_head(head);
  }
  // Where the file can be had in parts, when the redirect led to an address that refuses it; else nullptr.
  const xet::StoredFile* stored() const { return stored_ && status_ == 403 ? &*stored_ : nullptr; }

  Bytes have() const override { return file_.size(); }
  Result<> begin(Bytes total) override {
    total_ = total;
    if (!fits()) return std::unexpected(std::move(*std::exchange(problem_, {})));
    if (file_.size() <= total) return {};
    whole_ = false;
    return file_.truncate(total);
  }
  Result<> write(std::string_view data) override {
    // Never past what the server itself said is the end.
    if (total_) data = data.substr(0, *total_ - std::min(*total_, file_.size()));
    if (file_.size() + data.size() > kMaxFileBytes) return too_large();
    GEZEL_CHECK(file_.append(data));
    if (whole_) hash_.update(data);
    high_water_ = std::max(high_water_, file_.size());
    if (events_.progress) events_.progress(file_.size(), total_.value_or(request_.expected_bytes));
    return {};
  }

  Result<> on_body(std::string_view data) override {
    GEZEL_CHECK(write(data));
    // A server that goes on after the last byte, or says nothing more, is not waited for; finish() finds the
    // file complete.
    if (total_ && file_.size() >= *total_)
      return fail(ErrorKind::cancelled, "complete",
                  "the file is complete; the rest of the answer is not read");
    return {};
  }

  Attempt finish(std::optional<Error> broken) override {
    if (problem_) return stopped(std::move(*problem_), false);
    const bool body = decision_.action == Action::append || decision_.action == Action::restart;
    // With every byte here it no longer matters how the connection ended.
    if (body && total_ && file_.size() >= *total_) return synced();
    if (broken) {
      const bool again = broken->kind == ErrorKind::unavailable || broken->kind == ErrorKind::timeout;
      return stopped(std::move(*broken), again);
    }
    switch (decision_.action) {
      case Action::append:
      case Action::restart:
        if (!total_) return synced();
        return stopped({ErrorKind::unavailable,
                        "dropped",
                        fmt::format("the connection ended after {} of {} bytes", file_.size(), *total_),
                        {}},
                       true);
      case Action::complete:
        return complete();
      case Action::retry_without_range:
        return start_over();
      case Action::retry:
        return stopped(decision_.error, true);
      case Action::redirect:
      case Action::fail:
        break;
    }
    return stopped(decision_.error, false);
  }

  Attempt synced() {
    if (auto done = file_.sync(); !done) return stopped(std::move(done).error(), false);
    return {};
  }

  Transferred result() { return {file_.size(), whole_ ? std::optional(hash_.hex()) : std::nullopt}; }

 protected:
  bool accept() override {
    problem_.reset();
    total_ = decision_.total;
    if (decision_.action == Action::append) return fits();
    if (decision_.action != Action::restart) return false;
    return empty() && fits();
  }

 private:
  static std::unexpected<Error> too_large() {
    return fail(ErrorKind::too_large, "file_too_large",
                fmt::format("the file is larger than {} bytes, the most that is downloaded", kMaxFileBytes));
  }
  bool fits() {
    if (!total_ || *total_ <= kMaxFileBytes) return true;
    problem_ = too_large().error();
    return false;
  }
  bool empty() {
    if (file_.size() == 0 && whole_) return true;
    auto truncated = file_.truncate(0);
    if (!truncated) problem_ = std::move(truncated).error();
    hash_.reset();
    whole_ = true;
    return truncated.has_value();
  }
  Attempt start_over() {
    if (!empty()) return stopped(std::move(*problem_), false);
    return stopped(decision_.error, true);
  }
  Attempt complete() {
    if (decision_.truncate_to < file_.size()) {
      if (auto cut = file_.truncate(decision_.truncate_to); !cut)
        return stopped(std::move(cut).error(), false);
      whole_ = false;
    }
    return synced();
  }

  PartialFile file_;
  const FileRequest& request_;
  const TransferEvents& events_;
  Sha256 hash_;
  bool whole_;  // the hash has seen every byte of the file
  std::optional<Bytes> total_;
  std::optional<Error> problem_;  // with the disk or the size, found between head and body
  Bytes high_water_ = 0;
  bool at_home_ = true;                    // no other host was asked yet
  int status_ = 0;                         // of the last answer
  std::optional<xet::StoredFile> stored_;  // as the hub's redirect said
};

Attempt from_storage(HttpClient& client, Waiter& waiter, const xet::StoredFile& stored,
                     const AccessToken& token, FileTarget& target, const Cancellation& cancellation) {
  auto got = xet::fetch_stored(client, waiter, stored, token, target, cancellation);
  if (got) return target.synced();
  const bool again = got.error().kind == ErrorKind::unavailable || got.error().kind == ErrorKind::timeout;
  return stopped(std::move(got).error(), again);
}

class TextTarget final : public Target {
 public:
  explicit TextTarget(Bytes limit) : limit_(limit) {}

  bool on_head(const ResponseHead& head) override {
    link_ = head.link;
    return Target::on_head(head);
  }
  const std::string& link() const { return link_; }

  Bytes offset() const override { return 0; }
  Result<> on_body(std::string_view data) override {
    if (text_.size() + data.size() > limit_)
      return fail(ErrorKind::too_large, "too_large",
                  fmt::format("the answer has more than {} bytes", limit_));
    text_ += data;
    return {};
  }
  Attempt finish(std::optional<Error> broken) override {
    if (broken) return stopped(*broken, broken->kind == ErrorKind::unavailable);
    if (decision_.action == Action::restart) return {};
    return stopped(decision_.error, decision_.action == Action::retry);
  }
  std::string take() { return std::move(text_); }

 protected:
  bool accept() override {
    text_.clear();
    return decision_.action == Action::restart;
  }

 private:
  Bytes limit_;
  std::string text_, link_;
};

}  // namespace

Transfers::Transfers(HttpClient& client, Waiter& waiter, Entropy& entropy, RetryRules rules)
    : client_(client), waiter_(waiter), entropy_(entropy), rules_(rules) {}

Result<Transferred> Transfers::fetch(const FileRequest& request, const TransferEvents& events,
                                     const Cancellation& cancellation) const {
  GEZEL_TRY(auto file, PartialFile::open(request.partial));
  FileTarget target(std::move(file), request, events);
  RetryBudget budget(rules_, entropy_);
  while (true) {
    auto attempt = follow(client_, request.url, request.token, target, cancellation);
    if (const auto* stored = attempt.error ? target.stored() : nullptr)
      attempt = from_storage(client_, waiter_, *stored, request.token, target, cancellation);
    if (!attempt.error) return target.result();
    if (cancellation.cancelled() || !attempt.again)
      return std::unexpected(after_attempts(*attempt.error, budget.attempts() + 1));
    const auto delay = budget.failed(target.high_water());
    if (!delay) return std::unexpected(after_attempts(*attempt.error, budget.attempts()));
    if (events.retrying)
      events.retrying({budget.attempts() + 1, budget.most_attempts(), *delay, *attempt.error});
    if (!waiter_.wait(*delay, cancellation))
      return fail(ErrorKind::cancelled, "cancelled", "the download was cancelled");
  }
}

Result<std::string> Transfers::fetch_text(const std::string& url, Bytes limit, const AccessToken& token,
                                          const Cancellation& cancellation) const {
  GEZEL_TRY(Page page, fetch_page(url, limit, token, cancellation));
  return std::move(page.text);
}

Result<Page> Transfers::fetch_page(const std::string& url, Bytes limit, const AccessToken& token,
                                   const Cancellation& cancellation) const {
  RetryRules rules = rules_;
  rules.without_headway = std::min(rules.without_headway, kSmallAttempts);
  RetryBudget budget(rules, entropy_);
  TextTarget target(limit);
  while (true) {
    auto attempt = follow(client_, url, token, target, cancellation);
    if (!attempt.error) return Page{target.take(), target.link()};
    if (!attempt.again) return std::unexpected(after_attempts(*attempt.error, budget.attempts() + 1));
    const auto delay = budget.failed(0);
    if (!delay) return std::unexpected(after_attempts(*attempt.error, budget.attempts()));
    if (!waiter_.wait(*delay, cancellation))
      return fail(ErrorKind::cancelled, "cancelled", "the request was cancelled");
  }
}

}  // namespace gezel::downloads
