/* flash_attention_tile.cuh - tiles in shared memory, and rows of sums from there to memory.
 *
 * A tile has rows of D elements, in chunks of 16 bytes. Chunk c of row r lies at place c ^ (r % 8)
 * of its row, so that eight rows' chunks of one column are in different banks. A warp's sums are
 * blocks of 16 x 8 numbers as mma.sync lays them out: lane l has the elements
 * (l / 4 + 8 h, 2 (l % 4) + e) as x[2 h + e]. Products of f32 have the same layout and are made of
 * multiplications and additions alone. */
#ifndef CUDA_FLASH_ATTENTION_TILE_CUH
#define CUDA_FLASH_ATTENTION_TILE_CUH

#include "flash_attention.cuh"

template <class T> constexpr bool IS_BF16 = false;
template <> constexpr bool IS_BF16<bf16> = true;

template <class T, int D> constexpr int PITCH = D *(int)sizeof(T); /* bytes of a row */
enum { FLASH_MOST_BYTES = 99 << 10 }; /* of shared memory, which every card has for a block */

/* A factor as a product takes it: in 16 bits what lies below 2^-126 is 0. */
template <class T> __device__ __forceinline__ float factor_of(float x, float y)
{
    float product = x * y;
    if constexpr (sizeof(T) == 2)
        asm("mul.ftz.f32 %0, %1, %2;" : "=f"(product) : "f"(x), "f"(y));
    return product;
}

/* In f16 probabilities are multiplied by this power of 2, so that small ones keep their digits. */
template <class T> constexpr int P_EXPONENT = sizeof(T) == 2 && !IS_BF16<T> ? 15 : 0;
template <class T> constexpr float P_UNIT = 1.0f / (1 << P_EXPONENT<T>);

/* ---- from memory ---- */

/* BYTES of `from`, or zeros, arrive before the group's end that is waited for. */
template <int BYTES>
__device__ __forceinline__ void copy_ahead(uint32_t to, const void *from, bool there)
{
    const int size = there ? BYTES : 0;
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                     "r"(size));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from),
                     "n"(BYTES), "r"(size));
}

__device__ __forceinline__ void copies_arrive()
{
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
}

/* ROWS rows from `from` on, with d elements each, of which those from `skip` to `left` are there;
 * the rest is 0. By THREADS neighbouring threads. */
template <class T, int D, int ROWS, int THREADS>
__device__ __forceinline__ void load_tile(uint32_t tile, const char *from, int64_t stride, int left,
                                          int d, int skip = 0)
{
    constexpr int CHUNKS = D / V<T>, ACROSS = CHUNKS < THREADS ? CHUNKS : THREADS;
    constexpr int STEP = THREADS / ACROSS;
    static_assert(THREADS % ACROSS == 0 && CHUNKS % ACROSS == 0 && ROWS % STEP == 0,
                  "threads go over whole rows");
    const int own = threadIdx.x % ACROSS, first = threadIdx.x % THREADS / ACROSS;
#pragma unroll
    for (int i = 0; i < ROWS; i += STEP)
#pragma unroll
        for (int j = 0; j < CHUNKS; j += ACROSS) {
            const int r = first + i, c = own + j;
            copy_ahead<16>(tile + r * PITCH<T, D> + ((c ^ r % 8) << 4), from + r * stride + c * 16,
                           c * V<T> < d && r >= skip && r < left);
        }
}

__device__ __forceinline__ float4 shared_float4(uint32_t address)
{
    float4 x;
    asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                 : "r"(address));
    return x;
}

__device__ __forceinline__ float2 shared_float2(uint32_t address)
{
    float2 x;
    asm volatile("ld.shared.v2.f32 {%0,%1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(address));
    return x;
}

/* ---- to memory ---- */

/* lse of a row, from its sum of powers and its greatest score in units of ln 2. */
template <class T> __device__ __forceinline__ float flash_lse_of(float sum, float top)
{
    return sum == 0 ? -CUDART_INF_F : (top + log2f(sum * P_UNIT<T>)) * LN_2;
}

/* The sum of powers of a row, of which four lanes have parts, becomes what the row of y is
 * multiplied with; lse is NULL if it is not asked for, or by this lane. */
template <class T>
__device__ __forceinline__ void flash_end_row(float &sum, float most, float factor, float *lse)
{
    float all = sum + __shfl_xor_sync(0xffffffff, sum, 1);
    all += __shfl_xor_sync(0xffffffff, all, 2);
    if (lse)
        *lse = flash_lse_of<T>(all, most * factor);
    sum = all == 0 ? 0 : 1 / all;
}

/* The same of 16 rows, of whose lse `left` are there. */
template <class T>
__device__ __forceinline__ void flash_end_rows(float (&sum)[2], const float (&most)[2],
                                               float factor, float *lse, int left)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int r = h * 8 + lane_id() / 4;
        const bool told = lse && lane_id() % 4 == 0 && r < left;
        flash_end_row<T>(sum[h], most[h], factor, told ? lse + r : NULL);
    }
}

/* A warp's sums, times factor[row], become rows from `to` on, of which `left` are there: through
 * its own rows of a tile. */
template <class T, int D, int MT>
__device__ __forceinline__ void store_rows(char *tile, int first, const float (&sum)[MT][D / 8][4],
                                           const float (&factor)[MT][2], char *to, int64_t stride,
                                           int left, int d)
{
    constexpr int CHUNKS = D / V<T>;
    const int lane = lane_id();
    char *own = tile + first * PITCH<T, D>;
    __syncwarp();
#pragma unroll
    for (int r = 0; r < 2 * MT; r++)
#pragma unroll
        for (int n = 0; n < D / 8; n++) {
            const int row = r * 8 + lane / 4, at = (n * 8 + lane % 4 * 2) * (int)sizeof(T);
            char *p = own + row * PITCH<T, D> + (at ^ row % 8 << 4);
            const float x = sum[r / 2][n][r % 2 * 2] * factor[r / 2][r % 2];
            const float y = sum[r / 2][n][r % 2 * 2 + 1] * factor[r / 2][r % 2];
            if constexpr (sizeof(T) == 2)
                *(uint32_t *)p = narrow_pair<T>(x, y);
            else
                *(float2 *)p = make_float2(x, y);
        }
    __syncwarp();
#pragma unroll 4
    for (int i = lane; i < 16 * MT * CHUNKS; i += 32) {
        const int row = i / CHUNKS, c = i % CHUNKS;
        if (row < left && c * V<T> < d)
            store((T *)(to + row * stride) + c * V<T>, d - c * V<T>,
                  *(const uint4 *)(own + row * PITCH<T, D> + ((c ^ row % 8) << 4)));
    }
}

#endif
