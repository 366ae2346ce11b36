/* gemm_wgmma.cuh - products of 16-bit matrices on GPUs of compute capability 9.0
 * (gemm_wgmma_tile.cuh), for operators that do something with the result before it leaves the
 * multiprocessor. */
#ifndef CUDA_GEMM_WGMMA_CUH
#define CUDA_GEMM_WGMMA_CUH

#include "gemm_wgmma_tile.cuh"
#include "host/tensor_map.h"
#include "rows/fragments.cuh"
#include "rows/launch_clusters.cuh"

#if HAS_WGMMA

/* ---- results on their way out: through shared memory in parts of STAGED bytes, blocks of 64 rows
 * and 128 bytes, swizzled as copies do that. A thread has, of rows lane / 4 and 8 more of its
 * warp's 16, two neighbours in every 8 columns. ---- */

/* Of C: columns of a part, and parts of a tile. */
template <class C> constexpr int PART_COLUMNS = STAGED / 64 / (int)sizeof(C);
template <class C> constexpr int PARTS = TILE_N / PART_COLUMNS<C>;

/* The thread's pairs of 16-bit elements of a part, in order. */
__device__ __forceinline__ void stage_part(const uint32_t *pairs, uint32_t to)
{
    const int lane = (int)threadIdx.x % 32, row = (int)threadIdx.x % GROUP / 32 * 16 + lane % 16;
    const uint32_t own = to + row * LINE_BYTES + (lane / 16 ^ row % 8) * 16;
#pragma unroll
    for (int j = 0; j < PART_COLUMNS<bf16>; j += 16) {
        const uint32_t *v = pairs + j / 4;
        store_matrices(j / 64 * BLOCK + (own ^ j / 8 % 8 * 16), v[0], v[1], v[2], v[3]);
    }
}

/* The same of f32. */
__device__ __forceinline__ void stage_part(const float *numbers, uint32_t to)
{
    const int lane = (int)threadIdx.x % 32, row = (int)threadIdx.x % GROUP / 32 * 16 + lane / 4;
    const uint32_t own = to + row * LINE_BYTES + (lane % 4 / 2 ^ row % 8) * 16 + lane % 2 * 8;
#pragma unroll
    for (int j = 0; j < PART_COLUMNS<float>; j += 8) {
        const float *v = numbers + j / 2;
        const uint32_t at = j / 32 * BLOCK + (own ^ j / 4 % 8 * 16);
        store_pair(at, v[0], v[1]);
        store_pair(at + 8 * LINE_BYTES, v[2], v[3]);
    }
}

/* stage_part() with rows and columns exchanged. */
__device__ __forceinline__ void stage_turned(const uint32_t *pairs, uint32_t to)
{
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x % GROUP / 32, line = lane % 8;
    const uint32_t own =
        to + (lane / 16 * 8 + line) * LINE_BYTES + (2 * warp + lane / 8 % 2 ^ line) * 16;
#pragma unroll
    for (int j = 0; j < PART_COLUMNS<bf16>; j += 16) {
        const uint32_t *v = pairs + j / 4;
        store_transposed(own + j * LINE_BYTES, v[0], v[1], v[2], v[3]);
    }
}

/* stage_part() backwards. */
__device__ __forceinline__ void take_part(uint32_t *pairs, uint32_t from)
{
    const int lane = (int)threadIdx.x % 32, row = (int)threadIdx.x % GROUP / 32 * 16 + lane % 16;
    const uint32_t own = from + row * LINE_BYTES + (lane / 16 ^ row % 8) * 16;
#pragma unroll
    for (int j = 0; j < PART_COLUMNS<bf16>; j += 16) {
        uint32_t v[4];
        load_fragments(v, j / 64 * BLOCK + (own ^ j / 8 % 8 * 16));
#pragma unroll
        for (int i = 0; i < 4; i++)
            pairs[j / 4 + i] = v[i];
    }
}

__device__ __forceinline__ void take_part(float *numbers, uint32_t from)
{
    const int lane = (int)threadIdx.x % 32, row = (int)threadIdx.x % GROUP / 32 * 16 + lane / 4;
    const uint32_t own = from + row * LINE_BYTES + (lane % 4 / 2 ^ row % 8) * 16 + lane % 2 * 8;
#pragma unroll
    for (int j = 0; j < PART_COLUMNS<float>; j += 8) {
        float *v = numbers + j / 2;
        const uint32_t at = j / 32 * BLOCK + (own ^ j / 4 % 8 * 16);
        load_pair(at, v[0], v[1]);
        load_pair(at + 8 * LINE_BYTES, v[2], v[3]);
    }
}

/* Of the threads that this one multiplies with. */
__device__ __forceinline__ void group_barrier()
{
    named_barrier(1 + (int)threadIdx.x / GROUP, GROUP);
}

/* A part on its way out: stage() puts it into shared memory, store(), by one thread, copies it from
 * there. */
