#include "gguf/file_type.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace gezel::gguf {
namespace {

struct FileType {
  std::uint64_t number;
  std::string_view label;
};

// Numbers that are missing here (4-6, 33-35) were withdrawn from the format.
constexpr auto kFileTypes = std::to_array<FileType>({
    {0, "F32"},     {1, "F16"},     {2, "Q4_0"},       {3, "Q4_1"},    {7, "Q8_0"},     {8, "Q5_0"},
    {9, "Q5_1"},    {10, "Q2_K"},   {11, "Q3_K_S"},    {12, "Q3_K_M"}, {13, "Q3_K_L"},  {14, "Q4_K_S"},
    {15, "Q4_K_M"}, {16, "Q5_K_S"}, {17, "Q5_K_M"},    {18, "Q6_K"},   {19, "IQ2_XXS"}, {20, "IQ2_XS"},
    {21, "Q2_K_S"}, {22, "IQ3_XS"}, {23, "IQ3_XXS"},   {24, "IQ1_S"},  {25, "IQ4_NL"},  {26, "IQ3_S"},
    {27, "IQ3_M"},  {28, "IQ2_S"},  {29, "IQ2_M"},     {30, "IQ4_XS"}, {31, "IQ1_M"},   {32, "BF16"},
    {36, "TQ1_0"},  {37, "TQ2_0"},  {38, "MXFP4_MOE"}, {39, "NVFP4"},  {40, "Q1_0"},    {41, "Q2_0"},
});

}  // namespace

std::string quantization_label(std::uint64_t file_type) {
  for (const FileType& type : kFileTypes) {
    if (type.number == file_type) return std::string(type.label);
  }
  return {};
}

std::string file_type_name(std::uint64_t file_type) {
  const std::string label = quantization_label(file_type);
  if (label.empty()) return fmt::format("UNKNOWN_{}", file_type);
  return (file_type == 0 ? "ALL_" : "MOSTLY_") + label;
}

}  // namespace gezel::gguf
