/* move.cu - tg_move(): as many tensors read and written as an operator has, and nothing computed.
 * What the memory gives at best. */
#include "rows/elements.cuh"

enum {
    MOVE_THREADS = 256,
    /* chunks that a thread has in flight, where it reads no more buffers than that */
    MOVE_AHEAD = 4
};

struct move_args {
    const uint4 *from[TG_MOST_MOVED];
    uint4 *to[TG_MOST_MOVED];
    int64_t chunks;
    int writes;
};

/* Chunks of a buffer that a thread reads before it writes. */
__host__ __device__ static constexpr int ahead_of(int reads)
{
    return reads == 0 ? MOVE_AHEAD : reads < MOVE_AHEAD ? MOVE_AHEAD / reads : 1;
}

static __device__ uint4 unlikely; /* keeps reads that nothing is written for */

__device__ static void add(uint4 &sum, uint4 x)
{
    sum.x ^= x.x;
    sum.y ^= x.y;
    sum.z ^= x.z;
    sum.w ^= x.w;
}

template <int READS>
__global__ static void __launch_bounds__(MOVE_THREADS) move_kernel(const move_args a)
{
    constexpr int AHEAD = ahead_of(READS);
    const int64_t first = (int64_t)blockIdx.x * (MOVE_THREADS * AHEAD) + threadIdx.x;
    uint4 sum[AHEAD] = {};
#pragma unroll
    for (int u = 0; u < AHEAD; u++)
#pragma unroll
        for (int i = 0; i < READS; i++)
            if (first + u * MOVE_THREADS < a.chunks)
                add(sum[u], a.from[i][first + u * MOVE_THREADS]);
    for (int i = 0; i < a.writes; i++)
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            if (first + u * MOVE_THREADS < a.chunks)
                a.to[i][first + u * MOVE_THREADS] = sum[u];
    if (a.writes == 0)
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            if (sum[u].x == 0x9e3779b9 && sum[u].y == 0x7f4a7c15 && sum[u].z == 0xf39cc060)
                unlikely = sum[u];
}

template <int READS> static void launch(const move_args &a, cudaStream_t stream)
{
    const int64_t blocks = ceil_div(a.chunks, (int64_t)MOVE_THREADS * ahead_of(READS));
    move_kernel<READS><<<(unsigned)blocks, MOVE_THREADS, 0, stream>>>(a);
}

/* By the number of buffers that are read. */
static void (*const launches[TG_MOST_MOVED + 1])(const move_args &, cudaStream_t) = {
    launch<0>, launch<1>, launch<2>, launch<3>,  launch<4>,  launch<5>,  launch<6>,
    launch<7>, launch<8>, launch<9>, launch<10>, launch<11>, launch<12>,
};

void cuda_move(const void *const *from, int reads, void *const *to, int writes, size_t bytes,
               cudaStream_t stream)
{
    move_args a = {};
    a.chunks = (int64_t)(bytes / sizeof(uint4));
    a.writes = writes;
    for (int i = 0; i < reads; i++)
        a.from[i] = (const uint4 *)from[i];
    for (int i = 0; i < writes; i++)
        a.to[i] = (uint4 *)to[i];
    launches[reads](a, stream);
}
