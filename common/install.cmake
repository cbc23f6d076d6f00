# cmake --install: the daemons, the library that programs link with its headers, and the package find_package(cohort) finds.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# All that a program needs is below this one target.
add_library(cohort INTERFACE)
target_link_libraries(cohort INTERFACE cohort_coordinator_api)

# Lists the libraries of this project that `target` links, itself among them.
function(cohort_collect target found)
  set(all ${${found}} ${target})
  get_target_property(type ${target} TYPE)
  set(linked)
  foreach(property LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
    if(property STREQUAL LINK_LIBRARIES AND type STREQUAL INTERFACE_LIBRARY)
      continue()
    endif()
    get_target_property(names ${target} ${property})
    list(APPEND linked ${names})
  endforeach()
  foreach(name ${linked})
    if(name MATCHES "^cohort_" AND NOT name IN_LIST all AND NOT name STREQUAL cohort_library_headers)
      cohort_collect(${name} all)
    endif()
  endforeach()
  set(${found} ${all} PARENT_SCOPE)
endfunction()
set(libraries)
cohort_collect(cohort libraries)
list(REMOVE_DUPLICATES libraries)

install(TARGETS ${libraries} EXPORT cohort
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/cohort)
install(EXPORT cohort NAMESPACE cohort:: FILE cohortTargets.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cohort)
set_target_properties(cohort PROPERTIES EXPORT_NAME cohort)
install(CODE "set(COHORT_HEADER_ROOTS \"${CMAKE_SOURCE_DIR}\" \"${CMAKE_BINARY_DIR}\")
set(COHORT_HEADERS \"${CMAKE_INSTALL_INCLUDEDIR}/cohort\")")
install(SCRIPT ${CMAKE_SOURCE_DIR}/common/install_headers.cmake)

configure_package_config_file(${CMAKE_SOURCE_DIR}/common/cohortConfig.cmake.in ${CMAKE_BINARY_DIR}/cohortConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cohort)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/cohortConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/cohortConfig.cmake ${CMAKE_BINARY_DIR}/cohortConfigVersion.cmake
  ${CMAKE_SOURCE_DIR}/common/libraries.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/cohort)

foreach(daemon coordinator ps worker)
  install(PROGRAMS $<TARGET_FILE:${daemon}> DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME cohort-${daemon})
endforeach()
foreach(module cohort_cuda cohort_nccl)
  if(TARGET ${module})
    install(PROGRAMS $<TARGET_FILE:${module}> DESTINATION ${CMAKE_INSTALL_LIBDIR}/cohort)
  endif()
endforeach()
