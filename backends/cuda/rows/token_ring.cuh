/* token_ring.cuh - rows of tokens that are on their way to shared memory while others are worked
 * on. A block of threads goes from token to token. A thread copies its chunks of all rows there and
 * alone reads them again, so that there is no barrier; when it has read one for the last time, it
 * asks for that of a later token in its place. */
#ifndef CUDA_TOKEN_RING_CUH
#define CUDA_TOKEN_RING_CUH

#include "elements.cuh"

enum {
    RING_THREADS = 512,    /* of a multiprocessor, and of a block at most */
    RING_MOST_STAGES = 4,  /* tokens of a block that are under way */
    RING_MOST_EACH = 4,    /* chunks of a row that a thread has */
    RING_BYTES = 224 << 10 /* of shared memory, of a multiprocessor of Hopper */
};

struct ring_shape {
    int threads, each, stages; /* stages 0: a token has no room */
    size_t shared;             /* bytes of a block: `besides`, and behind it the tokens */
    int64_t blocks;
};

/* SOURCE: row(row, token) is where a row of whole chunks begins, of n elements. */
template <class T, class SOURCE> struct token_ring {
    const SOURCE &source;
    uint4 *own; /* [stages, rows, each, threads] */
    int rows, n, each, stages, slot;
    int64_t tokens, ahead;

    __device__ __forceinline__ token_ring(const SOURCE &from, const ring_shape &s, uint4 *memory,
                                          int rows_of_token, int width, int64_t count)
        : source(from), own(memory + threadIdx.x), rows(rows_of_token), n(width), each(s.each),
          stages(s.stages), slot(0), tokens(count), ahead((int64_t)s.stages * gridDim.x)
    {
    }

    static __device__ __forceinline__ int first()
    {
        return (int)threadIdx.x * V<T>;
    }
    static __device__ __forceinline__ int step()
    {
        return (int)blockDim.x * V<T>;
    }

    __device__ __forceinline__ void begin()
    {
        for (int s = 0; s < stages; s++) {
            const int64_t token = blockIdx.x + (int64_t)s * gridDim.x;
            for (int k = 0, j = first(); k < each && j < n; k++, j += step())
                for (int row = 0; row < rows; row++)
                    copy(row, k, j, token);
            next();
        }
    }

    /* The chunks of the token whose turn it is are there. */
    __device__ __forceinline__ void wait() const
    {
        static_assert(RING_MOST_STAGES == 4, "a case each");
        switch (stages) {
        case 1:
            return wait_for_batches<0>();
        case 2:
            return wait_for_batches<1>();
        case 3:
            return wait_for_batches<2>();
        default:
            return wait_for_batches<3>();
        }
    }

    /* Chunk k of this thread. */
    __device__ __forceinline__ uint4 raw(int row, int k) const
    {
        return own[((slot * rows + row) * each + k) * blockDim.x];
    }
    __device__ __forceinline__ void chunk(int row, int k, float (&x)[V<T>]) const
    {
        widen<T>(raw(row, k), x);
    }

    /* The chunk, at column j, has been read for the last time. */
    __device__ __forceinline__ void replace(int row, int k, int j, int64_t token) const
    {
        copy(row, k, j, token + ahead);
    }

    /* All chunks of a token have been replaced. */
    __device__ __forceinline__ void next()
    {
        end_batch();
        slot = slot + 1 == stages ? 0 : slot + 1;
    }

  private:
    __device__ __forceinline__ void copy(int row, int k, int j, int64_t token) const
    {
        if (token < tokens)
            copy_ahead(own + ((slot * rows + row) * each + k) * blockDim.x,
                       source.row(row, token) + j);
    }
};

/* ---- the host's side ---- */

/* Tokens of so many rows of `bytes` each, `least` of them under way, and `besides` of a block.
 * Where threads are enough each has `wanted` chunks of a row. */
static inline ring_shape shape_of_ring(const cuda_call &call, int64_t tokens, int64_t rows,
                                       int64_t bytes, int64_t besides, int wanted = 1,
                                       int least = 2)
{
    const int64_t chunks = ceil_div(bytes, 16),
                  most = call.capability >= 90 ? RING_BYTES : RING_BYTES / 4;
    ring_shape s = {32, 0, 0, 0, 0};
    while (s.threads * wanted < chunks && s.threads < RING_THREADS)
        s.threads *= 2;
    const int64_t each = ceil_div(chunks, s.threads), token = rows * each * s.threads * 16;
    int64_t blocks = RING_THREADS / s.threads, stages = 0;
    while (stages < least && each <= RING_MOST_EACH && token > 0) {
        stages = (most / blocks - (1 << 10) - besides) / token; /* a block takes 1 KB itself */
        if (blocks == 1)
            break;
        blocks = stages < least ? blocks / 2 : blocks;
    }
    s.each = (int)each;
    s.stages = (int)(stages < 0 ? 0 : min_of(stages, RING_MOST_STAGES));
    s.shared = (size_t)(besides + s.stages * token);
    s.blocks = min_of(tokens, call.processors * blocks);
    return s;
}

template <class... ARGS, class... GIVEN>
static void launch_ring(const cuda_call &call, const ring_shape &s, void (*kernel)(ARGS...),
                        const GIVEN &...given)
{
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)s.shared);
    kernel<<<(unsigned)s.blocks, s.threads, s.shared, call.stream>>>(given...);
}

#endif
