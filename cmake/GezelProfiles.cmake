# The files of profiles/ as one source file: cmake -DFILES=a.json,b.json -DOUTPUT=... -P GezelProfiles.cmake
#
# They are built into the program, so that nothing has to be installed beside it and a worker needs no access to
# them. A raw string of C++ takes any JSON as it is; its delimiter stands in no profile.

string(REPLACE "," ";" files "${FILES}")
list(SORT files)
set(text "// Made by cmake/GezelProfiles.cmake from profiles/*.json.\n#include \"profiles/profile.h\"\n\n")
string(APPEND text "namespace gezel::profiles {\n\nstd::span<const File> shipped_files() {\n")
string(APPEND text "  static const File files[] = {\n")
foreach(file IN LISTS files)
  get_filename_component(name "${file}" NAME)
  file(READ "${file}" content)
  string(APPEND text "      {\"${name}\", R\"gezel-profile(${content})gezel-profile\"},\n")
endforeach()
string(APPEND text "  };\n  return files;\n}\n\n}  // namespace gezel::profiles\n")
file(WRITE "${OUTPUT}" "${text}")
