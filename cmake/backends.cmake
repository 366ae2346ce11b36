# tigon_backend(folder VENDORS vendor...): a backend of this tree, backends/<folder>, which adds its sources to the library
# itself. generated/built_in.inc lists the vendors: the only way that core hears of them.
function(tigon_backend folder)
    cmake_parse_arguments(PARSE_ARGV 1 BACKEND "" "" "VENDORS")
    add_subdirectory(backends/${folder})
    foreach(vendor IN LISTS BACKEND_VENDORS)
        set_property(GLOBAL APPEND PROPERTY TIGON_VENDORS "TG_BUILT_IN(${vendor})")
    endforeach()
endfunction()

function(tigon_backends_done)
    get_property(vendors GLOBAL PROPERTY TIGON_VENDORS)
    list(JOIN vendors "\n" vendors)
    file(CONFIGURE OUTPUT generated/built_in.inc CONTENT "${vendors}\n" @ONLY)
endfunction()

# tigon_backend_sources(target sources...): compiled as an outside backend would be, on the public headers alone.
function(tigon_backend_sources target)
    add_library(${target} OBJECT ${ARGN})
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include)
    target_compile_options(${target} PRIVATE -Wall -Wextra)
    target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
    set_property(GLOBAL APPEND PROPERTY TIGON_OBJECT_LIBRARIES ${target})
endfunction()

# tigon_declared(file macros sources...): what the sources declare at the beginning of a line. With the macros "ASCEND_(OPERATOR|KERNELS)",
# ASCEND_KERNELS(...) becomes the line KERNELS(...) of the file. A source that changes is read anew.
function(tigon_declared file macros)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN})
    set(declared)
    foreach(source IN LISTS ARGN)
        file(STRINGS ${source} lines REGEX "^${macros}[(]")
        list(TRANSFORM lines REPLACE "^${macros}([(][^)]*[)]).*" "\\1\\2")
        list(APPEND declared ${lines})
    endforeach()
    list(JOIN declared "\n" declared)
    file(CONFIGURE OUTPUT ${file} CONTENT "${declared}\n" @ONLY)
endfunction()
