// downloads/attempt.h
//
// One attempt to get a file or a part of it: a chain of requests along redirects that ends with a body or
// with a reason. Internal to the module; transfer.cc and prefix.cc decide about the next one.
#pragma once
#include <optional>
#include <string>

#include "downloads/http_client.h"
#include "downloads/transfer.h"

namespace gezel::downloads {

// How an attempt ended; no error: as it should.
struct Attempt {
  std::optional<Error> error;
  bool again = false;  // it may go better next time
};

inline Attempt stopped(Error error, bool again) {
  return {std::move(error), again};
}

// Where a body goes, and what the heads said.
class Target : public HttpSink {
 public:
  bool on_head(const ResponseHead& head) override {
    decision_ = decide(head, offset());
    location_ = head.location;
    return accept();
  }
  const Decision& decision() const { return decision_; }
  const std::string& location() const { return location_; }

  // What to ask for, as in HttpGet.
  virtual Bytes offset() const = 0;
  virtual Bytes length() const { return 0; }
  virtual std::string unless_etag() const { return {}; }
  virtual bool public_only() const { return false; }
  // Before each request: whether only the first host was asked so far, this request included.
  virtual void asking(bool /*at_home*/) {}
  // The answer ended, or broke off with `broken`.
  virtual Attempt finish(std::optional<Error> broken) = 0;

 protected:
  virtual bool accept() = 0;  // takes the body of the last head
  Decision decision_;

 private:
  std::string location_;
};

// The token is shown to its own origin only, and to nobody once another came into play.
Attempt follow(HttpClient& client, const std::string& address, const AccessToken& token, Target& target,
               const Cancellation& cancellation);

// The reason for giving up, with the number of attempts that it took.
Error after_attempts(Error reason, int attempts);

}  // namespace gezel::downloads
