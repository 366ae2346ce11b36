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
