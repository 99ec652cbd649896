// base/public_text.h
//
// What a message for local people may say and one for network clients may not.
#pragma once
#include <string>
#include <string_view>

namespace gezel {

// `text` without the folders of absolute paths ("/a/b/c.gguf" becomes "c.gguf"); our own routes stay.
std::string without_folders(std::string_view text);

}  // namespace gezel