template <class STAGE_IT, class STORE>
__device__ __forceinline__ void send_part(const STAGE_IT &stage, const STORE &store)
{
    const bool first = threadIdx.x % GROUP == 0;
    if (first)
        wait_for_stores_to_read();
    group_barrier();
    stage();
    fence_shared();
    group_barrier();
    if (!first)
        return;
    store();
    end_stores();
}

/* Writes a part whose first element is at row, column; v: the thread's elements of it. */
template <class RESULT, class V>
__device__ __forceinline__ void write_part(const product &p, const V *v, int row, int column,
                                           uint32_t staged)
{
    typedef typename RESULT::type C;
    const int wide = LINE_BYTES / (int)sizeof(C);
    const auto store = [&] {
#pragma unroll
        for (int i = 0; i < PART_COLUMNS<C> / wide; i++) {
            if (RESULT::ADDED)
                add_tile(&p.c, column + i * wide, row, staged + i * BLOCK);
            else
                store_tile(&p.c, column + i * wide, row, staged + i * BLOCK);
        }
    };
    send_part([&] { stage_part(v, staged); }, store);
}

/* A tile's results of 16 bits, which are written while the next tile is multiplied. */
template <class RESULT> struct outgoing {
    uint32_t pairs[64];
    int row, column, waiting;

    __device__ __forceinline__ void write(const product &p, int part, uint32_t staged)
    {
        typedef typename RESULT::type C;
        if (waiting && part == 0)
            write_part<RESULT>(p, pairs, row, column, staged);
        else if (waiting && part == 1)
            write_part<RESULT>(p, pairs + 32, row, column + PART_COLUMNS<C>, staged);
    }
};

/* What a group does that multiplies. */
template <class T, int A_ACROSS, int B_ACROSS, class RESULT>
__device__ __forceinline__ void make_results(const product &p, const RESULT &result,
                                             const product_memory &m)
{
    typedef typename RESULT::type C;
    const int block = cluster_rank(), group = (int)threadIdx.x / GROUP - 1;
    const int own = (int)threadIdx.x % GROUP / 32 * 16 + (int)threadIdx.x % 32 / 4;
    const uint32_t staged = m.results + group * STAGED;
    ring r = {0, 0};
    outgoing<RESULT> out;
    out.waiting = 0;
    for_tiles(p, [&](tile_place place) {
        const int row = (place.row * CLUSTER + block) * TILE_M + 64 * group;
        const int column = place.column * TILE_N;
        float d[128];
        const auto rows = result.begin(row + own);
        multiply_tile<T, A_ACROSS, B_ACROSS>(d, m, group, p.steps, r, [&](int k) {
            if (sizeof(C) == 2)
                out.write(p, k, staged);
            if constexpr (RESULT::FETCHES)
                if (k == PARTS<C>)
                    result.fetch(row + own, place.column, out.pairs);
        });
        if (sizeof(C) == 2 && p.steps == 1)
            out.write(p, 1, staged);
        if constexpr (RESULT::FETCHES)
            if (p.steps <= PARTS<C>)
                result.fetch(row + own, place.column, out.pairs);
        if constexpr (sizeof(C) == 2) {
            out.row = row;
            out.column = column;
            out.waiting = result.finish(d, rows, row + own, place.column, out.pairs);
        } else {
            result.finish(d, rows);
#pragma unroll
            for (int i = 0; i < PARTS<C>; i++)
                write_part<RESULT>(p, d + 128 / PARTS<C> * i, row, column + i * PART_COLUMNS<C>,
                                   staged);
        }
    });
    for (int i = 0; i < PARTS<bf16>; i++)
        out.write(p, i, staged);
    if (threadIdx.x % GROUP == 0)
        wait_for_stores();
}

/* What a block does. make(memory): the groups that multiply. */
template <int A_ACROSS, int B_ACROSS, class PRODUCT, class MAKE>
__device__ __forceinline__ void run_product(const PRODUCT &p, const MAKE &make)
{
    extern __shared__ char memory[];
    __shared__ uint64_t full[STAGES], empty[STAGES];
    const uint32_t tiles = (shared_address(memory) + 1023) & ~1023u;
    const product_memory m = {shared_address(full), shared_address(empty), tiles,
                              tiles + STAGES * STAGE};
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            init_barrier(m.full + 8 * i, 1);
            init_barrier(m.empty + 8 * i, CLUSTER * GROUPS);
        }
        fence_barriers();
    }
    cluster_barrier();
    if (threadIdx.x < GROUP) {
        fewer_registers<40>();
        if (threadIdx.x == 0)
            copy_operands<A_ACROSS, B_ACROSS>(p, m);
    } else {
        more_registers<232>();
        make(m);
    }
    cluster_barrier(); /* no block ends while the other one may write to it */
}
#endif

