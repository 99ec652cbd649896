# Third-party libraries (docs/dependencies.md has the reasons). Everything here is either a system package or was put into
# the cache by scripts/; nothing is downloaded while CMake runs.

find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED COMPONENTS json)
find_package(OpenSSL 3 REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)

if(GEZEL_SYSTEM_LLAMA)
  find_package(llama REQUIRED)
else()
  if(NOT GEZEL_LLAMA_PREFIX)
    message(FATAL_ERROR "GEZEL_LLAMA_PREFIX is not set; configure through `make build`, which builds libllama first")
  endif()
  find_package(llama REQUIRED PATHS "${GEZEL_LLAMA_PREFIX}" NO_DEFAULT_PATH)
endif()
# Its OpenMP is needed for linking only: compiled with -fopenmp, our files could not share the precompiled header.
foreach(target OpenMP::OpenMP_C OpenMP::OpenMP_CXX)
  if(TARGET ${target})
    set_target_properties(${target} PROPERTIES INTERFACE_COMPILE_OPTIONS "")
  endif()
endforeach()

if(NOT EXISTS "${GEZEL_BRIDGE_LIBRARY}")
  message(FATAL_ERROR "GEZEL_BRIDGE_LIBRARY is not set; configure through `make build`, which builds the Rust bridge first")
endif()
get_filename_component(GEZEL_BRIDGE_FOLDER "${GEZEL_BRIDGE_LIBRARY}" DIRECTORY)  # llguidance.h lies beside the library
add_library(gezel_bridge STATIC IMPORTED)
set_target_properties(gezel_bridge PROPERTIES
  IMPORTED_LOCATION "${GEZEL_BRIDGE_LIBRARY}"
  INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_SOURCE_DIR}/bridge/include;${GEZEL_BRIDGE_FOLDER}"
  INTERFACE_LINK_LIBRARIES "Threads::Threads;m;dl")
