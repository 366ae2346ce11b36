/* gemm_wgmma_symmetric.cu - batches of symmetric products of bf16 and f16 by the tensor cores of
 * GPUs of compute capability 9.0 (gemm_wgmma_tile.cuh). Of the pairs of tiles those on and below
 * the diagonal are multiplied; each is written where it is and, turned, above the diagonal. What is
 * added to a tile comes while it is multiplied. */
#include "gemm_series.h"
#include "gemm_triangle.cuh"
#include "gemm_wgmma.cuh"

/* c = alpha a b + beta addend, `pairs` of tiles in all products. */
struct symmetric_product {
    CUtensorMap a, b, c, addend;
    int pairs, of_matrix, steps;
    int adds; /* beta is not 0 */
    float alpha, beta;
};

#if HAS_WGMMA

template <class EACH>
__device__ __forceinline__ void for_tiles(const symmetric_product &p, const EACH &each)
{
    for (int t = (int)blockIdx.x / CLUSTER; t < p.pairs; t += (int)gridDim.x / CLUSTER) {
        batch_place place;
        place.matrix = t / p.of_matrix;
        place_of_tile(t % p.of_matrix, place.row, place.column);
        each(place);
    }
}

/* ---- what a group does beside its products ---- */

/* Where its 64 rows of a tile are. */
struct group_place {
    int row, column, matrix;
    bool turned; /* below the diagonal */
};

/* Turns of which each comes with a step along k: both parts of the tile before are written, and
 * then turned; behind that both parts of what is added are fetched and, some steps later, taken. */
enum { FETCH = 4, WAIT = 4, TURNS = FETCH + 2 * WAIT + 1 };

template <class T> struct group_turns {
    uint32_t pairs[64]; /* results on their way out, and then what is added */
    uint32_t staged, came;
    group_place out, now;
    bool waiting;

    __device__ __forceinline__ void send(const symmetric_product &p, int part, bool turned)
    {
        const uint32_t *const v = pairs + 32 * part;
        send_part([&] { turned ? stage_turned(v, staged) : stage_part(v, staged); },
                  [&] {
#pragma unroll
                      for (int i = 0; i < 2; i++) {
                          const int at = out.column + part * PART_COLUMNS<T> + 64 * i;
                          store_tile(&p.c, turned ? out.row : at, turned ? at : out.row, out.matrix,
                                     staged + i * BLOCK);
                      }
                  });
    }

    __device__ __forceinline__ void write(const symmetric_product &p, int turn)
    {
        if (!waiting)
            return;
        if (turn == 0)
            send(p, 0, false);
        else if (turn == 1)
            send(p, 1, false);
        else if (turn == 2 && out.turned)
            send(p, 0, true);
        else if (turn == 3 && out.turned)
            send(p, 1, true);
    }

    __device__ __forceinline__ void fetch(const symmetric_product &p, int part)
    {
        if (threadIdx.x % GROUP != 0)
            return;
        wait_for_stores_to_read();
        arrive_and_expect(came, STAGED);
#pragma unroll
        for (int i = 0; i < 2; i++)
            load_tile(staged + i * BLOCK, &p.addend, now.column + part * PART_COLUMNS<T> + 64 * i,
                      now.row, now.matrix, came);
    }

    __device__ __forceinline__ void take(int part)
    {
        wait_barrier(came, part);
        take_part(pairs + 32 * part, staged);
    }

    __device__ __forceinline__ void add(const symmetric_product &p, int turn)
    {
        if (!p.adds)
            return;
        if (turn == FETCH) {
            fetch(p, 0);
        } else if (turn == FETCH + WAIT) {
            take(0);
            group_barrier();
            fetch(p, 1);
        } else if (turn == FETCH + 2 * WAIT) {
            take(1);
        }
    }

    __device__ __forceinline__ void finish(const symmetric_product &p, const float (&d)[128])
    {
#pragma unroll
        for (int i = 0; i < 64; i++) {
            const float2 more = widen_pair<T>(p.adds ? pairs[i] : 0);
            pairs[i] = narrow_pair<T>(p.alpha * d[2 * i] + p.beta * more.x,
                                      p.alpha * d[2 * i + 1] + p.beta * more.y);
        }
        out = now;
        waiting = true;
    }
};

template <class T, int A_ACROSS, int B_ACROSS>
__device__ __forceinline__ void make_symmetric(const symmetric_product &p, const product_memory &m,
                                               uint32_t came)
{
    const int block = cluster_rank(), group = (int)threadIdx.x / GROUP - 1;
    ring r = {0, 0};
    group_turns<T> g;
    g.staged = m.results + group * STAGED;
    g.came = came + 8 * group;
    g.waiting = false;
    for_tiles(p, [&](batch_place place) {
        float d[128];
        g.now = {(place.row * CLUSTER + block) * TILE_M + 64 * group, place.column * TILE_N,
                 place.matrix, place.row > place.column};
        const auto turn = [&](int k) {
            g.write(p, k);
            g.add(p, k);
        };
        multiply_tile<T, A_ACROSS, B_ACROSS>(d, m, group, p.steps, r, turn);
        for (int k = p.steps; k < TURNS; k++)
            turn(k);
        g.finish(p, d);
    });
    for (int k = 0; k < FETCH; k++)
        g.write(p, k);
    if (threadIdx.x % GROUP == 0)
        wait_for_stores();
}
#endif

