/* What examples/llama/ranks/nccl.h declares of NCCL and of CUDA's driver is what their own headers
 * say: this compiles. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include "ranks/nccl.h"

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours " is " #theirs)
SAME(NCCL_BYTES, ncclUint8);
SAME(NCCL_F32, ncclFloat32);
SAME(NCCL_SUM, ncclSum);
SAME(CU_STREAM_ALONE, CU_STREAM_NON_BLOCKING);
SAME(CU_EVENT_UNTIMED, CU_EVENT_DISABLE_TIMING);
SAME(sizeof(nccl_id), sizeof(ncclUniqueId));

/* A call of ours through each of their functions. */
int main(void)
{
    ncclUniqueId id = {{0}};
    ncclComm_t all = NULL;
    const void *from = NULL;
    void *to = NULL;
    (void)sizeof(ncclGetUniqueId(&id));
    (void)sizeof(ncclCommInitRank(&all, 1, id, 0));
    (void)sizeof(ncclGroupStart());
    (void)sizeof(ncclGroupEnd());
    (void)sizeof(ncclReduce(from, to, (size_t)1, ncclFloat32, ncclSum, 0, all, (cudaStream_t)to));
    (void)sizeof(ncclBroadcast(from, to, (size_t)1, ncclUint8, 0, all, (cudaStream_t)to));
    (void)sizeof(ncclAllReduce(from, to, (size_t)1, ncclFloat32, ncclSum, all, (cudaStream_t)to));
    return 0;
}
