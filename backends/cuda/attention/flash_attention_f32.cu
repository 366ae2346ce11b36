/* flash_attention_f32.cu - the kernels of flash_attention for elements of f32: a file for each
 * type, so that they compile side by side. */
#include "flash_attention_backward.cuh"
#include "flash_attention_decode.cuh"
#include "flash_attention_forward.cuh"

template void flash_attention_forward<float>(const flash_problem &p, cudaStream_t stream);
template void flash_attention_backward<float>(const flash_problem &p, cudaStream_t stream);
template int64_t flash_decode_bytes<float>(const flash_problem &p, int processors);
template void flash_attention_decode<float>(const flash_problem &p, char *room,
                                            const cuda_call &call);
