// models/publish.h
//
// From staging to installed in one step (spec 60 section 11, points 7 and 8). A model's folder is built
// completely under
// `.incoming`, then renamed into place; a crash at any moment leaves the old model, the new one, or something
// that recover_publishes() turns into the old one.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/ids.h"
#include "base/result.h"

namespace gezel::models {

// A folder `<root>/.incoming/.import-<id>` being filled. Removed with all it holds unless it was published.
// The leading dot keeps it apart from the resumable downloads that live in `.incoming` under plain ids.
class Staging {
 public:
  static Result<Staging> create(const fs::path& home, const fs::path& root, const std::string& id);
  Staging(Staging&& other) noexcept;
  Staging& operator=(Staging&&) = delete;
  ~Staging();

  const fs::path& folder() const { return folder_; }
  // Renames the folder to `<root>/<id>`, through a backup of what was there. On failure the old model is back
  // in place.
  Result<> publish(Entropy& entropy);

 private:
  Staging() = default;
  fs::path home_, root_, folder_;
  std::string id_;
};

// The same for a folder anywhere below `root` that is complete, manifest and all: through a backup of what
// was there, so that a crash between the two renames costs nothing. `at_step` is told "backup", "published",
// "synced" and "cleaned".
Result<> publish_folder(const fs::path& home, const fs::path& root, const fs::path& folder,
                        const std::string& id, Entropy& entropy,
                        const std::function<void(std::string_view)>& at_step = {});

// What a deletion set aside: ".<id>.deleted-<uuid>". Removed after a crash like superseded backups.
inline constexpr std::string_view kDeletedMark = ".deleted-";

// After a crash: brings back what a publish had set aside, removes backups that were superseded and staging
// folders of imports that are not in `active`. Never touches downloads. Errors of one folder do not stop the
// others.
void recover_publishes(const fs::path& home, const fs::path& root, const std::vector<std::string>& active);

}  // namespace gezel::models
