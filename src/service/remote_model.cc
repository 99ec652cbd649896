#include "service/remote_model.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "models/hub.h"
#include "models/url_source.h"

namespace gezel::service {
namespace {

constexpr auto kSources = std::to_array<std::string_view>({"installed", "header", "catalog"});

Bytes weight_bytes(const models::InstallPlan& plan, Bytes first_file_bytes) {
  Bytes out = 0;
  bool first = true;
  for (const auto* file : models::weight_files(plan)) {
    out += first && file->size_bytes == 0 ? first_file_bytes : file->size_bytes;
    first = false;
  }
  return out;
}

}  // namespace

std::string_view facts_source_name(FactsSource source) {
  return kSources[static_cast<std::size_t>(source)];
}

bool is_network_name(std::string_view text) {
  return models::is_hub_id(text) || models::is_url(text);
}

capacity::ModelFacts facts_of_header(const models::InstallPlan& plan, const gguf::Metadata& metadata,
                                     Bytes first_file_bytes) {
  auto out = capacity::model_facts(metadata);
  out.id = plan.id;
  out.weights = weight_bytes(plan, first_file_bytes);
  // Of the first file only, where there are more.
  if (metadata.split_count > 1) out.tensors.reset();
  return out;
}

capacity::ModelFacts facts_of_catalog(const models::InstallPlan& plan, const catalog::Resolved& item) {
  capacity::ModelFacts out;
  out.id = plan.id;
  if (const Bytes bytes = weight_bytes(plan, 0); bytes > 0) out.weights = bytes;
  if (plan.context_window > 0) out.native = plan.context_window;
  const auto& source = item.version->llama_cpp;
  if (source && source->resident_bytes) out.resident = source->resident_bytes;
  out.moe = std::ranges::any_of(item.item->tags, [](const std::string& tag) {
    return tag == "moe" || tag.find("expert") != std::string::npos;
  });
  const auto& chat = item.item->chat;
  if (chat && chat->kv_bytes_per_token_f16) {
    // Two bytes an element; what does not grow with the window is taken as it is.
    capacity::KvGeometry geometry;
    geometry.global_elements = static_cast<std::uint64_t>(std::ceil(*chat->kv_bytes_per_token_f16 / 2));
    geometry.recurrent_bytes = static_cast<Bytes>(std::ceil(chat->kv_fixed_bytes_f16));
    out.geometry = geometry;
  }
  return out;
}

const HeaderCache::Entry* HeaderCache::find(const models::PlannedFile& file) {
  const auto found = std::ranges::find_if(entries_, [&](const Entry& entry) {
    return entry.url == file.urls.front() && entry.size_bytes == file.size_bytes &&
           entry.sha256 == file.sha256;
  });
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return &entries_.front();
}

const HeaderCache::Entry& HeaderCache::put(const models::PlannedFile& file, models::RemoteHeader header) {
  if (find(file) != nullptr) entries_.pop_front();
  entries_.push_front({.url = file.urls.front(),
                       .sha256 = file.sha256,
                       .size_bytes = file.size_bytes,
                       .metadata = std::make_shared<const gguf::Metadata>(std::move(header.metadata)),
                       .file_bytes = header.file_bytes,
                       .etag = header.etag.size() <= kMostEtagBytes ? header.etag : std::string()});
  if (entries_.size() > kRemembered) entries_.pop_back();
  return entries_.front();
}

}  // namespace gezel::service
