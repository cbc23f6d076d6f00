# One library per folder: cohort_library(NAME base DEPS absl::status) takes every .cc of the folder but main.cc.
# A dependency is PUBLIC because this project's headers show the types of the rooms below them.

add_library(cohort_options INTERFACE)
# What only this build needs stays behind BUILD_INTERFACE: programs that link an installed Cohort get neither its warnings nor
# its folders.
target_include_directories(cohort_options INTERFACE
  $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<BUILD_INTERFACE:${CMAKE_BINARY_DIR}> $<INSTALL_INTERFACE:include/cohort>)
target_compile_features(cohort_options INTERFACE $<INSTALL_INTERFACE:cxx_std_20>)
# Loops vectorise only if square roots need not set errno and comparisons may be computed for elements that are not used.
target_compile_options(cohort_options INTERFACE "$<BUILD_INTERFACE:-Wall;-Wextra;-Wno-unused-parameter;-Wnon-virtual-dtor>"
  "$<BUILD_INTERFACE:-Woverloaded-virtual;-ftree-vectorize;-fno-math-errno;-fno-trapping-math>"
  $<BUILD_INTERFACE:$<$<CXX_COMPILER_ID:GNU>:-fvect-cost-model=dynamic>>)
# What a build with -Werror refuses, as those with sanitizers do, no other build lets in either.
target_compile_options(cohort_options INTERFACE
  "$<BUILD_INTERFACE:$<$<CXX_COMPILER_ID:GNU>:-Werror=missing-field-initializers;-Werror=dangling-else>>")
if(COHORT_WERROR)
  target_compile_options(cohort_options INTERFACE $<BUILD_INTERFACE:-Werror>)
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
  target_compile_options(cohort_options INTERFACE "$<BUILD_INTERFACE:-fpch-preprocess;-pthread>")
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

# Tells whether a module for GPUs is built, in the cache variable `have`: `missing` lists what it would need, `with` what it
# has. COHORT_CUDA: AUTO builds a module where its libraries are found, ON fails where they are not, OFF does not look.
function(cohort_look_for_module name have missing with)
  if(missing AND COHORT_CUDA AND NOT COHORT_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR
      "COHORT_CUDA is ${COHORT_CUDA}, and not found: ${missing}set COHORT_CUDA=OFF to build without")
  endif()
  if(missing)
    message(STATUS "Without the ${name} module: ${missing}")
    set(${have} OFF CACHE INTERNAL "The ${name} module is built")
  else()
    message(STATUS "With the ${name} module: ${with}")
    set(${have} ON CACHE INTERNAL "The ${name} module is built")
  endif()
endfunction()

# A module that is loaded when it is asked for. It lies beside the programs, where they look for it.
function(cohort_module target)
  add_library(${target} MODULE ${ARGN})
  target_link_libraries(${target} PRIVATE cohort_options)
  set_target_properties(${target} PROPERTIES
    LINKER_LANGUAGE CXX
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    INSTALL_RPATH "$ORIGIN")
endfunction()

# cohort_test(NAME base_test DEPS cohort_base): one GoogleTest binary of all *_test.cc in the folder, and in the folders below it
# that ROOMS names.
function(cohort_test)
  cmake_parse_arguments(ARG "" "NAME;TIMEOUT" "DEPS;LABELS;ROOMS" ${ARGN})
  set(patterns ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cc)
  foreach(room ${ARG_ROOMS})
    list(APPEND patterns ${CMAKE_CURRENT_SOURCE_DIR}/${room}/*_test.cc)
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  if(NOT sources)
    return()
  endif()
  add_executable(${ARG_NAME} ${sources})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} cohort_test_world cohort_test_main)
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

# For tests of the module cohort_`name`: builds it, where it can be built, and defines COHORT_HAVE_`NAME`, which says so.
function(cohort_test_uses_module test name)
  string(TOUPPER ${name} upper)
  set(have 0)
  if(COHORT_HAVE_${upper})
    set(have 1)
    add_dependencies(${test} cohort_${name})
  endif()
  target_compile_definitions(${test} PRIVATE COHORT_HAVE_${upper}=${have})
endfunction()

# For the test that a module of another build is refused: makes one of other_version.cc, and defines COHORT_OTHER_VERSION, its
# path.
function(cohort_test_other_version test)
  add_library(${test}_other_version MODULE other_version.cc)
  target_link_libraries(${test}_other_version PRIVATE cohort_test_options absl::status absl::strings)
  add_dependencies(${test} ${test}_other_version)
  target_compile_definitions(${test} PRIVATE COHORT_OTHER_VERSION="$<TARGET_FILE:${test}_other_version>")
endfunction()
