#include "grouped_gates.cuh"
template __global__ void
rows_kernel<bf16, B_HALVES, 1, GATES>(const __grid_constant__ grouped_rows);
template __global__ void rows_kernel<bf16, B_LINES, 0, PLAIN>(const __grid_constant__ grouped_rows);
template __global__ void rows_kernel<bf16, B_LINES, 1, PLAIN>(const __grid_constant__ grouped_rows);
template __global__ void
rows_kernel<bf16, B_ACROSS_K, 0, PLAIN>(const __grid_constant__ grouped_rows);
template __global__ void
rows_kernel<bf16, B_ACROSS_K, 1, GATE_GRADIENTS>(const __grid_constant__ grouped_rows);
