/* flash_attention_few_hopper.cuh - the forward on Hopper of few queries to many keys, with the bits
 * that the forward of many queries has (flash_attention_attend_hopper.cuh).
 *
 * That goes over the tiles of keys one after the other, and what it does with the values of one
 * tile follows what it has done with those of the tile before. But scores depend on no other tile,
 * and the greatest score so far is the same in any order. So one kernel makes the scores, a block a
 * tile of keys; another one, a block for 64 columns of the values of a head, has warps that make
 * powers of scores, a tile each at the same time, and a warpgroup that adds up their products with
 * values in the order of the tiles. Rows are the queries of all heads that read a head of keys, as
 * query x group + head: no row of a product knows the others. */
#ifndef CUDA_FLASH_ATTENTION_FEW_HOPPER_CUH
#define CUDA_FLASH_ATTENTION_FEW_HOPPER_CUH

#include "flash_attention_forward_hopper.cuh"

enum {
    FEW_ROWS = 16, /* a warp's */
    FEW_KEYS = 128,
    FEW_COLUMNS = 64,
    FEW_LEAST_TILES = 4, /* with fewer tiles one block has them all */
    FEW_N = FEW_KEYS / 8,
    /* of a warpgroup's 64 rows none but the first warp's are there */
    FEW_Q_PANEL = 64 * PANEL_PITCH,
    FEW_K_PANEL = FEW_KEYS * PANEL_PITCH,
    FEW_OF_V = FEW_KEYS * FEW_COLUMNS * 2,
    FEW_STAGES = 8,   /* of values, at most */
    FEW_WEIGHERS = 8, /* warps that make powers, a place for the powers of a tile each */
    FEW_OF_WEIGHTS = FEW_KEYS / 16 * 512,
    FEW_PLACE = FEW_OF_WEIGHTS + 3 * 32 * (int)sizeof(float2),
    FEW_WEIGHTS_BYTES = FEW_WEIGHERS * FEW_PLACE + 1024,
    FEW_SUM_THREADS = WARPGROUP + 32 * FEW_WEIGHERS + 32
};

struct flash_few {
    flash_problem p;
    CUtensorMap q, k, v;
    int rows, tiles, panels; /* of a head of keys; of values, in columns */
    int stages;
    float2 *scores; /* [B,Hkv,tiles,halves,16,32]: as they lie in registers */
    float *tops;    /* [B,Hkv,tiles,16]: greatest scores */
};

/* ---- scores ---- */

template <class T, int D, int HALVES>
__global__ void __launch_bounds__(WARPGROUP)
    flash_few_scores_kernel(const __grid_constant__ flash_few a)
{
#if HAS_WGMMA
    extern __shared__ char shared[];
    __shared__ uint64_t barrier;
    const uint32_t q = (shared_address(shared) + 1023) & ~1023u, k = q + D / 64 * FEW_Q_PANEL;
    const uint32_t here = shared_address(&barrier);
    const int head = (int)blockIdx.x / a.tiles, key = (int)blockIdx.x % a.tiles * FEW_KEYS;
    const int key_head = head % a.p.key_heads, batch = head / a.p.key_heads, lane = lane_id();
    let_the_next_come();
    if (threadIdx.x == 0) {
        init_barrier(here, 1);
        fence_barriers();
        arrive_and_expect(here, D / 64 * (a.rows * PANEL_PITCH + FEW_K_PANEL));
        copy_tile<D, FEW_KEYS>(k, &a.k, here, key_head, key, batch);
        copy_tile<D, 64>(q, &a.q, here, key_head * a.p.group, 0, batch);
    }
    __syncthreads();
    wait_barrier(here, 0);
    float s[FEW_N][4];
    multiply_tiles<T, D>(s, q, FEW_Q_PANEL, k, FEW_K_PANEL);
    wait_for_products<0>();
    settle(s);
    if (threadIdx.x >= 32)
        return;
#pragma unroll
    for (int h = 0; h < HALVES; h++) {
        const int row = h * 8 + lane / 4, end = min(a.p.keys, row / a.p.group + a.p.end);
        float2 *const to = a.scores + ((int64_t)blockIdx.x * HALVES + h) * FEW_N * 32 + lane;
        float top = -CUDART_INF_F;
#pragma unroll
        for (int n = 0; n < FEW_N; n++) {
            const int at = key + n * 8 + lane % 4 * 2;
            const float x = at < end ? s[n][2 * h] : -CUDART_INF_F;
            const float y = at + 1 < end ? s[n][2 * h + 1] : -CUDART_INF_F;
            if (row < a.rows)
                to[n * 32] = make_float2(x, y);
            top = fmaxf(top, fmaxf(x, y));
        }
        top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 1));
        top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 2));
        if (row < a.rows && lane % 4 == 0)
            a.tops[(int64_t)blockIdx.x * FEW_ROWS + row] = top;
    }
