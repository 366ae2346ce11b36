# Planted faults: each source twice, with the fault and without.
file(GLOB fault_sources ${CMAKE_CURRENT_SOURCE_DIR}/faults/[a-z]*.c)
list(REMOVE_ITEM fault_sources ${CMAKE_CURRENT_SOURCE_DIR}/faults/faults.c)
ascsim_kernels(sim_faults_planted ${fault_sources})
target_compile_definitions(sim_faults_planted PRIVATE PLANTED)
ascsim_kernels(sim_faults_clean ${fault_sources})
add_executable(sim_faults faults/faults.c)
target_compile_options(sim_faults PRIVATE -Wall -Wextra)
target_compile_definitions(sim_faults PRIVATE _GNU_SOURCE)
target_link_libraries(sim_faults PRIVATE ascsim ${CMAKE_DL_LIBS})
add_test(NAME sim.faults
    COMMAND sim_faults $<TARGET_FILE:sim_faults_planted> $<TARGET_FILE:sim_faults_clean>
            ${fault_sources})
# The repository's page on the model names every kind of fault; the model alone has no such page.
add_test(NAME sim.faults.documented
    COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/faults/documented.sh
            ${CMAKE_CURRENT_SOURCE_DIR}/../src/faults.inc
            ${CMAKE_CURRENT_SOURCE_DIR}/../../docs/npu-model.md)
set_tests_properties(sim.faults.documented PROPERTIES SKIP_RETURN_CODE 77)
# Races of random programs, beside their definition.
ascsim_kernels(sim_order_kernel order_kernel.c)
add_executable(sim_order order.c)
target_compile_options(sim_order PRIVATE -Wall -Wextra)
target_link_libraries(sim_order PRIVATE sim_order_kernel ascsim)
add_test(NAME sim.order COMMAND sim_order)
