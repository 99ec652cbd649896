// template/renderer.h
//
// One compiled Jinja template: the bridge's C API with C++ ownership and types.
#pragma once
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "gezel_bridge.h"

namespace gezel::chat {

struct RenderError {
  gezel_template_error_kind kind = GEZEL_TEMPLATE_RUNTIME;
  std::uint32_t line = 0;  // of the template's source, 0 when unknown
  std::string message;
};

// "line 12: undefined value: ..."
std::string describe(const RenderError& error);

class Renderer {
 public:
  static std::expected<Renderer, RenderError> compile(std::string_view source);
  static std::expected<Renderer, RenderError> compile(std::string_view source,
                                                      const gezel_template_limits& limits);

  // `call` is called before each rendering from now on, on the rendering thread.
  void before_each(std::function<void()> call) { before_each_ = std::move(call); }

  // `context`: JSON object text, the template's variables. `local_seconds`: what strftime_now() sees
  // (gezel_bridge.h).
  std::expected<std::string, RenderError> render(std::string_view context, std::int64_t local_seconds) const;

 private:
  struct Free {
    void operator()(gezel_template* handle) const { gezel_template_free(handle); }
  };
  explicit Renderer(gezel_template* handle) : handle_(handle) {}
  std::unique_ptr<gezel_template, Free> handle_;
  std::function<void()> before_each_;
};

}  // namespace gezel::chat
