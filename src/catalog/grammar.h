// catalog/grammar.h
//
// The grammars of spec 60 section 1: what an id, a digest, a repository and a path inside a model may look
// like. Whatever reaches the file system or a URL is checked here first. Pure.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace gezel::catalog {

inline constexpr std::size_t kMaxCatalogIdLength = 64;
inline constexpr std::size_t kMaxPathLength = 1024;

// ^[a-z0-9][a-z0-9.\-:]{1,63}$
bool is_catalog_id(std::string_view id);
// ^[A-Za-z0-9@][A-Za-z0-9@._-]{0,199}$, and no device name of Windows before the first '.': any id that
// becomes a file name.
bool is_portable_id(std::string_view id);
// 64 hexadecimal digits, either case; stored in lower case.
bool is_sha256(std::string_view text);
std::string lowered(std::string_view text);
// "org/name" of [A-Za-z0-9_.-], neither "." nor "..".
bool is_repository(std::string_view text);
// A branch, tag or commit: 1 to 200 of [A-Za-z0-9_./-], no empty, "." or ".." segment.
bool is_revision(std::string_view text);
// A relative POSIX path of 1 to 1024 characters that stays where it is put: no backslash, control character,
// leading slash, or empty, "." or ".." segment.
bool is_contained_path(std::string_view path);
// "https://host..." with a host and no user, control character or blank; `http` also for plain http.
bool is_web_url(std::string_view url, bool http = false);

// The last segment of a path.
std::string base_name(std::string_view path);

}  // namespace gezel::catalog
