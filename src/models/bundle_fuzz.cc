// Archives that people send each other. Whatever they hold: no crash, no read outside, and what is accepted
// has a plan whose names may reach the disk and content that has its digests.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "models/bundle.h"

namespace {

class Memory final : public gezel::models::zip::Source {
 public:
  Memory(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  gezel::Bytes size() const override { return size_; }
  gezel::Result<> read(gezel::Bytes offset, char* out, std::size_t count) const override {
    if (offset > size_ || size_ - offset < count) std::abort();
    std::memcpy(out, data_ + offset, count);
    return {};
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gezel;
  using namespace gezel::models;
  const Memory source(data, size);
  if (const auto index = zip::read_index(source)) {
    for (const auto& entry : *index) {
      const auto text = zip::unpack_text(source, entry, kMiB);
      if (text && text->size() != entry.size) std::abort();
    }
  }
  const auto bundle = open_bundle(source);
  if (!bundle || !verify_bundle(source, *bundle)) return 0;
  const auto plan = plan_bundle(*bundle);
  if (plan && !check_plan(*plan)) std::abort();
  return 0;
}
