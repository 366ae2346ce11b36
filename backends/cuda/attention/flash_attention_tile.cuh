/* flash_attention_tile.cuh - tiles in shared memory, and their products in the registers of a warp.
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

/* ROWS rows from `from` on, of which `left` are there, with d elements each; the rest is 0. */
template <class T, int D, int ROWS, int THREADS>
__device__ __forceinline__ void load_tile(uint32_t tile, const char *from, int64_t stride, int left,
                                          int d)
{
    constexpr int CHUNKS = D / V<T>, STEP = THREADS / CHUNKS;
    static_assert(THREADS % CHUNKS == 0 && ROWS % STEP == 0, "threads go over whole rows");
    const int c = threadIdx.x % CHUNKS, first = threadIdx.x / CHUNKS;
    const bool inside = c * V<T> < d;
#pragma unroll
    for (int i = 0; i < ROWS; i += STEP) {
        const int r = first + i;
        copy_ahead<16>(tile + r * PITCH<T, D> + ((c ^ r % 8) << 4), from + r * stride + c * 16,
                       inside && r < left);
    }
}

/* ---- products ---- */

__device__ __forceinline__ int lane_id()
{
    return threadIdx.x % 32;
}

__device__ __forceinline__ void load_fragments(uint32_t (&x)[4], uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address));
}

__device__ __forceinline__ void load_transposed(uint32_t (&x)[4], uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address));
}

template <class T>
__device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                         uint32_t b1)
{
    if constexpr (sizeof(T) == 4)
        return;
    else if constexpr (IS_BF16<T>)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                     "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, "
                     "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
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

/* sum = a b^T: 16 MT rows of tile a, from its row `first` on, by the 8 NT rows of tile b. */
template <class T, int D, int MT, int NT>
__device__ __forceinline__ void multiply_rows(float (&sum)[MT][NT][4], uint32_t a, int first,
                                              uint32_t b)
{
    constexpr int P = PITCH<T, D>;
    const int lane = lane_id();
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                sum[m][n][i] = 0;
    if constexpr (sizeof(T) == 2) {
        const uint32_t from = a + (first + lane % 16) * P + ((lane / 16 ^ lane % 8) << 4);
        const uint32_t with = b + (lane / 16 * 8 + lane % 8) * P + ((lane / 8 % 2 ^ lane % 8) << 4);
#pragma unroll
        for (int k = 0; k < D / 16; k++) {
            uint32_t x[MT][4];
#pragma unroll
            for (int m = 0; m < MT; m++)
                load_fragments(x[m], (from ^ k << 5) + m * 16 * P);
#pragma unroll
            for (int n = 0; n < NT; n += 2) {
                uint32_t y[4];
                load_fragments(y, (with ^ k << 5) + n * 8 * P);
#pragma unroll
                for (int m = 0; m < MT; m++) {
                    multiply<T>(sum[m][n], x[m], y[0], y[1]);
                    multiply<T>(sum[m][n + 1], x[m], y[2], y[3]);
                }
            }
        }
    } else {
        const int row = lane / 4, column = lane % 4 * 2;
#pragma unroll 2
        for (int c = 0; c < D / 4; c++) {
            float4 y[NT][2];
#pragma unroll
            for (int n = 0; n < NT; n++)
#pragma unroll
                for (int e = 0; e < 2; e++)
                    y[n][e] =
                        shared_float4(b + (n * 8 + column + e) * P + ((c ^ (column + e)) << 4));
#pragma unroll
            for (int r = 0; r < 2 * MT; r++) {
                const float4 x = shared_float4(a + (first + r * 8 + row) * P + ((c ^ row) << 4));
#pragma unroll
                for (int n = 0; n < NT; n++)
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        float &s = sum[r / 2][n][r % 2 * 2 + e];
                        s = fmaf(x.x, y[n][e].x, s);
                        s = fmaf(x.y, y[n][e].y, s);
                        s = fmaf(x.z, y[n][e].z, s);
                        s = fmaf(x.w, y[n][e].w, s);
                    }
            }
        }
    }
}

/* sum += p b: p [16 MT, 8 NT] in registers, rounded to T, by the 8 NT rows of tile b. */
template <class T, int D, int MT, int NT>
__device__ __forceinline__ void add_product(float (&sum)[MT][D / 8][4], const float (&p)[MT][NT][4],
                                            uint32_t b)
{
    constexpr int P = PITCH<T, D>;
    const int lane = lane_id();
    if constexpr (sizeof(T) == 2) {
        const uint32_t with = b + lane % 16 * P + ((lane / 16 ^ lane % 8) << 4);
#pragma unroll
        for (int k = 0; k < NT; k += 2) {
            uint32_t x[MT][4];
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    x[m][i] =
                        narrow_pair<T>(p[m][k + i / 2][i % 2 * 2], p[m][k + i / 2][i % 2 * 2 + 1]);
#pragma unroll
            for (int n = 0; n < D / 8; n += 2) {
                uint32_t y[4];
                load_transposed(y, (with ^ n << 4) + k * 8 * P);
#pragma unroll
                for (int m = 0; m < MT; m++) {
                    multiply<T>(sum[m][n], x[m], y[0], y[1]);
                    multiply<T>(sum[m][n + 1], x[m], y[2], y[3]);
                }
            }
        }
    } else {
#pragma unroll
        for (int k = 0; k < NT; k++)
#pragma unroll
            for (int e = 0; e < 2; e++)
#pragma unroll 1
                for (int quad = 0; quad < 4; quad++) { /* row k 8 + 2 quad + e of b */
                    const int r = 2 * quad + e;
                    const uint32_t with =
                        b + (k * 8 + r) * P + ((lane % 4 / 2 ^ r) << 4) + lane % 2 * 8;
                    float x[2 * MT];
#pragma unroll
                    for (int i = 0; i < 2 * MT; i++)
                        x[i] =
                            __shfl_sync(0xffffffff, p[i / 2][k][i % 2 * 2 + e], (lane & ~3) + quad);
#pragma unroll
                    for (int n = 0; n < D / 8; n++) {
                        const float2 y = shared_float2(with ^ n << 5);
#pragma unroll
                        for (int i = 0; i < 2 * MT; i++) {
                            sum[i / 2][n][i % 2 * 2] = fmaf(x[i], y.x, sum[i / 2][n][i % 2 * 2]);
                            sum[i / 2][n][i % 2 * 2 + 1] =
                                fmaf(x[i], y.y, sum[i / 2][n][i % 2 * 2 + 1]);
                        }
                    }
                }
    }
}

/* ---- to memory ---- */

/* Sums of powers of 16 rows become what the rows of y are multiplied with; lse is NULL if it is not
 * asked for, and otherwise that of `left` rows. */
template <class T>
__device__ __forceinline__ void flash_end_rows(float (&sum)[2], const float (&most)[2],
                                               float factor, float *lse, int left)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float all = sum[h] + __shfl_xor_sync(0xffffffff, sum[h], 1);
        all += __shfl_xor_sync(0xffffffff, all, 2);
        const int r = h * 8 + lane_id() / 4;
        if (lse && lane_id() % 4 == 0 && r < left)
            lse[r] = all == 0 ? -CUDART_INF_F : (most[h] * factor + log2f(all * P_UNIT<T>)) * LN_2;
        sum[h] = all == 0 ? 0 : 1 / all;
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
