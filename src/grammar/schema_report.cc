#include <fmt/format.h>

#include "grammar/schema_parts.h"

namespace gezel::grammar {

namespace {

std::string where(std::string_view pointer) {
  return "#" + std::string(pointer.substr(0, 400));
}

}  // namespace

void SchemaReport::warn(std::string_view pointer, std::string_view what) {
  if (warnings_.size() < limits_.warnings)
    warnings_.push_back(fmt::format("{}: {}", where(pointer), what));
  else
    ++left_out_;
}

Result<> SchemaReport::problem(const char* code, std::string_view pointer, std::string_view keyword,
                               std::string_view why) {
  if (lenient()) {
    warn(pointer, fmt::format("not enforced: {}", why));
    return {};
  }
  const auto subject = keyword.empty() ? std::string("The schema") : fmt::format("Keyword '{}'", keyword);
  return fail(
      ErrorKind::invalid, code,
      fmt::format("{} at {} {}: {}.", subject, where(pointer),
                  std::string_view(code) == "schema-invalid" ? "is not valid" : "cannot be enforced", why),
      std::string(pointer));
}

Result<> SchemaReport::unsupported(std::string_view pointer, std::string_view keyword, std::string_view why) {
  return problem("schema-unsupported", pointer, keyword, why);
}

Result<> SchemaReport::invalid(std::string_view pointer, std::string_view keyword, std::string_view why) {
  return problem("schema-invalid", pointer, keyword, why);
}

std::vector<std::string> SchemaReport::take_warnings() {
  if (left_out_ > 0) warnings_.push_back(fmt::format("and {} more", left_out_));
  left_out_ = 0;
  return std::move(warnings_);
}

}  // namespace gezel::grammar
