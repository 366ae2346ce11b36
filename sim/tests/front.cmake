# functional: lane by lane; functional_whole: what looks at more than one lane.
foreach(part functional functional_whole)
    ascsim_kernels(${part}_kernels ${part}_kernels.c)
    add_executable(${part} ${part}.c functional_value.c)
    target_link_libraries(${part} PRIVATE ${part}_kernels ascsim m)
    target_compile_options(${part} PRIVATE -Wall -Wextra -Wno-psabi)
    add_test(NAME sim.${part} COMMAND ${part})
endforeach()