#endif
}

/* ---- sums ---- */

struct flash_few_memory {
    char *places;
    uint32_t values, v_here, v_free, p_here, p_free;

    /* Of a step: its weights, and the floats of a lane behind them. */
    __device__ __forceinline__ uint4 *weights(int step) const
    {
        return (uint4 *)(places + step % FEW_WEIGHERS * FEW_PLACE) + lane_id();
    }
    __device__ __forceinline__ float2 *floats(int step, int i) const
    {
        return (float2 *)(places + step % FEW_WEIGHERS * FEW_PLACE + FEW_OF_WEIGHTS) + i * 32 +
               lane_id();
    }
};

/* What a warp makes of every FEW_WEIGHERS-th tile, the last one first. */
template <class T, int HALVES>
__device__ __forceinline__ void flash_few_weigh(const flash_few &a, const flash_few_memory &m,
                                                int head, int warp)
{
    const int lane = lane_id();
    const int64_t last = (int64_t)head * a.tiles + a.tiles - 1;
    float most[2] = {-CUDART_INF_F, -CUDART_INF_F};
    wait_for_the_kernel_before();
    for (int step = warp; step < a.tiles; step += FEW_WEIGHERS) {
        float s[FEW_N][4] = {}, sum[2] = {}, old[2] = {1, 1};
#pragma unroll
        for (int h = 0; h < HALVES; h++) {
            const int row = h * 8 + lane / 4;
            const bool there = row < a.rows;
            const float2 *const from = a.scores + ((last - step) * HALVES + h) * FEW_N * 32 + lane;
#pragma unroll
            for (int n = 0; n < FEW_N; n++) {
                const float2 x = there ? from[n * 32] : make_float2(-CUDART_INF_F, -CUDART_INF_F);
                s[n][2 * h] = x.x;
                s[n][2 * h + 1] = x.y;
            }
#pragma unroll
            for (int before = 1; before < FEW_WEIGHERS; before++)
                if (there && step >= before)
                    most[h] = fmaxf(most[h], a.tops[(last - step + before) * FEW_ROWS + row]);
            flash_powers<T>(s, h, most[h], sum[h], old[h], a.p.factor);
            old[h] = there ? old[h] : 1;
        }
        uint32_t weights[FEW_N / 2][4];
        round_sums<T>(weights, s);
        wait_barrier(m.p_free + 8 * warp, step / FEW_WEIGHERS % 2 ^ 1);
#pragma unroll
        for (int i = 0; i < FEW_N / 2; i++)
            m.weights(step)[i * 32] =
                make_uint4(weights[i][0], weights[i][1], weights[i][2], weights[i][3]);
        *m.floats(step, 0) = make_float2(old[0], old[1]);
        *m.floats(step, 1) = make_float2(sum[0], sum[1]);
        *m.floats(step, 2) = make_float2(most[0], most[1]);
        __syncwarp();
        if (lane == 0)
            arrive(m.p_here + 8 * warp);
    }
}

/* A step's weights and sums. All four warps have the first one's rows: what the others make of them
 * is left. */
struct flash_few_step {
    uint32_t weights[FEW_N / 2][4];
    float2 old, sum, most;

    __device__ __forceinline__ void take(const flash_few_memory &m, int step)
    {
        const int at = 8 * (step % FEW_WEIGHERS);
        wait_barrier(m.p_here + at, step / FEW_WEIGHERS % 2);
#pragma unroll
        for (int i = 0; i < FEW_N / 2; i++) {
            const uint4 x = m.weights(step)[i * 32];
            weights[i][0] = x.x;
            weights[i][1] = x.y;
            weights[i][2] = x.z;
            weights[i][3] = x.w;
        }
        old = *m.floats(step, 0);
        sum = *m.floats(step, 1);
        most = *m.floats(step, 2);
        __syncwarp();
        if (lane_id() == 0)
            arrive(m.p_free + at);
    }
};