/* RESULT: begin(row) reads what is needed of two rows, `row` and 8 further. fetch(row, tile's
 * column, pairs), if RESULT::FETCHES, reads 32 bits for each pair of the thread's numbers while the
 * product runs. finish(d, that, row, tile's column, pairs) makes pairs of RESULT::type, 16 bits, of
 * the thread's numbers of these rows, and answers whether they are written; finish(d, that) changes
 * f32, which are added to what is there if RESULT::ADDED. */
template <class T, int A_ACROSS, int B_ACROSS, class RESULT>
__global__ void __launch_bounds__(PRODUCT_THREADS, 1)
    product_kernel(const __grid_constant__ product p, const RESULT result)
{
#if HAS_WGMMA
    if (has_no_tiles(p))
        return;
    run_product<A_ACROSS, B_ACROSS>(
        p, [&](const product_memory &m) { make_results<T, A_ACROSS, B_ACROSS>(p, result, m); });
#else
    (void)p;
    (void)result;
#endif
}

/* ---- results ---- */

/* The product times a number, and each row times one of its own, where `factors` is given. */
template <class C, bool ADD> struct scaled_result {
    typedef C type;
    static constexpr bool ADDED = ADD, FETCHES = false;
    float alpha;
    const float *factors;
    int rows;

    __device__ __forceinline__ float2 begin(int row) const
    {
        return make_float2(factor(row), factor(row + 8));
    }

    __device__ __forceinline__ float factor(int row) const
    {
        return alpha * (factors && row < rows ? factors[row] : 1);
    }

    __device__ __forceinline__ bool finish(float (&d)[128], float2 f, int, int,
                                           uint32_t (&pairs)[64]) const
    {
        finish(d, f);
#pragma unroll
        for (int i = 0; i < 64; i++)
            pairs[i] = narrow_pair<C>(d[2 * i], d[2 * i + 1]);
        return true;
    }

    __device__ __forceinline__ void finish(float (&d)[128], float2 f) const
    {
#pragma unroll
        for (int i = 0; i < 128; i++)
            d[i] *= i & 2 ? f.y : f.x;
    }
};

/* ---- the host's side ---- */

/* Whether copies of tiles can move the rows of a tensor. */
static inline bool has_tiles(const tg_tensor *t)
{
    const int64_t size = (int64_t)tg_type_size(tg_type_of(t)), stride = stride_of(t);
    return (uintptr_t)data_of(t) % 16 == 0 && stride >= width_of(t) && stride * size % 16 == 0;
}

/* A matrix of 16 bits that a product reads: `lines` are its rows where k is the contiguous
 * dimension, else its columns. */
struct product_operand {
    const void *data;
    int64_t lines, k, stride; /* elements from one line, or k, to the next */
};

/* For tiles of so many lines. */
template <int ACROSS, int LINES>
static bool map_operand(CUtensorMap *map, int type, const product_operand &o)
{
    return cuda_tensor_map(map, type, o.data, ACROSS ? o.k : o.lines, ACROSS ? o.lines : o.k,
                           2 * o.stride, ACROSS ? TILE_K : LINES);
}

/* Launches a kernel as above for so many pairs of tiles. Returns false, with nothing launched,
 * where it is not there. */
template <class KERNEL, class... ARGS>
static bool launch_pairs(const cuda_call &call, int *known, KERNEL kernel, int64_t pairs,
                         const ARGS &...args)
{
    return launch_clusters(call, known, kernel, CLUSTER, PRODUCT_THREADS, PRODUCT_SHARED, pairs,
                           args...);
}

/* c of m x n numbers, `stride` apart, from a and b; NULL where the result is never written. Returns
 * false, with nothing launched, if the card or the tensors are not such that this can be done. */
template <class T, int A_ACROSS, int B_ACROSS, class RESULT>
static bool launch_product(const cuda_call &call, int type, const product_operand &a,
                           const product_operand &b, void *c, int64_t stride, const int *only,
                           const RESULT &result)
{
    typedef typename RESULT::type C;
    static int known;
    const auto kernel = product_kernel<T, A_ACROSS, B_ACROSS, RESULT>;
    const int c_type = sizeof(C) == 4 ? (int)TG_F32 : type;
    product p = {};
    if (call.capability != 90 || !map_operand<A_ACROSS, TILE_M>(&p.a, type, a) ||
        !map_operand<B_ACROSS, SHARE>(&p.b, type, b) ||
        (c && !cuda_tensor_map(&p.c, c_type, c, a.lines, b.lines, stride * (int)sizeof(C), 64)))
        return false;
    p.rows = (int)ceil_div(a.lines, PAIR);
    p.columns = (int)ceil_div(b.lines, TILE_N);
    p.steps = (int)ceil_div(a.k, TILE_K);
    p.together = 8;
    p.only = only;
    return launch_pairs(call, &known, kernel, (int64_t)p.rows * p.columns, p, result);
}

#endif
