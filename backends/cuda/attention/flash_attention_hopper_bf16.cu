/* flash_attention_hopper_bf16.cu - the kernels of flash_attention for Hopper, for elements of
 * bf16. */
#include "flash_attention_backward_hopper.cuh"
#include "flash_attention_few_hopper.cuh"

template int64_t flash_forward_sm90_room<bf16>(const flash_problem &p);
template bool flash_attention_forward_sm90<bf16>(const flash_problem &p, char *room, int processors,
                                                 cudaStream_t stream);
template int64_t flash_backward_sm90_room<bf16>(const flash_problem &p);
template bool flash_attention_backward_sm90<bf16>(const flash_problem &p, char *room,
                                                  int processors, cudaStream_t stream);
template int64_t flash_few_sm90_room<bf16>(const flash_problem &p);
template bool flash_attention_few_sm90<bf16>(const flash_problem &p, char *room,
                                             const cuda_call &call);
