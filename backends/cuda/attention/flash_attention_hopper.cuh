/* flash_attention_hopper.cuh - Hopper's copy engine (TMA), and products of a warpgroup, 128
 * threads, on tiles in shared memory (wgmma).
 *
 * A tile of 16-bit elements is made of panels of 64 columns, 128 bytes a row; chunk c of 16 bytes
 * of row r lies at place c ^ (r % 8) of its row, as the copy engine writes it and as products read
 * it. A panel begins at a multiple of 1024 bytes. A warpgroup's sums [64, N] are blocks of 8
 * columns: thread t has the elements (t / 32 * 16 + t % 32 / 4 + 8 h, 8 n + 2 (t % 4) + e) as
 * sum[n][2 h + e]. */
#ifndef CUDA_FLASH_ATTENTION_HOPPER_CUH
#define CUDA_FLASH_ATTENTION_HOPPER_CUH

#include "flash_attention_tile.cuh"
#include "host/tensor_map.h"
#include "rows/hopper.cuh"

enum { PANEL_COLUMNS = 64, PANEL_PITCH = 128, WARPGROUP = 128 };

/* ---- copies ---- */

/* A tensor [batch, position, head, d] to the copy engine; what lies beyond its ends is read as
 * 0. */
__device__ __forceinline__ void copy_panel(uint32_t to, const CUtensorMap *map, uint32_t barrier,
                                           int column, int head, int row, int batch)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
                 "l"(map), "r"(column), "r"(head), "r"(row), "r"(batch), "r"(barrier)
                 : "memory");
}

template <int D, int ROWS>
__device__ __forceinline__ void copy_tile(uint32_t to, const CUtensorMap *map, uint32_t barrier,
                                          int head, int row, int batch)
{
#pragma unroll
    for (int column = 0; column < D; column += PANEL_COLUMNS)
        copy_panel(to + column / PANEL_COLUMNS * ROWS * PANEL_PITCH, map, barrier, column, head,
                   row, batch);
}

/* Bytes in a row; the addresses and their number are multiples of 16. */
__device__ __forceinline__ void copy_bytes(uint32_t to, const void *from, int bytes,
                                           uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

/* The other way: numbers of f32 from shared memory are written, or added to what is there. */
__device__ __forceinline__ void add_bytes(void *to, uint32_t from, int bytes, bool add)
{
    if (add)
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 "
                     "[%0], [%1], %2;" ::"l"(to),
                     "r"(from), "r"(bytes)
                     : "memory");
    else
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
                     "r"(from), "r"(bytes)
                     : "memory");
}

/* Between what the copy engine does in memory and what threads do there. */
__device__ __forceinline__ void fence_copies()
{
    asm volatile("fence.proxy.async.global;" ::: "memory");
}

/* ---- products: they run on while the warps go on, in groups that end in the order in which they
 * began ---- */

/* Sums that are ready when wait_for_products() returns are read after this alone, which keeps the
 * compiler from reading them before. */
template <int N> __device__ __forceinline__ void settle(float (&sum)[N][4])
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            asm volatile("" : "+f"(sum[n][i])::"memory");
}

#define SUMS_8(n)                                                                            \
    "+f"(sum[n][0]), "+f"(sum[n][1]), "+f"(sum[n][2]), "+f"(sum[n][3]), "+f"(sum[n + 1][0]), \
        "+f"(sum[n + 1][1]), "+f"(sum[n + 1][2]), "+f"(sum[n + 1][3])
#define SUMS_32(n) SUMS_8(n), SUMS_8(n + 2), SUMS_8(n + 4), SUMS_8(n + 6)
#define SUMS_16(n) SUMS_8(n), SUMS_8(n + 2)
#define NAMES_16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define NAMES_32                                                                                 \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24," \
    "%25,%26,%27,%28,%29,%30,%31"
#define NAMES_64                                                                                 \
    NAMES_32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51," \
             "%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"

/* sum (+)= a b of depth 16. A_DOWN, B_DOWN: the common dimension is that of its rows, not of its
 * columns. */
#define MULTIPLY_TILES(n, type, names, a_at, b_at, add_at, a_down_at, b_down_at, ...)       \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " add_at ", 0;\n"                    \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" names \
                 "}, " a_at ", " b_at ", add, 1, 1, " a_down_at ", " b_down_at ";\n}\n"     \
                 : __VA_ARGS__                                                              \
                 : "l"(a), "l"(b), "r"((int)add), "n"((int)A_DOWN), "n"((int)B_DOWN))

