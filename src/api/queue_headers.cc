#include "api/queue_headers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "api/field_reader.h"

namespace gezel::api {
namespace {

constexpr std::string_view kLane = "x-gezel-lane", kTimeout = "x-gezel-queue-timeout";

struct LaneWord {
  std::string_view word;
  prompt::Lane lane;
  bool ambient;
};
constexpr std::array kLaneWords{
    LaneWord{"interactive", prompt::Lane::interactive, false},
    LaneWord{"background", prompt::Lane::background, false},
    LaneWord{"ambient", prompt::Lane::background, true},
    LaneWord{"batch", prompt::Lane::batch, false},
};

ApiError wrong(std::string_view header, std::string_view value, std::string_view may_be) {
  return invalid_request("invalid_header",
                         fmt::format("{}: is \"{}\"; it must be {}", header, excerpt(value), may_be),
                         std::string(header));
}

}  // namespace

ApiResult<void> read_queue_headers(const Headers& headers, prompt::GenerateRequest& request) {
  if (const auto word = find_header(headers, kLane)) {
    const auto found = std::ranges::find(kLaneWords, *word, &LaneWord::word);
    if (found == kLaneWords.end())
      return std::unexpected(wrong(kLane, *word, "interactive, background, ambient or batch"));
    request.lane = found->lane;
    request.queue.ambient = found->ambient;
  }
  if (const auto text = find_header(headers, kTimeout)) {
    int seconds = 0;
    const char* end = text->data() + text->size();
    const auto [at, error] = std::from_chars(text->data(), end, seconds);
    if (error != std::errc() || at != end || seconds < 1 || seconds > kLongestQueueTimeoutS)
      return std::unexpected(wrong(
          kTimeout, *text, fmt::format("a whole number of seconds from 1 to {}", kLongestQueueTimeoutS)));
    request.queue.wait_limit = Millis(std::int64_t{seconds} * 1'000);
  }
  return {};
}

}  // namespace gezel::api
