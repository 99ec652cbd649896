#include "template/renderer.h"

#include <fmt/format.h>

namespace gezel::chat {
namespace {

std::string take(gezel_text& text) {
  std::string out = text.data == nullptr ? std::string() : std::string(text.data, text.size);
  gezel_text_free(&text);
  return out;
}

RenderError take(gezel_template_error& error) {
  return {static_cast<gezel_template_error_kind>(error.kind), error.line, take(error.message)};
}

}  // namespace

std::string describe(const RenderError& error) {
  return error.line == 0 ? error.message : fmt::format("line {}: {}", error.line, error.message);
}

std::expected<Renderer, RenderError> Renderer::compile(std::string_view source) {
  return compile(source, gezel_template_default_limits());
}

std::expected<Renderer, RenderError> Renderer::compile(std::string_view source,
                                                       const gezel_template_limits& limits) {
  gezel_template_error error{};
  gezel_template* handle = gezel_template_compile(source.data(), source.size(), &limits, &error);
  if (handle == nullptr) return std::unexpected(take(error));
  return Renderer(handle);
}

std::expected<std::string, RenderError> Renderer::render(std::string_view context,
                                                         std::int64_t local_seconds) const {
  if (before_each_) before_each_();
  gezel_template_error error{};
  gezel_text out{};
  if (!gezel_template_render(handle_.get(), context.data(), context.size(), local_seconds, &out, &error)) {
    return std::unexpected(take(error));
  }
  return take(out);
}

}  // namespace gezel::chat
