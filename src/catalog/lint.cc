#include "catalog/lint.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "catalog/grammar.h"
#include "catalog/license.h"

namespace gezel::catalog {
namespace {

// The bits a quantization tag stands for; 0 when it does not say. The first digit of "Q4_K_M", "IQ2_XXS",
// "UD-Q4_K_XL", "4bit", "nvfp4", "MXFP4-Q4"; "bf16" and "fp16" are 16.
int bits_of(std::string_view tag) {
  const std::string text = lowered(tag);
  if (text.find("16") != std::string::npos) return 16;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] < '1' || text[i] > '9') continue;
    const bool after = i > 0 && (text[i - 1] == 'q' || text[i - 1] == 'p');
    if (after || text.substr(i + 1).starts_with("bit")) return text[i] - '0';
  }
  return 0;
}

bool is_qat(const std::string& repository, const std::vector<PinnedFile>& files) {
  const auto says = [](std::string_view text) { return lowered(text).find("qat") != std::string::npos; };
  return says(repository) ||
         std::ranges::any_of(files, [&](const PinnedFile& file) { return says(file.name); });
}

class Lint {
 public:
  std::vector<Finding> run(std::span<const ItemPtr> items) {
    for (const auto& item : items) {
      item_ = item.get();
      names();
      license();
      if (item_->chat) chat();
      for (const auto& version : item_->versions) sources(version);
    }
    return std::move(out_);
  }

 private:
  void find(std::string rule, std::string message) {
    out_.push_back({item_->id, std::move(rule), fmt::format("{}: {}", item_->id, message)});
  }

  void names() {
    if (item_->id.starts_with("local-"))
      find("reserved-id", "ids that start with local- are those of local files");
    std::vector<std::string> all = item_->aliases;
    all.push_back(item_->id);
    for (const auto& name : all) {
      const auto [at, fresh] = names_.emplace(name, item_->id);
      if (!fresh) find("duplicate-name", fmt::format("\"{}\" already means {}", name, at->second));
    }
  }

  void license() {
    const std::string name = lowered(item_->license);
    const bool openmdw = name.starts_with("openmdw");
    if (openmdw && item_->license_class != LicenseClass::open)
      find("license-class", "OpenMDW is an open licence");
    if (item_->image) {
      const auto allowed = commercial_use(item_->license_class);
      if (allowed && *allowed != item_->image->commercial_use)
        find("license-commercial",
             fmt::format("commercialUse is {}, licenseClass is {}", item_->image->commercial_use,
                         to_string(item_->license_class)));
    }
  }

  void chat() {
    const auto& tuning = item_->chat->tuning;
    if (!tuning || !tuning->turn.sampling) find("no-sampling", "tuning.sampling is missing");
    const std::string& format = item_->chat->reasoning_format;
    if (format != "think" && format != "channel") return;
    const auto* reasoning = tuning && tuning->turn.reasoning ? &*tuning->turn.reasoning : nullptr;
    const bool bounded =
        reasoning != nullptr &&
        (reasoning->thinking_budget || !reasoning->effort.empty() ||
         reasoning->template_arguments.contains("reasoning_strength") || reasoning->enable_thinking == false);
    if (!bounded) find("unbounded-reasoning", "tuning.reasoning has nothing that ends the reasoning");
  }

  void sum(const GgufSource& source, std::string_view block) {
    if (source.files.size() < 2) return;
    Bytes total = 0;
    for (const auto& file : source.files) total += file.size_bytes;
    if (total != source.size_bytes)
      find("shard-sum", fmt::format("the shards of {} have {} bytes, approxSizeBytes is {}", block, total,
                                    source.size_bytes));
  }

  void sources(const Version& version) {
    if (version.llama_cpp) sum(*version.llama_cpp, "llamaCpp");
    if (version.ds4) {
      sum(version.ds4->gguf, "ds4");
      if (!version.ds4->gguf.resident_bytes)
        find("ds4-resident", "ds4.residentBytes is missing; the file size says nothing about it");
    }
    if (!version.llama_cpp || !version.mlx) return;
    const int gguf = bits_of(version.llama_cpp->quantization), mlx = bits_of(version.mlx->quantization);
    if (gguf != 0 && mlx != 0 && gguf != mlx)
      find("bit-width", fmt::format("llamaCpp has {} bits, mlx has {}", gguf, mlx));
    const bool gguf_qat = is_qat(version.llama_cpp->repository, version.llama_cpp->files);
    const bool mlx_qat = is_qat(version.mlx->repository, version.mlx->files);
    if (gguf_qat != mlx_qat && gguf != 0 && gguf <= 5)
      find("qat", fmt::format("{} is trained for its quantization, {} is not", gguf_qat ? "llamaCpp" : "mlx",
                              gguf_qat ? "mlx" : "llamaCpp"));
  }

  const Item* item_ = nullptr;
  std::map<std::string, std::string> names_;
  std::vector<Finding> out_;
};

}  // namespace

std::vector<Finding> lint(std::span<const ItemPtr> items) {
  return Lint().run(items);
}

}  // namespace gezel::catalog
