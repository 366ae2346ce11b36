# Finds oneDNN, 2.6 or newer, as the target Tigon::onednn; sets TigonOneDNN_FOUND. Another than the system's: -Ddnnl_DIR=<the
# folder of its dnnl-config.cmake> or CMAKE_PREFIX_PATH. That file itself is not used: Debian's asks for OpenCL, which a
# program for the CPU has no use for. Installed beside TigonConfig.cmake, for the static library. The target is global: who
# links the static library, from whichever folder, links it.
if(NOT TARGET Tigon::onednn)
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
        add_library(Tigon::onednn UNKNOWN IMPORTED GLOBAL)
        set_target_properties(Tigon::onednn PROPERTIES IMPORTED_LOCATION ${TIGON_ONEDNN_LIBRARY}
            INTERFACE_INCLUDE_DIRECTORIES ${TIGON_ONEDNN_INCLUDE})
    endif()
endif()
set(TigonOneDNN_FOUND FALSE)
if(TARGET Tigon::onednn)
    set(TigonOneDNN_FOUND TRUE)
endif()
