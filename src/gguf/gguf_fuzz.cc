// Any bytes give metadata or an error, within the limits.
#include <cstdlib>
#include <string_view>

#include "gguf/metadata.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using namespace gezel::gguf;
  MemorySource source({reinterpret_cast<const char*>(data), size});
  const auto metadata = read_metadata(source, "fuzz.gguf");
  if (metadata) {
    // What later stages rely on.
    for (const Tensor& tensor : metadata->tensors) {
      if (tensor.offset > size || tensor.bytes > size - tensor.offset) std::abort();
    }
    if (metadata->file_size_bytes != size) std::abort();
  } else if (metadata.error().code != "model-invalid" || metadata.error().message.empty()) {
    std::abort();
  }
  return 0;
}
