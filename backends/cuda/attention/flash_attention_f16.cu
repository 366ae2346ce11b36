/* flash_attention_f16.cu - the kernels of flash_attention for elements of f16: a file for each
 * type, so that they compile side by side. */
#include "flash_attention_backward.cuh"
#include "flash_attention_decode.cuh"
#include "flash_attention_forward.cuh"

template void flash_attention_forward<f16>(const flash_problem &p, cudaStream_t stream);
template void flash_attention_backward<f16>(const flash_problem &p, cudaStream_t stream);
template int64_t flash_decode_bytes<f16>(const flash_problem &p, int processors);
template void flash_attention_decode<f16>(const flash_problem &p, char *room,
                                          const cuda_call &call);