template <class T, int A_ACROSS, int B_ACROSS>
__global__ void __launch_bounds__(PRODUCT_THREADS, 1)
    symmetric_kernel(const __grid_constant__ symmetric_product p)
{
#if HAS_WGMMA
    __shared__ uint64_t came[GROUPS];
    const uint32_t barriers = shared_address(came);
    for (int i = 0; threadIdx.x == 0 && i < GROUPS; i++)
        init_barrier(barriers + 8 * i, 1);
    run_product<A_ACROSS, B_ACROSS>(
        p, [&](const product_memory &m) { make_symmetric<T, A_ACROSS, B_ACROSS>(p, m, barriers); });
#else
    (void)p;
#endif
}

/* ---- the host's side ---- */

/* Whether boxes can be copied of all matrices. */
static bool takes(const tg_tensor *t)
{
    const int64_t most = INT32_MAX / 2, units = 16 / (int64_t)tg_type_size(tg_type_of(t));
    int64_t strides = matrix_stride(t);
    for (int i = 0; i < t->ndim - 2; i++)
        strides |= tg_stride(t, i);
    return (uintptr_t)data_of(t) % 16 == 0 && strides % units == 0 &&
           matrix_stride(t) >= width_of(t) && width_of(t) <= most && matrix_rows(t) <= most;
}

/* Copies from shared memory write whole words: of rows of an odd number of elements one element
 * beyond the end, which is the caller's. */
static bool takes_result(const tg_tensor *c)
{
    return takes(c) && width_of(c) % 2 == 0;
}

static int64_t pairs_of_matrix(int64_t n)
{
    return tiles_of_triangle(ceil_div(n, PAIR));
}

int cuda_batched_gemm_wgmma_accepts(const tg_batched_gemm_args *args)
{
    const tg_gemm_args all = gemm_of_batch(args);
    const int64_t n = width_of(args->c);
    return args->symmetric && n >= LEAST_HALVED && gemm_inner(&all) > 0 && tg_numel(args->c) > 0 &&
           tg_type_of(args->c) == tg_type_of(args->a) && !(args->trans_a && args->trans_b) &&
           args->alpha != 0 && takes(args->a) && takes(args->b) && takes_result(args->c) &&
           takes(gemm_addend(&all)) &&
           tg_numel(args->c) / (n * n) <= INT32_MAX / pairs_of_matrix(n);
}

/* One series of the call. */
struct series_place {
    const tg_gemm_args *args;
    gemm_series s;
    int first;
    int64_t index;
};

/* Boxes of so many lines of a tensor's matrices. */
static bool map_matrices(CUtensorMap *map, const series_place &at, const tg_tensor *t, int64_t step,
                         int lines)
{
    return cuda_batch_tensor_map(map, tg_type_of(t), series_at(t, at.first, at.index), at.s.count,
                                 2 * step, matrix_rows(t), width_of(t), 2 * matrix_stride(t),
                                 lines);
}

template <class T, int A_ACROSS, int B_ACROSS>
static bool multiply_by_layout(const cuda_call &call, const series_place &at)
{
    static int known;
    const tg_gemm_args *const args = at.args;
    symmetric_product p = {};
    p.of_matrix = (int)pairs_of_matrix(width_of(args->c));
    p.pairs = (int)(at.s.count * p.of_matrix);
    p.steps = (int)ceil_div(gemm_inner(args), TILE_K);
    p.adds = args->beta != 0;
    p.alpha = (float)args->alpha;
    p.beta = (float)args->beta;
    return map_matrices(&p.a, at, args->a, at.s.a_step, A_ACROSS ? TILE_K : TILE_M) &&
           map_matrices(&p.b, at, args->b, at.s.b_step, B_ACROSS ? TILE_K : SHARE) &&
           map_matrices(&p.c, at, args->c, at.s.c_step, 64) &&
           map_matrices(&p.addend, at, gemm_addend(args), at.s.addend_step, 64) &&
           launch_pairs(call, &known, symmetric_kernel<T, A_ACROSS, B_ACROSS>, p.pairs, p);
}

template <class T> static bool multiply_by_type(const cuda_call &call, const series_place &at)
{
    if (at.args->trans_a)
        return multiply_by_layout<T, 1, 1>(call, at);
    return at.args->trans_b ? multiply_by_layout<T, 0, 0>(call, at)
                            : multiply_by_layout<T, 0, 1>(call, at);
}

tg_status cuda_batched_gemm_wgmma(tg_ctx *ctx, const tg_batched_gemm_args *args)
{
    cuda_call call;
    const tg_gemm_args all = gemm_of_batch(args);
    series_place at = {&all, series_of(&all), first_in_series(&all), 0};
    const tg_status status = cuda_begin(&call, ctx, "batched_gemm", args->c);
    if (status != TG_OK)
        return status;
    bool done = call.capability == 90;
    for (const int64_t end = count_series(&all); done && at.index < end; at.index++)
        done = tg_type_of(args->a) == TG_BF16 ? multiply_by_type<bf16>(call, at)
                                              : multiply_by_type<f16>(call, at);
    return cuda_end(&call, done ? TG_OK : TG_EUNSUPPORTED);
}
