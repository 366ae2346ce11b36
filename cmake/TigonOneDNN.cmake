# Finds oneDNN, 2.6 or newer, as the target DNNL::dnnl; sets TigonOneDNN_FOUND. Another than the system's: -Ddnnl_DIR=<the
# folder of its dnnl-config.cmake> or CMAKE_PREFIX_PATH. That file itself is not used: Debian's asks for OpenCL, which a
# program for the CPU has no use for. Installed beside TigonConfig.cmake, for the static library.
if(NOT TARGET DNNL::dnnl)
    set(hints)
    if(dnnl_DIR)
        cmake_path(ABSOLUTE_PATH dnnl_DIR NORMALIZE)
        foreach(up ../.. ../../.. ../../../..)
            list(APPEND hints ${dnnl_DIR}/${up})
        endforeach()
    endif()
    find_path(TIGON_ONEDNN_INCLUDE oneapi/dnnl/dnnl.h HINTS ${hints} ${dnnl_ROOT} PATH_SUFFIXES include)
    find_library(TIGON_ONEDNN_LIBRARY dnnl HINTS ${hints} ${dnnl_ROOT} PATH_SUFFIXES lib lib64)
    mark_as_advanced(TIGON_ONEDNN_INCLUDE TIGON_ONEDNN_LIBRARY)
    if(TIGON_ONEDNN_INCLUDE AND TIGON_ONEDNN_LIBRARY)
        add_library(DNNL::dnnl UNKNOWN IMPORTED)
        set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION ${TIGON_ONEDNN_LIBRARY}
            INTERFACE_INCLUDE_DIRECTORIES ${TIGON_ONEDNN_INCLUDE})
    endif()
endif()
set(TigonOneDNN_FOUND FALSE)
if(TARGET DNNL::dnnl)
    set(TigonOneDNN_FOUND TRUE)
endif()
