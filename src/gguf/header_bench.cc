// What reading a header takes: that of GEZEL_HEADER_FILE, from a file in the page cache, and from its
// beginning in memory as a range of the network brings it.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "gguf/metadata.h"

namespace gezel::gguf {
namespace {

std::string file_to_read() {
  const char* path = std::getenv("GEZEL_HEADER_FILE");
  return path != nullptr ? path : "";
}

void label(benchmark::State& state, std::string_view what, const Metadata& metadata) {
  state.SetLabel(fmt::format("{} with {} tokens, {}", what, metadata.vocabulary_tokens,
                             format_bytes(metadata.header_bytes)));
}

void BM_HeaderOfAFile(benchmark::State& state) {
  const std::string path = file_to_read();
  Result<Metadata> metadata;
  for (auto _ : state) metadata = read_metadata(std::filesystem::path(path));
  if (!metadata) return state.SkipWithError(metadata.error().message.c_str());
  label(state, "file", *metadata);
}
BENCHMARK(BM_HeaderOfAFile);

void BM_HeaderOfABeginning(benchmark::State& state) {
  std::ifstream file(file_to_read(), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  Result<Metadata> metadata;
  for (auto _ : state) {
    PrefixSource source(bytes, bytes.size());
    metadata = read_metadata(source, "beginning");
  }
  if (!metadata) return state.SkipWithError(metadata.error().message.c_str());
  label(state, "beginning", *metadata);
}
BENCHMARK(BM_HeaderOfABeginning);

}  // namespace
}  // namespace gezel::gguf
