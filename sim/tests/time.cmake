# The cost model: its parts alone, then launches through the command.
foreach(source bank l2 share play core copy cost)
    list(APPEND time_sources ../src/time_${source}.c)
endforeach()
add_executable(ascsim_time_unit time_unit.c ${time_sources} ../src/chips.c)
target_include_directories(ascsim_time_unit PRIVATE ../include ../src)
target_compile_options(ascsim_time_unit PRIVATE -Wall -Wextra -Wno-psabi)
target_compile_definitions(ascsim_time_unit PRIVATE _GNU_SOURCE)
target_link_libraries(ascsim_time_unit PRIVATE Threads::Threads m)
add_test(NAME sim.time.unit COMMAND ascsim_time_unit)
add_test(NAME sim.time.command
    COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/time_command.sh $<TARGET_FILE_DIR:ascsim_command> ${CMAKE_C_COMPILER})