template <class T>
__device__ __forceinline__ void flash_few_end(const flash_few &a, int head, int panel,
                                              const float (&y)[FEW_COLUMNS / 8][4], float (&sum)[2],
                                              const float2 &most)
{
    const flash_problem &p = a.p;
    const int batch = head / p.key_heads, lane = lane_id();
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const int row = h * 8 + lane / 4, query = row / p.group;
        const int own = head % p.key_heads * p.group + row % p.group;
        const bool there = row < a.rows;
        const int64_t place = ((int64_t)batch * p.heads + own) * p.queries + query;
        const bool told = p.lse && panel == 0 && there && lane % 4 == 0;
        flash_end_row<T>(sum[h], h ? most.y : most.x, p.factor, told ? p.lse + place : NULL);
        char *const to = p.y.at(batch, own, query);
#pragma unroll
        for (int n = 0; n < FEW_COLUMNS / 8; n++) {
            const int column = panel * FEW_COLUMNS + n * 8 + lane % 4 * 2;
            if (there && column < p.e)
                *(uint32_t *)(to + column * sizeof(T)) =
                    narrow_pair<T>(y[n][2 * h] * sum[h], y[n][2 * h + 1] * sum[h]);
        }
    }
}

/* What the warpgroup does. Where no maximum has changed sums stay as they are, and products of the
 * next tile follow those of this one without a wait. */
template <class T> struct flash_few_adding {
    const flash_few &a;
    const flash_few_memory &m;
    float y[FEW_COLUMNS / 8][4], sum[2];
    float2 most;
    stage_ring ring;
    int before; /* the stage of the step before */

    /* One step, with `now`; `next` is that of the step before, and becomes that of the next one. */
    __device__ __forceinline__ void add(int step, const flash_few_step &now, flash_few_step &next)
    {
        const float old[2] = {now.old.x, now.old.y};
        sum[0] = sum[0] * now.old.x + now.sum.x;
        sum[1] = sum[1] * now.old.y + now.sum.y;
        most = now.most;
        if (__any_sync(0xffffffff, old[0] != 1 || old[1] != 1)) {
            wait_for_products<0>();
            settle(y);
            flash_scale(y, old);
            begin_products();
        }
        wait_barrier(m.v_here + 8 * ring.stage, ring.phase);
        add_columns<T>(y, now.weights, m.values + ring.stage * FEW_OF_V, FEW_K_PANEL);
        wait_for_products<1>(); /* those of the step before */
        if (step > 0 && lane_id() == 0)
            arrive(m.v_free + 8 * before);
        before = ring.stage;
        ring.step(a.stages);
        if (step + 1 < a.tiles)
            next.take(m, step + 1);
    }
};

template <class T>
__device__ __forceinline__ void flash_few_add(const flash_few &a, const flash_few_memory &m,
                                              int head, int panel)
{
    flash_few_adding<T> adding = {a, m, {}, {}, {}, {0, 0}, 0};
    flash_few_step even, odd;
    even.take(m, 0);
    int step = 0;
    for (; step + 1 < a.tiles; step += 2) {
        adding.add(step, even, odd);
        adding.add(step + 1, odd, even);
    }
    if (step < a.tiles)
        adding.add(step, even, odd);
    wait_for_products<0>();
    settle(adding.y);
    if (threadIdx.x < 32)
        flash_few_end<T>(a, head, panel, adding.y, adding.sum, adding.most);
}

__device__ __forceinline__ void flash_few_bring(const flash_few &a, const flash_few_memory &m,
                                                int head, int panel)
{
    stage_ring ring = {0, 0};
    for (int tile = a.tiles - 1; tile >= 0; tile--, ring.step(a.stages)) {
        const uint32_t here = m.v_here + 8 * ring.stage;
        wait_barrier(m.v_free + 8 * ring.stage, ring.phase ^ 1);
        arrive_and_expect(here, FEW_OF_V);
        copy_panel(m.values + ring.stage * FEW_OF_V, &a.v, here, panel * FEW_COLUMNS,
                   head % a.p.key_heads, tile * FEW_KEYS, head / a.p.key_heads);
    }
}

template <class T, int HALVES>
__global__ void __launch_bounds__(FEW_SUM_THREADS)
    flash_few_sum_kernel(const __grid_constant__ flash_few a)
{
#if HAS_WGMMA
    extern __shared__ char shared[];
    __shared__ uint64_t barriers[2 * FEW_STAGES + 2 * FEW_WEIGHERS];
    const uint32_t skipped = -shared_address(shared) & 1023, first = shared_address(barriers);
    const flash_few_memory m = {shared + skipped + a.stages * FEW_OF_V,
                                shared_address(shared) + skipped,
                                first,
                                first + 8 * FEW_STAGES,
                                first + 16 * FEW_STAGES,
                                first + 16 * FEW_STAGES + 8 * FEW_WEIGHERS};
    const int head = (int)blockIdx.x / a.panels, panel = (int)blockIdx.x % a.panels;
    const int warp = (int)threadIdx.x / 32 - WARPGROUP / 32;
    if (threadIdx.x == 0) {
        for (int i = 0; i < FEW_STAGES; i++) {
            init_barrier(m.v_here + 8 * i, 1);
            init_barrier(m.v_free + 8 * i, WARPGROUP / 32);
        }
        for (int i = 0; i < FEW_WEIGHERS; i++) {
            init_barrier(m.p_here + 8 * i, 1);
            init_barrier(m.p_free + 8 * i, WARPGROUP / 32);
        }
        fence_barriers();
    }
    __syncthreads();
    if (warp < 0)
        flash_few_add<T>(a, m, head, panel);
    else if (warp < FEW_WEIGHERS)
        flash_few_weigh<T, HALVES>(a, m, head, warp);
    else if (lane_id() == 0)
        flash_few_bring(a, m, head, panel);
#endif
}

