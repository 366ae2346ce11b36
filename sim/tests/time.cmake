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
add_executable(ascsim_time_api time_api.c)
target_compile_options(ascsim_time_api PRIVATE -Wall -Wextra)
target_link_libraries(ascsim_time_api PRIVATE ascsim_examples ascsim)
add_test(NAME sim.time.api COMMAND ascsim_time_api)
add_test(NAME sim.time.command
    COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/time_command.sh $<TARGET_FILE:ascsim_command>
        $<TARGET_FILE_DIR:ascsim_examples> ${CMAKE_C_COMPILER})
add_test(NAME sim.time.validate
    COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/time_validate.sh $<TARGET_FILE:ascsim_command>
        ${PROJECT_SOURCE_DIR}/../docs/npu-model.md)
add_test(NAME sim.lint COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/lint.sh $<TARGET_FILE:ascsim_command> ${CMAKE_C_COMPILER}
    ${PROJECT_SOURCE_DIR}/examples)
set_tests_properties(sim.lint PROPERTIES SKIP_RETURN_CODE 77)
