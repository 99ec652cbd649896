// The input is lines: stop strings, an empty line, the text. Whole and cut into pieces, the text must give
// the same.
#include <cstdlib>

#include "turn/stop_strings.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> stops;
  while (!input.empty() && stops.size() < 8) {
    const std::string_view line = input.substr(0, input.find('\n'));
    input.remove_prefix(std::min(line.size() + 1, input.size()));
    if (line.empty()) break;
    stops.emplace_back(line);
  }
  gezel::turn::StopStrings whole(stops), pieces(stops);
  auto expected = whole.feed(input);
  expected.text += whole.finish();

  std::string text;
  std::optional<int> matched;
  for (std::size_t at = 0; at < input.size();) {
    const std::size_t piece = 1 + static_cast<unsigned char>(input[at]) % 7;
    auto output = pieces.feed(input.substr(at, piece));
    text += output.text;
    matched = output.matched;
    at += piece;
  }
  text += pieces.finish();
  if (text != expected.text || matched != expected.matched || !input.starts_with(text)) std::abort();
  if (!matched && text != input) std::abort();
  if (matched && !input.substr(text.size()).starts_with(stops[static_cast<std::size_t>(*matched)]))
    std::abort();
  return 0;
}
