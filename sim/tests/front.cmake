# functional: lane by lane; _whole: what looks at more than one lane; _move: copies and atomic
# stores; _order: schedules, deadlocks, threads, arguments.
foreach(part functional functional_whole functional_move functional_order)
    ascsim_kernels(${part}_kernels ${part}_kernels.c)
    add_executable(${part} ${part}.c functional_value.c)
    target_link_libraries(${part} PRIVATE ${part}_kernels ascsim m)
    target_compile_options(${part} PRIVATE -Wall -Wextra -Wno-psabi)
    add_test(NAME sim.${part} COMMAND ${part})
endforeach()
target_sources(functional_whole PRIVATE functional_reduce.c functional_rearrange.c)
foreach(case RANGE 10)
    add_test(NAME sim.wrong_types_${case}
             COMMAND ${CMAKE_C_COMPILER} -std=gnu11 -Werror -fsyntax-only -DCASE=${case}
                     -I ${CMAKE_CURRENT_SOURCE_DIR}/../include ${CMAKE_CURRENT_SOURCE_DIR}/wrong_types.c)
endforeach()
foreach(case RANGE 1 10)
    set_tests_properties(sim.wrong_types_${case} PROPERTIES WILL_FAIL ON)
endforeach()

# How fast the model is: build/bench
ascsim_kernels(bench_kernels bench_kernels.c)
add_executable(bench EXCLUDE_FROM_ALL bench.c)
target_link_libraries(bench PRIVATE bench_kernels ascsim)
