# gezel_module(NAME [DEPS module...] [LIBS library...])
#
# Declares the module in src/NAME: a static library gezel_NAME of its *.cc files, one test program NAME_test of its *_test.cc
# files, one benchmark NAME_bench of its *_bench.cc files and one fuzz target per *_fuzz.cc. Files are found, not listed:
# adding one needs no edit here. DEPS are the modules it may include; the list in src/CMakeLists.txt is ordered by layer, so a
# module can only name modules above itself and there are no cycles.

# Boost and the standard library change rarely and are most of what the compiler reads. What is linked defines macros, and GCC
# takes a precompiled header only where those that the headers ask about are the same as when it was made.
file(WRITE "${CMAKE_BINARY_DIR}/pch.cc" "// Compiled once; every module reuses its precompiled header.\n")
add_library(gezel_pch OBJECT "${CMAKE_BINARY_DIR}/pch.cc")
target_link_libraries(gezel_pch PUBLIC Boost::headers Boost::json fmt::fmt Threads::Threads)
target_compile_definitions(gezel_pch PUBLIC BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_DISABLE_BOOST_COROUTINE SPDLOG_FMT_EXTERNAL)
target_include_directories(gezel_pch PUBLIC "${CMAKE_SOURCE_DIR}/src")
set(gezel_pch_headers
  <algorithm> <chrono> <cstdint> <expected> <filesystem> <functional> <map> <memory> <optional> <span> <string>
  <string_view> <unordered_map> <variant> <vector>
  <boost/asio/awaitable.hpp> <boost/asio/co_spawn.hpp> <boost/asio/detached.hpp> <boost/asio/io_context.hpp>
  <boost/asio/steady_timer.hpp> <boost/asio/use_awaitable.hpp> <boost/json.hpp> <fmt/format.h>)
target_precompile_headers(gezel_pch PUBLIC ${gezel_pch_headers})
# The same for tests, which read GoogleTest besides. They are not optimized: they compile in less than half the time, and
# nothing is measured in them.
add_library(gezel_test_pch OBJECT "${CMAKE_BINARY_DIR}/pch.cc")
target_link_libraries(gezel_test_pch PUBLIC Boost::headers Boost::json fmt::fmt Threads::Threads GTest::gmock)
target_compile_definitions(gezel_test_pch PUBLIC BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_DISABLE_BOOST_COROUTINE SPDLOG_FMT_EXTERNAL)
target_include_directories(gezel_test_pch PUBLIC "${CMAKE_SOURCE_DIR}/src")
target_compile_options(gezel_test_pch PRIVATE -O0)
target_precompile_headers(gezel_test_pch PUBLIC ${gezel_pch_headers} <gmock/gmock.h> <gtest/gtest.h>)

# What a precompiled header is made of. ccache takes this for its content, which has the clone's path in it: clones in
# different folders share their objects.
get_directory_property(gezel_compile_options COMPILE_OPTIONS)
list(TRANSFORM gezel_compile_options REPLACE "${CMAKE_SOURCE_DIR}" ".")
foreach(target gezel_pch gezel_test_pch)
  get_target_property(headers ${target} PRECOMPILE_HEADERS)
  get_target_property(libraries ${target} LINK_LIBRARIES)
  string(SHA256 sum "${headers};${libraries};${CMAKE_CXX_COMPILER_ID};${CMAKE_CXX_COMPILER_VERSION};${CMAKE_CXX_FLAGS_RELEASE};\
${gezel_compile_options};${Boost_VERSION};${fmt_VERSION};${GTest_VERSION}")
  file(WRITE "${CMAKE_BINARY_DIR}/CMakeFiles/${target}.dir/cmake_pch.hxx.pch.sum" "${sum}\n")
endforeach()

function(gezel_module name)
  cmake_parse_arguments(arg "" "" "DEPS;LIBS" ${ARGN})
  set(dir "${CMAKE_SOURCE_DIR}/src/${name}")
  file(GLOB sources CONFIGURE_DEPENDS "${dir}/*.cc")
  set(tests ${sources})
  set(benches ${sources})
  set(fuzzers ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_(test|bench|fuzz)\\.cc$")

  list(TRANSFORM arg_DEPS PREPEND gezel_ OUTPUT_VARIABLE deps)
  if(sources)
    add_library(gezel_${name} STATIC ${sources})
    target_link_libraries(gezel_${name} PUBLIC gezel_pch_flags ${deps} ${arg_LIBS})
    target_precompile_headers(gezel_${name} REUSE_FROM gezel_pch)
  else()
    add_library(gezel_${name} INTERFACE)
    target_link_libraries(gezel_${name} INTERFACE gezel_pch_flags ${deps} ${arg_LIBS})
  endif()

  if(tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE gezel_${name} GTest::gmock_main)
    target_compile_options(${name}_test PRIVATE -O0)
    target_precompile_headers(${name}_test REUSE_FROM gezel_test_pch)
    target_compile_definitions(${name}_test PRIVATE GEZEL_TESTDATA="${CMAKE_SOURCE_DIR}/testdata")
    add_test(NAME ${name} COMMAND ${name}_test)
    set_tests_properties(${name} PROPERTIES TIMEOUT 900)
  endif()
  if(benches)
    # Built when asked for: nothing runs them by itself.
    add_executable(${name}_bench EXCLUDE_FROM_ALL ${benches})
    target_link_libraries(${name}_bench PRIVATE gezel_${name} benchmark::benchmark_main)
    target_precompile_headers(${name}_bench REUSE_FROM gezel_pch)
  endif()
  if(GEZEL_FUZZERS)
    foreach(file IN LISTS fuzzers)
      get_filename_component(fuzzer "${file}" NAME_WE)
      add_executable(${fuzzer} "${file}")
      target_link_libraries(${fuzzer} PRIVATE gezel_${name} -fsanitize=fuzzer)
      target_precompile_headers(${fuzzer} REUSE_FROM gezel_pch)
    endforeach()
  endif()
endfunction()

# What gezel_pch compiles with, without its object file.
add_library(gezel_pch_flags INTERFACE)
target_link_libraries(gezel_pch_flags INTERFACE Boost::headers Boost::json fmt::fmt Threads::Threads)
target_compile_definitions(gezel_pch_flags INTERFACE
  BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_DISABLE_BOOST_COROUTINE SPDLOG_FMT_EXTERNAL)
target_include_directories(gezel_pch_flags INTERFACE "${CMAKE_SOURCE_DIR}/src")