template <class T, bool A_DOWN, bool B_DOWN, int N>
__device__ __forceinline__ void multiply_step(float (&sum)[N][4], uint64_t a, uint64_t b, bool add)
{
#if HAS_WGMMA
    static_assert(N == 4 || N == 8 || N == 16, "32, 64 or 128 columns");
    if constexpr (N == 4 && IS_BF16<T>)
        MULTIPLY_TILES(32, "bf16", NAMES_16, "%16", "%17", "%18", "%19", "%20", SUMS_16(0));
    else if constexpr (N == 4)
        MULTIPLY_TILES(32, "f16", NAMES_16, "%16", "%17", "%18", "%19", "%20", SUMS_16(0));
    else if constexpr (N == 8 && IS_BF16<T>)
        MULTIPLY_TILES(64, "bf16", NAMES_32, "%32", "%33", "%34", "%35", "%36", SUMS_32(0));
    else if constexpr (N == 8)
        MULTIPLY_TILES(64, "f16", NAMES_32, "%32", "%33", "%34", "%35", "%36", SUMS_32(0));
    else if constexpr (IS_BF16<T>)
        MULTIPLY_TILES(128, "bf16", NAMES_64, "%64", "%65", "%66", "%67", "%68", SUMS_32(0),
                       SUMS_32(8));
    else
        MULTIPLY_TILES(128, "f16", NAMES_64, "%64", "%65", "%66", "%67", "%68", SUMS_32(0),
                       SUMS_32(8));
#endif
}

/* The same with a in registers, as mma.sync takes it, and b's rows as the common dimension. */
#define MULTIPLY_REGISTERS(n, type, names, a_at, b_at, ...)                                 \
    asm volatile("{\n.reg .pred add;\nsetp.eq.b32 add, 0, 0;\n"                             \
                 "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" names \
                 "}, {" a_at "}, " b_at ", add, 1, 1, 1;\n}\n"                              \
                 : __VA_ARGS__                                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

template <class T, int N>
__device__ __forceinline__ void multiply_step(float (&sum)[N][4], const uint32_t (&a)[4],
                                              uint64_t b)
{
#if HAS_WGMMA
    static_assert(N == 8 || N == 16, "64 or 128 columns");
    if constexpr (N == 8 && IS_BF16<T>)
        MULTIPLY_REGISTERS(64, "bf16", NAMES_32, "%32,%33,%34,%35", "%36", SUMS_32(0));
    else if constexpr (N == 8)
        MULTIPLY_REGISTERS(64, "f16", NAMES_32, "%32,%33,%34,%35", "%36", SUMS_32(0));
    else if constexpr (IS_BF16<T>)
        MULTIPLY_REGISTERS(128, "bf16", NAMES_64, "%64,%65,%66,%67", "%68", SUMS_32(0), SUMS_32(8));
    else
        MULTIPLY_REGISTERS(128, "f16", NAMES_64, "%64,%65,%66,%67", "%68", SUMS_32(0), SUMS_32(8));
#endif
}

/* The descriptor of what lies so many bytes behind: one addition, where a descriptor made anew
 * takes five. Between products of 64 columns, 32 cycles each, there is no time for more. */
__device__ __forceinline__ uint64_t behind(uint64_t descriptor, int bytes)
{
    const uint64_t upper = descriptor >> 32 << 32;
    return upper | (uint32_t)((uint32_t)descriptor + (uint32_t)(bytes >> 4));
}

/* Bytes from the beginning of a tile to its k-th 16 columns. */
__device__ __forceinline__ constexpr int columns_at(int k, int panel)
{
    return k / 4 * panel + k % 4 * 32;
}

enum { STEP_OF_ROWS = 16 * PANEL_PITCH };

/* sum = a b^T: 64 rows of a by the 8 N rows of b, of DEPTH elements. */
template <class T, int DEPTH, int N>
__device__ __forceinline__ void multiply_tiles(float (&sum)[N][4], uint32_t a, int a_panel,
                                               uint32_t b, int b_panel)
{
    const uint64_t of_a = descriptor_of(a, a_panel), of_b = descriptor_of(b, b_panel);
    begin_products();
#pragma unroll
    for (int k = 0; k < DEPTH / 16; k++)
        multiply_step<T, false, false>(sum, behind(of_a, columns_at(k, a_panel)),
                                       behind(of_b, columns_at(k, b_panel)), k > 0);
    end_products();
}

/* sum = a^T b: 64 columns of a by 8 N columns of b, of DEPTH rows. */
template <class T, int DEPTH, int N>
__device__ __forceinline__ void multiply_columns(float (&sum)[N][4], uint32_t a, int a_panel,
                                                 uint32_t b, int b_panel)
{
    const uint64_t of_a = descriptor_of(a, a_panel), of_b = descriptor_of(b, b_panel);
    begin_products();
#pragma unroll
    for (int k = 0; k < DEPTH / 16; k++)
        multiply_step<T, true, true>(sum, behind(of_a, k * STEP_OF_ROWS),
                                     behind(of_b, k * STEP_OF_ROWS), k > 0);
    end_products();
}

/* sum += a b: a in registers, of DEPTH columns, by 8 N columns of b. */
template <class T, int STEPS, int N>
__device__ __forceinline__ void add_columns(float (&sum)[N][4], const uint32_t (&a)[STEPS][4],
                                            uint32_t b, int b_panel)
{
    const uint64_t of_b = descriptor_of(b, b_panel);
    begin_products();
#pragma unroll
    for (int k = 0; k < STEPS; k++)
        multiply_step<T>(sum, a[k], behind(of_b, k * STEP_OF_ROWS));
    end_products();
}

/* sum += a b: 64 rows of a, of DEPTH elements, by 8 N columns of b. */
template <class T, int DEPTH, int N>
__device__ __forceinline__ void add_rows(float (&sum)[N][4], uint32_t a, int a_panel, uint32_t b,
                                         int b_panel)
{
    const uint64_t of_a = descriptor_of(a, a_panel), of_b = descriptor_of(b, b_panel);
    begin_products();
#pragma unroll
    for (int k = 0; k < DEPTH / 16; k++)
        multiply_step<T, false, true>(sum, behind(of_a, columns_at(k, a_panel)),
                                      behind(of_b, k * STEP_OF_ROWS), true);
    end_products();
}

/* Sums, rounded to T, as the first factor of a product. */
template <class T, int N>
__device__ __forceinline__ void round_sums(uint32_t (&a)[N / 2][4], const float (&sum)[N][4])
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int h = 0; h < 2; h++)
            a[n / 2][n % 2 * 2 + h] = narrow_pair<T>(sum[n][2 * h], sum[n][2 * h + 1]);
}

