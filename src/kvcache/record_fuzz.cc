// Any bytes are a record's header or not; what is one has parts inside the limits it states, and a damaged
// copy is refused.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "kvcache/record.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gezel::kvcache;
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(data[i]);
  // The checksum would keep every mutation out: it is made right first.
  if (size >= kRecordStart) {
    const auto length = static_cast<std::uint32_t>(size);
    for (int i = 0; i < 4; ++i) bytes[8 + i] = static_cast<std::byte>(length >> (8 * i));
    for (int i = 0; i < 4; ++i) bytes[12 + i] = std::byte{0};
    const std::uint32_t crc = crc32c(bytes);
    for (int i = 0; i < 4; ++i) bytes[12 + i] = static_cast<std::byte>(crc >> (8 * i));
  }
  const auto header = parse_record_header(bytes);
  if (!header) return 0;
  if (header->keys.size() != header->end - header->start || header->parts.empty()) std::abort();
  if (header->file_bytes() < bytes.size()) std::abort();
  ImageLayout layout;
  layout.rows.keys = {{.type = 1, .row_bytes = 8}};
  layout.window = layout.rows;
  for (std::size_t i = 0; i < header->parts.size(); ++i) {
    if (header->parts[i].bytes > 1 << 20) continue;
    const gezel::Buffer payload(header->parts[i].bytes);
    (void)decode_part(*header, i, layout.rows, payload);
    (void)decode_checkpoint(*header, layout, payload);
  }
  const auto change = change_pin(bytes, !header->pinned);
  if (!change) std::abort();
  auto changed = bytes;
  std::copy(change->bytes.begin(), change->bytes.end(),
            changed.begin() + static_cast<std::ptrdiff_t>(change->offset));
  const auto after = parse_record_header(changed);
  if (!after || after->pinned == header->pinned || after->own != header->own) std::abort();
  bytes.back() ^= std::byte{1};
  if (parse_record_header(bytes)) std::abort();
  return 0;
}
