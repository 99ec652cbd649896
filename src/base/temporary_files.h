// base/temporary_files.h
//
// The files that write_file_atomic() writes before they take their place, and what a crash leaves of them.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace gezel {

// Where the content of `path` is written first: a template of mkstemp(), beside it. The end is random: the
// number of a process is given out again, in containers always the same ones.
std::string temporary_template(const std::filesystem::path& path);
// Whether a file is called like that, also as earlier versions did.
bool is_temporary_name(std::string_view file_name);

// Removes those in `folder` that were last written before `before`: nobody writes at one for long.
void remove_old_temporaries(const std::filesystem::path& folder, std::filesystem::file_time_type before);

}  // namespace gezel
