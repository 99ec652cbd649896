// models/publish.h
//
// From staging to installed in one step (spec 60 section 11, points 7 and 8). A model's folder is built
// completely under `.incoming`, then renamed into place; a crash at any moment leaves the old model, the new
// one, or something that recover_publishes() turns into the old one.
//
// Nothing here but the end of an unpublished Staging unlinks files, which takes a while where they are large:
// what is to go is renamed aside, and whoever holds a lock removes it once it has let go.
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
  // in place. Returns as publish_folder().
  Result<fs::path> publish(Entropy& entropy);

 private:
  Staging() = default;
  fs::path home_, root_, folder_;
  std::string id_;
};

// The same for a folder anywhere below `root` that is complete, manifest and all: through a backup of what
// was there, so that a crash between the two renames costs nothing. `at_step` is told "backup", "published",
// "synced" and "set aside". Returns where the old copy is set aside for removal; "" = there is none.
Result<fs::path> publish_folder(const fs::path& home, const fs::path& root, const fs::path& folder,
                                const std::string& id, Entropy& entropy,
                                const std::function<void(std::string_view)>& at_step = {});

// Renames a folder to <root>/.<id>.deleted-<uuid>: it is then nobody's, and removed after a crash.
Result<fs::path> set_aside(const fs::path& root, const fs::path& folder, const std::string& id,
                           Entropy& entropy);

// Never follows a link: what is removed is the entry itself. A failure is logged.
void remove_quietly(const fs::path& path);

// After a crash: brings back what a publish had set aside. Returns what is to be removed: what deletions and
// publishes had set aside, superseded backups, and staging folders of imports that are not in `active`. Never
// touches downloads. Errors of one folder do not stop the others.
std::vector<fs::path> recover_publishes(const fs::path& home, const fs::path& root,
                                        const std::vector<std::string>& active, Entropy& entropy);

}  // namespace gezel::models