/* ---- the host's side ---- */

/* Whether a call that asks for the bits of many queries has few, and scores that are products. */
static inline bool flash_is_few(const flash_problem &p)
{
    const int64_t heads = (int64_t)p.batches * p.key_heads, tiles = ceil_div(p.keys, FEW_KEYS);
    return p.alike && flash_is_plain(p) && p.group > 0 && p.queries * p.group <= FEW_ROWS &&
           max(p.d, p.e) <= 128 && tiles >= FEW_LEAST_TILES && heads * tiles < INT32_MAX / 2;
}

static inline int flash_few_halves(const flash_problem &p)
{
    return p.queries * p.group <= 8 ? 1 : 2;
}

/* Bytes of scores, which greatest ones follow, and of all. */
static inline int64_t flash_few_scores(const flash_problem &p)
{
    return (int64_t)p.batches * p.key_heads * ceil_div(p.keys, FEW_KEYS) * flash_few_halves(p) *
           FEW_N * 32 * (int64_t)sizeof(float2);
}

template <class T> int64_t flash_few_sm90_room(const flash_problem &p)
{
    if (!flash_is_few(p))
        return 0;
    return flash_few_scores(p) + (int64_t)p.batches * p.key_heads * ceil_div(p.keys, FEW_KEYS) *
                                     FEW_ROWS * (int64_t)sizeof(float);
}

template <class T, int D, int HALVES>
static bool flash_launch_few(const flash_few &a, const cuda_call &call)
{
    const auto scores = flash_few_scores_kernel<T, D, HALVES>;
    const auto sums = flash_few_sum_kernel<T, HALVES>;
    const int bytes = D / 64 * (FEW_Q_PANEL + FEW_K_PANEL) + 1024;
    const int of_sums = a.stages * FEW_OF_V + FEW_WEIGHTS_BYTES;
    const int heads = a.p.batches * a.p.key_heads;
    cudaFuncSetAttribute(scores, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    cudaFuncSetAttribute(sums, cudaFuncAttributeMaxDynamicSharedMemorySize, of_sums);
    scores<<<(unsigned)(heads * a.tiles), WARPGROUP, (size_t)bytes, call.stream>>>(a);
    launch_behind_with((size_t)of_sums, call, sums, dim3((unsigned)(heads * a.panels)),
                       dim3(FEW_SUM_THREADS), a);
    return true;
}

template <class T>
bool flash_attention_few_sm90(const flash_problem &p, char *room, const cuda_call &call)
{
    flash_few a = {};
    const int64_t sizes[] = {p.d, p.heads, p.queries, p.batches};
    const int64_t strides[] = {p.q.head, p.q.row, p.q.batch};
    const int box[] = {PANEL_COLUMNS, p.group, p.queries, 1};
    const bool one = flash_few_halves(p) == 1;
    a.p = p;
    a.rows = p.queries * p.group;
    a.tiles = (int)ceil_div(p.keys, FEW_KEYS);
    a.panels = (int)ceil_div(p.e, FEW_COLUMNS);
    a.stages = p.batches * p.key_heads * a.panels <= call.processors ? FEW_STAGES : 3;
    a.scores = (float2 *)room;
    a.tops = (float *)(room + flash_few_scores(p));
    if (!cuda_make_tensor_map(&a.q, IS_BF16<T> ? TG_BF16 : TG_F16, p.q.data, sizes, strides, box) ||
        !flash_map<T>(&a.k, p, p.k, p.keys, p.key_heads, p.d, FEW_KEYS) ||
        !flash_map<T>(&a.v, p, p.v, p.keys, p.key_heads, p.e, FEW_KEYS))
        return false;
    if (max(p.d, p.e) <= 64)
        return one ? flash_launch_few<T, 64, 1>(a, call) : flash_launch_few<T, 64, 2>(a, call);
    return one ? flash_launch_few<T, 128, 1>(a, call) : flash_launch_few<T, 128, 2>(a, call);
}

#endif