/* ---- to memory ---- */

/* Four words of each of four neighbouring lanes: lane t gets word t of all, in their order. */
__device__ __forceinline__ void exchange_of_four(uint32_t (&x)[4])
{
    const int lane = lane_id();
#pragma unroll
    for (int step = 1; step < 4; step *= 2) {
        const bool upper = lane & step;
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (!(i & step)) {
                const uint32_t give = upper ? x[i] : x[i + step];
                const uint32_t got = __shfl_xor_sync(0xffffffff, give, step);
                x[i] = upper ? got : x[i];
                x[i + step] = upper ? x[i + step] : got;
            }
    }
}

/* A warp's sums, times `factor` of their half, become rows from `to` on, of which `left` are there,
 * with d elements each. */
template <class T, int N>
__device__ __forceinline__ void store_sums(const float (&sum)[N][4], const float (&factor)[2],
                                           char *to, int64_t stride, int left, int d)
{
    const int lane = lane_id();
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int n = 0; n < N; n += 4) {
            uint32_t x[4];
#pragma unroll
            for (int i = 0; i < 4; i++)
                x[i] = narrow_pair<T>(sum[n + i][2 * h] * factor[h],
                                      sum[n + i][2 * h + 1] * factor[h]);
            exchange_of_four(x);
            const int row = h * 8 + lane / 4, column = 8 * (n + lane % 4);
            if (row < left && column < d)
                *(uint4 *)(to + row * stride + column * sizeof(T)) =
                    make_uint4(x[0], x[1], x[2], x[3]);
        }
}

/* ---- the host's side ---- */

/* Tiles of `box` rows of `width` elements of one head. */
template <class T>
static inline bool flash_map(CUtensorMap *map, const flash_problem &p, const flash_view &v,
                             int rows, int heads, int width, int box)
{
    const int64_t sizes[] = {width, heads, rows, p.batches};
    const int64_t strides[] = {v.head, v.row, v.batch};
    const int tile[] = {PANEL_COLUMNS, 1, box, 1};
    return cuda_make_tensor_map(map, IS_BF16<T> ? TG_BF16 : TG_F16, v.data, sizes, strides, tile);
}

/* A kernel whose blocks take one job after another: a block a processor at most. */
template <class C, class KERNEL, class ARGS>
static void flash_start(KERNEL kernel, const ARGS &a, int64_t jobs, int processors,
                        cudaStream_t stream)
{
    cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         C::BYTES);
    kernel<<<(unsigned)min_of(jobs, processors), C::THREADS, C::BYTES, stream>>>(a);
}

#endif
