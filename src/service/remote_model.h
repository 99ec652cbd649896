// service/remote_model.h
//
// A model that is not installed, as a plan of its memory needs it: from the header of its file, or from what
// the catalog says of it. Pure.
#pragma once
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "capacity/launch.h"
#include "catalog/resolve.h"
#include "models/plan.h"
#include "models/remote_header.h"
#include "service/model_name.h"

namespace gezel::service {

enum class FactsSource { installed, header, catalog };
std::string_view facts_source_name(FactsSource source);

struct RemoteModel {
  std::optional<ModelName> installed;  // it is here after all, and nothing else is set
  std::string name;                    // a qualified id, or the reference that was asked for
  capacity::ModelFacts facts;
  FactsSource source = FactsSource::header;
  Bytes download_bytes = 0;  // all files of an install; 0: unknown
  Bytes read_bytes = 0;      // of the header, over the network, for this question
  std::string note;          // why it is the catalog that was asked
};

// "hf:..." or an address: something of the network that is no name of ours.
bool is_network_name(std::string_view text);

// `first_file_bytes`: of the first file, for a plan that does not know.
capacity::ModelFacts facts_of_header(const models::InstallPlan& plan, const gguf::Metadata& metadata,
                                     Bytes first_file_bytes);
// Its size and, where the catalog has it, what its KV cache costs for a token.
capacity::ModelFacts facts_of_catalog(const models::InstallPlan& plan, const catalog::Resolved& item);

// Headers that were read, the most recently used first. A file with a pinned digest cannot change under its
// address; of others the host is asked whether they did.
class HeaderCache {
 public:
  static constexpr std::size_t kRemembered = 32;
  static constexpr std::size_t kMostEtagBytes = 256;  // longer ones are not kept

  struct Entry {
    std::string url, sha256;
    Bytes size_bytes = 0;  // as planned
    std::shared_ptr<const gguf::Metadata> metadata;
    Bytes file_bytes = 0;
    std::string etag;
    bool pinned() const { return !sha256.empty(); }
  };

  // By address, size and digest. Valid until the next call.
  const Entry* find(const models::PlannedFile& file);
  const Entry& put(const models::PlannedFile& file, models::RemoteHeader header);

 private:
  std::list<Entry> entries_;
};

}  // namespace gezel::service
