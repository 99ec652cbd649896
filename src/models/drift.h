// models/drift.h
//
// Does the catalog have another build of an installed model? (spec 60 section 14). A newer version number is
// only a reason to look; the files decide. Pure: what is installed is passed in, sizes are read by the
// caller.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "catalog/backend.h"

namespace gezel::models {

struct PayloadFile {
  std::string name;  // on disk
  std::string sha256;
  Bytes size_bytes = 0;
  bool optional = false;     // may be absent: a projector
  bool transformed = false;  // is rewritten on install, so only its presence counts
};

struct Payload {
  std::string repository;
  std::vector<PayloadFile> files;
  std::string chat_template;
};
// What an install of the version for that backend consists of; nothing without a usable source.
std::optional<Payload> payload_of(const catalog::Version& version, catalog::Backend backend);

// What is known of an installed copy.
struct InstalledPayload {
  std::string catalog_version, repository, fingerprint;  // as recorded; "" when not
  std::map<std::string, std::string> sha256;             // recorded digest by file name
  std::map<std::string, Bytes> sizes;                    // of the files on disk now
};

// Revision and sizes do not count; an optional file counts only when this install has it.
std::string fingerprint_of(const Payload& payload, const InstalledPayload& installed);

struct Drift {
  enum class Verdict { same, changed, unknown };
  Verdict verdict = Verdict::same;
  bool update_available = false;
  std::string available_version, reason;  // one sentence for people
  // The files were proven to be those of the catalog: record this, so that the next look is cheap. ""
  // otherwise.
  std::string record_fingerprint;
};
Drift find_drift(const InstalledPayload& installed, const catalog::Version& latest, catalog::Backend backend);

}  // namespace gezel::models
