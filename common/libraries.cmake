# The libraries of which Debian 12 has no CMake package that works, found by hand, as targets. Read by this build and, installed
# beside it, by cohortConfig.cmake.
function(cohort_find_library target header package)
  find_path(${target}_INCLUDE_DIR ${header})
  set(files)
  foreach(name ${ARGN})
    find_library(${target}_${name}_LIBRARY ${name})
    list(APPEND files ${${target}_${name}_LIBRARY})
  endforeach()
  if(NOT ${target}_INCLUDE_DIR OR "${files}" MATCHES "NOTFOUND")
    message(FATAL_ERROR "Cohort needs ${header} and lib${target}: install ${package}")
  endif()
  if(NOT TARGET cohort::lib${target})
    add_library(cohort::lib${target} INTERFACE IMPORTED)
    set_target_properties(cohort::lib${target} PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${${target}_INCLUDE_DIR}" INTERFACE_LINK_LIBRARIES "${files}")
  endif()
endfunction()

cohort_find_library(onnx onnx/onnx_pb.h libonnx-dev onnx onnx_proto)
cohort_find_library(zip zip.h libzip-dev zip)
cohort_find_library(farmhash farmhash.h libfarmhash-dev farmhash)
cohort_find_library(leveldb leveldb/table.h "libleveldb-dev and libsnappy-dev" leveldb snappy)
