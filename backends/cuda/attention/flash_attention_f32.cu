/* flash_attention_f32.cu - the kernels of flash_attention for elements of f32: a file for each
 * type, so that they compile side by side. */
#include "flash_attention_backward.cuh"
#include "flash_attention_forward.cuh"

template void flash_attention_forward<float>(const flash_problem &p, cudaStream_t stream);
template void flash_attention_backward<float>(const flash_problem &p, cudaStream_t stream);
