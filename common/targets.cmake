# One library per folder: cohort_library(NAME base DEPS absl::status) takes every .cc of the folder but main.cc.
# A dependency is PUBLIC because this project's headers show the types of the rooms below them.

add_library(cohort_options INTERFACE)
target_include_directories(cohort_options INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
# Loops vectorise only if square roots need not set errno and comparisons may be computed for elements that are not used.
target_compile_options(cohort_options INTERFACE -Wall -Wextra -Wno-unused-parameter -Wnon-virtual-dtor -Woverloaded-virtual
  -ftree-vectorize -fno-math-errno -fno-trapping-math $<$<CXX_COMPILER_ID:GNU>:-fvect-cost-model=dynamic>)
if(COHORT_WERROR)
  target_compile_options(cohort_options INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_compile_options(cohort_options INTERFACE -Wthread-safety -Werror=thread-safety
    -Wno-unused-private-field)
endif()
if(COHORT_SANITIZE)
  target_compile_options(cohort_options INTERFACE -fsanitize=${COHORT_SANITIZE}
    -fno-omit-frame-pointer -fno-sanitize-recover=all)
  # GCC warns of what its own instrumentation seems to leave uninitialised, as in std::regex. The dev preset has the warning.
  target_compile_options(cohort_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(cohort_options INTERFACE -fsanitize=${COHORT_SANITIZE})
  target_compile_definitions(cohort_options INTERFACE COHORT_SANITIZED=1)
endif()
target_link_libraries(cohort_options INTERFACE Threads::Threads)

# The library headers that most rooms include, read once (docs/DECISIONS.md). None of our own, so that it stays as it is
# while the code changes; every file still includes what it uses, and builds without this. -fpch-preprocess lets ccache see
# them; -pthread, because some libraries ask for it and precompiled headers serve only who was given the same options.
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  target_compile_options(cohort_options INTERFACE -fpch-preprocess -pthread)
  file(WRITE ${CMAKE_BINARY_DIR}/library_headers.cc "")
  add_library(cohort_library_headers OBJECT ${CMAKE_BINARY_DIR}/library_headers.cc)
  target_link_libraries(cohort_library_headers PRIVATE cohort_options absl::statusor absl::any_invocable
    absl::strings absl::time protobuf::libprotobuf)
  target_precompile_headers(cohort_library_headers PRIVATE
    <algorithm> <array> <chrono> <cmath> <cstring> <deque> <functional> <limits> <map> <memory> <optional> <set>
    <string> <utility> <variant> <vector>
    <absl/functional/any_invocable.h> <absl/functional/function_ref.h> <absl/status/statusor.h>
    <absl/strings/match.h> <absl/strings/str_cat.h> <absl/strings/str_join.h> <absl/time/time.h> <absl/types/span.h>
    <google/protobuf/descriptor.h> <google/protobuf/extension_set.h> <google/protobuf/generated_enum_reflection.h>
    <google/protobuf/map.h> <google/protobuf/map_entry.h> <google/protobuf/map_field_inl.h>
    <google/protobuf/message.h> <google/protobuf/repeated_field.h> <google/protobuf/unknown_field_set.h>)
endif()

function(cohort_precompiled target)
  if(TARGET cohort_library_headers)
    target_precompile_headers(${target} REUSE_FROM cohort_library_headers)
  endif()
endfunction()

# Test code is compiled for a fast build (docs/DECISIONS.md): -O1 also in the release preset, and with the headers that
# tests/CMakeLists.txt lists.
add_library(cohort_test_options INTERFACE)
target_link_libraries(cohort_test_options INTERFACE cohort_options GTest::gmock)
target_compile_options(cohort_test_options INTERFACE $<$<CONFIG:Release>:-O1>)

function(cohort_compile_as_test target)
  target_link_libraries(${target} PRIVATE cohort_test_options)
  if(TARGET cohort_test_headers)
    target_precompile_headers(${target} REUSE_FROM cohort_test_headers)
  endif()
endfunction()

function(cohort_library)
  cmake_parse_arguments(ARG "FOR_TESTS" "NAME" "DEPS;PRIVATE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  # A program's main file and tests are targets of their own.
  list(FILTER sources EXCLUDE REGEX "(/main|/run_seeds|_test|_trace)\\.cc$")
  if(sources)
    add_library(cohort_${ARG_NAME} STATIC ${sources})
    target_link_libraries(cohort_${ARG_NAME} PUBLIC cohort_options ${ARG_DEPS} PRIVATE ${ARG_PRIVATE})
    if(ARG_FOR_TESTS)
      cohort_compile_as_test(cohort_${ARG_NAME})
    else()
      cohort_precompiled(cohort_${ARG_NAME})
    endif()
  else()
    add_library(cohort_${ARG_NAME} INTERFACE)
    target_link_libraries(cohort_${ARG_NAME} INTERFACE cohort_options ${ARG_DEPS} ${ARG_PRIVATE})
  endif()
endfunction()

# cohort_test(NAME base_test DEPS cohort_base): one GoogleTest binary of all *_test.cc in the folder.
function(cohort_test)
  cmake_parse_arguments(ARG "" "NAME;TIMEOUT" "DEPS;LABELS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cc)
  if(NOT sources)
    return()
  endif()
  add_executable(${ARG_NAME} ${sources})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} GTest::gtest_main)
  cohort_compile_as_test(${ARG_NAME})
  if(TARGET cohort_tsan_support)
    target_link_libraries(${ARG_NAME} PRIVATE cohort_tsan_support)
  endif()
  set_target_properties(${ARG_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_compile_definitions(${ARG_NAME} PRIVATE
    COHORT_SOURCE_DIR="${CMAKE_SOURCE_DIR}" COHORT_BIN_DIR="${CMAKE_BINARY_DIR}/bin")
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(COHORT_SANITIZE)
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 5")  # code that is watched is so much slower
  endif()
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME})
  set_tests_properties(${ARG_NAME} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()
