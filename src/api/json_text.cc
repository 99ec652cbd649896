#include "api/json_text.h"

#include <fmt/format.h>

#include <cmath>

namespace gezel::api {

void append_json_number(std::string& out, double number) {
  if (!std::isfinite(number)) number = 0;
  std::string text = fmt::format("{:.3f}", number);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  out += text == "-0" ? "0" : text;
}

}  // namespace gezel::api
