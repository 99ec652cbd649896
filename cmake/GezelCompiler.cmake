# Compiler settings of the whole project: C++23, warnings, lld, ccache, sanitizers, one precompiled header for Boost.

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# Programs are compiled like libraries, so that both can use the one precompiled header.
set(CMAKE_CXX_COMPILE_OPTIONS_PIE -fPIC)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# Line tables make crash reports readable and cost little; full debug information would triple the link time.
# Under sanitizers the time to compile is most of the time of a run; optimizing more than doubles it.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
set(CMAKE_C_FLAGS_RELEASE "-O2 -g1")
if(GEZEL_SANITIZE)
  set(CMAKE_CXX_FLAGS_RELEASE "-O0 -g1")
endif()

add_compile_definitions(GEZEL_VERSION="${PROJECT_VERSION}")
add_compile_options(-Wall -Wextra -Wpedantic -Wno-missing-field-initializers
                    "-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.")
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_compile_options(-Wshadow -Wno-missing-designated-field-initializers)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 15)
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
  endif()
  # As for GCC: the compiler finds the precompiled header beside the header. CMake's own options for clang name the header in a
  # form that ccache does not make relative, so that no object would ever be shared between clones.
  set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -include <PCH_HEADER>)
  find_program(GEZEL_LLD NAMES ld.lld-19 ld.lld)
  if(GEZEL_LLD)
    add_link_options("--ld-path=${GEZEL_LLD}")
  endif()
else()
  # GCC 12 warns about coroutine frames and Boost internals that are correct.
  add_compile_options(-Wno-maybe-uninitialized -Wno-mismatched-new-delete -Wno-dangling-pointer)
endif()

if(GEZEL_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(GEZEL_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(GEZEL_SANITIZE)
  message(FATAL_ERROR "GEZEL_SANITIZE is '${GEZEL_SANITIZE}'; it may be address, thread or empty")
endif()
if(GEZEL_FUZZERS)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_program(GEZEL_CCACHE ccache)
if(GEZEL_CCACHE)
  # Clones in different folders share their objects: paths are made relative and the folder is not part of the key. What the
  # precompiled header has in it is described by GezelModule.cmake.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_PCH_EXTSUM=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${GEZEL_CCACHE})
endif()
