# cmake --install: headers, both libraries, CMake package, pkg-config file, man page, the backend that a vendor copies. (The command:
# tools/tigon.)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Tigon)

install(DIRECTORY include/tigon DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# The static library names what it was linked with; the shared one needs no other package.
install(TARGETS tigon_shared EXPORT TigonTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS tigon_static EXPORT TigonStaticTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT TigonTargets NAMESPACE Tigon:: DESTINATION ${package_dir})
install(EXPORT TigonStaticTargets NAMESPACE Tigon:: DESTINATION ${package_dir})
configure_package_config_file(cmake/TigonConfig.cmake.in ${PROJECT_BINARY_DIR}/TigonConfig.cmake
    INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/TigonConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/TigonConfig.cmake ${PROJECT_BINARY_DIR}/TigonConfigVersion.cmake
    cmake/TigonOneDNN.cmake DESTINATION ${package_dir})

# What a program that links libtigon.a needs besides.
list(TRANSFORM TIGON_OPENMP REPLACE "^([^/].*)" "-l\\1" OUTPUT_VARIABLE openmp) # names, or files
list(JOIN openmp " " openmp)
set(TIGON_PC_PRIVATE "${openmp} -ldl -lm")
if(TIGON_ONEDNN)
    cmake_path(GET TIGON_ONEDNN_LIBRARY PARENT_PATH onednn_dir)
    if(onednn_dir IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
        set(TIGON_PC_PRIVATE "-ldnnl ${TIGON_PC_PRIVATE}")
    else()
        set(TIGON_PC_PRIVATE "-L${onednn_dir} -ldnnl ${TIGON_PC_PRIVATE}")
    endif()
endif()
# The file is relocatable: its prefix is found from where it lies.
file(RELATIVE_PATH TIGON_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/tigon.pc.in ${PROJECT_BINARY_DIR}/tigon.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/tigon.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(DIRECTORY backends/template DESTINATION ${CMAKE_INSTALL_DATADIR}/tigon PATTERN build EXCLUDE)
install(FILES docs/man/tigon.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
