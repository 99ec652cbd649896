#include "sampling/history.h"

namespace gezel::sampling {

void TokenWindow::push(std::int32_t token) {
  if (window_ == 0) return;
  if (tokens_.size() >= 2 * window_) {
    tokens_.erase(tokens_.begin(), tokens_.end() - static_cast<std::ptrdiff_t>(window_));
  }
  tokens_.push_back(token);
}

void TokenCounts::push(std::int32_t token) {
  if (window_ == 0) return;
  if (const auto before = recent_.tokens(); before.size() == window_) {
    const auto oldest = counts_.find(before.front());
    if (--oldest->second == 0) counts_.erase(oldest);
  }
  recent_.push(token);
  ++counts_[token];
}

}  // namespace gezel::sampling
