/* flash_attention_bf16.cu - the kernels of flash_attention for elements of bf16: a file for each
 * type, so that they compile side by side. */
#include "flash_attention_backward.cuh"
#include "flash_attention_decode.cuh"
#include "flash_attention_forward.cuh"

template void flash_attention_forward<bf16>(const flash_problem &p, cudaStream_t stream);
template void flash_attention_backward<bf16>(const flash_problem &p, cudaStream_t stream);
template int64_t flash_decode_bytes<bf16>(const flash_problem &p, int processors);
template void flash_attention_decode<bf16>(const flash_problem &p, char *room,
                                           const cuda_call &call);
