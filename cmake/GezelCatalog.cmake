# The files of catalog/ as one source file: cmake -DFILES=a.json,b.json -DOUTPUT=... -P GezelCatalog.cmake
#
# They are the catalog that is always there: built into the program, nothing has to be installed beside it. A raw
# string of C++ takes any JSON as it is; its delimiter stands in no catalog. Compilers only promise literals of
# 64 KiB but take far longer ones, hence the pragma.

string(REPLACE "," ";" files "${FILES}")
list(SORT files)
set(text "// Made by cmake/GezelCatalog.cmake from catalog/*.json.\n#include \"catalog/bundled.h\"\n\n")
string(APPEND text "#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n\n")
string(APPEND text "namespace gezel::catalog {\n\nstd::span<const BundledFile> bundled_files() {\n")
string(APPEND text "  static constexpr BundledFile files[] = {\n")
foreach(file IN LISTS files)
  get_filename_component(name "${file}" NAME)
  file(READ "${file}" content)
  string(APPEND text "      {\"${name}\", R\"gezel-catalog(${content})gezel-catalog\"},\n")
endforeach()
string(APPEND text "  };\n  return files;\n}\n\n}  // namespace gezel::catalog\n")
file(WRITE "${OUTPUT}" "${text}")
