/* nccl.h - what cards.c calls of NCCL 2 and of CUDA's driver, both found at run time: so
 * neither is needed to build. tests/cuda/nccl_header.c compares these declarations with
 * NVIDIA's own, where they are. */
#ifndef LLAMA_NCCL_H
#define LLAMA_NCCL_H

#include <stddef.h>

typedef struct nccl_comm *nccl_comm;
typedef struct nccl_id {
    char bytes[128];
} nccl_id;
enum { NCCL_BYTES = 1, NCCL_F32 = 7 };
enum { NCCL_SUM = 0 };

/* X(its name, ours, its arguments) */
#define NCCL_CALLS(X)                                                                         \
    X(ncclGetUniqueId, get_id, (nccl_id * id))                                                \
    X(ncclCommInitRank, join, (nccl_comm * comm, int ranks, nccl_id id, int here))            \
    X(ncclGroupStart, group_start, (void))                                                    \
    X(ncclGroupEnd, group_end, (void))                                                        \
    X(ncclReduce, reduce,                                                                     \
      (const void *from, void *to, size_t count, int type, int how, int root, nccl_comm comm, \
       void *stream))                                                                         \
    X(ncclBroadcast, broadcast,                                                               \
      (const void *from, void *to, size_t count, int type, int root, nccl_comm comm,          \
       void *stream))                                                                         \
    X(ncclSend, send,                                                                         \
      (const void *from, size_t count, int type, int to, nccl_comm comm, void *stream))       \
    X(ncclRecv, receive,                                                                      \
      (void *data, size_t count, int type, int from, nccl_comm comm, void *stream))           \
    X(ncclAllReduce, all_reduce,                                                              \
      (const void *from, void *to, size_t count, int type, int how, nccl_comm comm, void *stream))

/* Of the driver, whose streams and events those of CUDA's runtime are. */
enum { CU_STREAM_ALONE = 1, CU_EVENT_UNTIMED = 2 };
#define DRIVER_CALLS(X)                                                     \
    X(cuInit, init, (unsigned flags))                                       \
    X(cuDevicePrimaryCtxRetain, retain, (void **context, int card))         \
    X(cuCtxSetCurrent, set_current, (void *context))                        \
    X(cuStreamCreate, new_stream, (void **stream, unsigned flags))          \
    X(cuStreamWaitEvent, wait, (void *stream, void *event, unsigned flags)) \
    X(cuEventCreate, new_event, (void **event, unsigned flags))             \
    X(cuEventRecord, record, (void *event, void *stream))

#endif
