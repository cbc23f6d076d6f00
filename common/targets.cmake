# One library per folder: cohort_library(NAME base DEPS absl::status) takes every .cc of the folder but main.cc.
# A dependency is PUBLIC because this project's headers show the types of the rooms below them.

add_library(cohort_options INTERFACE)
target_include_directories(cohort_options INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
target_compile_options(cohort_options INTERFACE -Wall -Wextra -Wno-unused-parameter
  -Wnon-virtual-dtor -Woverloaded-virtual -ftree-vectorize)
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
  target_link_options(cohort_options INTERFACE -fsanitize=${COHORT_SANITIZE})
  target_compile_definitions(cohort_options INTERFACE COHORT_SANITIZED=1)
endif()
target_link_libraries(cohort_options INTERFACE Threads::Threads)

function(cohort_library)
  cmake_parse_arguments(ARG "" "NAME" "DEPS;PRIVATE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  # A program's main file and tests are targets of their own.
  list(FILTER sources EXCLUDE REGEX "(/main|_test|_trace)\\.cc$")
  if(sources)
    add_library(cohort_${ARG_NAME} STATIC ${sources})
    target_link_libraries(cohort_${ARG_NAME} PUBLIC cohort_options ${ARG_DEPS} PRIVATE ${ARG_PRIVATE})
  else()
    add_library(cohort_${ARG_NAME} INTERFACE)
    target_link_libraries(cohort_${ARG_NAME} INTERFACE cohort_options ${ARG_DEPS} ${ARG_PRIVATE})
  endif()
endfunction()

# Test code is compiled for a fast build (docs/DECISIONS.md): -O1 also in the release preset, and with the headers that
# tests/CMakeLists.txt lists read once. -fpch-preprocess lets ccache see which those are. -pthread, because some libraries
# ask for it and precompiled headers serve only who was given the same.
add_library(cohort_test_options INTERFACE)
target_link_libraries(cohort_test_options INTERFACE cohort_options GTest::gmock)
target_compile_options(cohort_test_options INTERFACE
  -pthread $<$<CONFIG:Release>:-O1> $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)

function(cohort_compile_as_test target)
  target_link_libraries(${target} PRIVATE cohort_test_options)
  if(TARGET cohort_test_headers)
    target_precompile_headers(${target} REUSE_FROM cohort_test_headers)
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
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME})
  set_tests_properties(${ARG_NAME} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
endfunction()
