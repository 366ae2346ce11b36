/* flash_attention_forward_hopper.cuh - the forward on Hopper: a job is a tile of queries of one
 * head, which goes over the tiles of keys that it sees, the last ones first, with a running maximum
 * and sum.
 *
 * One warp of a block takes jobs by a ticket and brings tiles, of the next job too while this one
 * ends. Two warpgroups compute, each with half of the queries: the exponentials of one tile while
 * the product of the tile before with its values runs. */
#ifndef CUDA_FLASH_ATTENTION_FORWARD_HOPPER_CUH
#define CUDA_FLASH_ATTENTION_FORWARD_HOPPER_CUH

#include "flash_attention_hopper.cuh"

struct flash_forward_jobs {
    flash_problem p;
    CUtensorMap q, k, v;
    unsigned *ticket;
    int tiles;    /* of a head */
    int together; /* heads whose jobs are interleaved */
};

template <int D> struct flash_forward_sm90 {
    static constexpr int QUERIES = 128, KEYS = 128, STAGES = 2;
    static constexpr int GROUPS = 2, WARPS = 4 * GROUPS, THREADS = (GROUPS + 1) * WARPGROUP;
    static constexpr int TILE = 128 * D * 2, PANEL = 128 * PANEL_PITCH;
    /* places in shared memory: of each two tiles, and of each barrier */
    static constexpr int Q = 0, K = Q + STAGES * TILE, V = K + STAGES * TILE;
    static constexpr int Q_HERE = V + STAGES * TILE, K_HERE = Q_HERE + 8 * STAGES;
    static constexpr int V_HERE = K_HERE + 8 * STAGES, Q_FREE = V_HERE + 8 * STAGES;
    static constexpr int K_FREE = Q_FREE + 8 * STAGES, V_FREE = K_FREE + 8 * STAGES;
    static constexpr int JOB = V_FREE + 8 * STAGES, BYTES = JOB + 4 * STAGES;
};

/* A tile of queries, and the tiles of keys that some of them see. */
struct flash_queries {
    int row, b, head, steps;
};

template <class C>
__device__ __forceinline__ flash_queries queries_of(const flash_forward_jobs &a, int index)
{
    const int set = index / (a.together * a.tiles), at = index % (a.together * a.tiles);
    const int first = set * a.together;
    const int width = min(a.together, a.p.batches * a.p.heads - first);
    const int head = first + at % width;
    flash_queries j;
    j.row = (a.tiles - 1 - at / width) * C::QUERIES; /* those that see most come first */
    j.b = head / a.p.heads;
    j.head = head % a.p.heads;
    const int seen = max(0, min(a.p.keys, j.row + C::QUERIES - 1 + a.p.end));
    j.steps = (seen + C::KEYS - 1) / C::KEYS;
    return j;
}

/* ---- who brings tiles: one thread ---- */

template <class C, int D>
__device__ __forceinline__ void bring_tile(const flash_forward_jobs &a, uint32_t memory,
                                           const CUtensorMap *map, int tile, int here, int free,
                                           int number, int head, int row, int b)
{
    const int stage = number % C::STAGES;
    const uint32_t barrier = memory + here + 8 * stage;
    wait_barrier(memory + free + 8 * stage, number / C::STAGES % 2 ^ 1);
    arrive_and_expect(barrier, C::TILE);
    copy_tile<D, 128>(memory + tile + stage * C::TILE, map, barrier, head, row, b);
}

template <class C, int D>
__device__ __forceinline__ void bring_tiles(const flash_forward_jobs &a, uint32_t memory,
                                            int *indices)
{
    const int jobs = a.tiles * a.p.batches * a.p.heads;
    int at = (int)atomicAdd(a.ticket, 1u);
    for (int job = 0, number = 0;; job++) {
        const int stage = job % C::STAGES;
        wait_barrier(memory + C::Q_FREE + 8 * stage, job / C::STAGES % 2 ^ 1);
        ((volatile int *)indices)[stage] = at;
        if (at >= jobs) {
            arrive(memory + C::Q_HERE + 8 * stage);
            return;
        }
        const flash_queries j = queries_of<C>(a, at);
        const int key_head = j.head / a.p.group;
        at = (int)atomicAdd(a.ticket, 1u);
        bring_tile<C, D>(a, memory, &a.q, C::Q, C::Q_HERE, C::Q_FREE, job, j.head, j.row, j.b);
        for (int key = (j.steps - 1) * C::KEYS; key >= 0; key -= C::KEYS, number++) {
            bring_tile<C, D>(a, memory, &a.k, C::K, C::K_HERE, C::K_FREE, number, key_head, key,
                             j.b);
            bring_tile<C, D>(a, memory, &a.v, C::V, C::V_HERE, C::V_FREE, number, key_head, key,
                             j.b);
        }
    }
}

/* ---- who computes ---- */

/* Scores that a query does not see become -inf: those of columns from its row + end on. */
template <int N>
__device__ __forceinline__ void flash_hide_keys(float (&s)[N][4], int key, int keys, int sees)
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (key + n * 8 + i % 2 >= min(keys, sees + i / 2 * 8))
                s[n][i] = -CUDART_INF_F;
}

/* Scores become powers of 2 of their differences from the row's maximum so far; what came before is
 * to be multiplied by `old`. */
template <class T, int N>
__device__ __forceinline__ void flash_powers(float (&s)[N][4], float (&most)[2], float (&sum)[2],
                                             float (&old)[2], float factor)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float top = most[h];
#pragma unroll
        for (int n = 0; n < N; n++)
            top = fmaxf(top, fmaxf(s[n][2 * h], s[n][2 * h + 1]));
        top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 1));
        top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, 2));
        const float shift = top == -CUDART_INF_F ? 0 : top * factor;
        /* rounded once, so that the power of the maximum itself is that of P_EXPONENT */
        const float from = top == -CUDART_INF_F ? P_EXPONENT<T> : fmaf(-top, factor, P_EXPONENT<T>);
        old[h] = power_of_2(most[h] * factor - shift);
        most[h] = top;
        float part = 0;
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int e = 2 * h; e < 2 * h + 2; e++) {
                s[n][e] = power_of_2(fmaf(s[n][e], factor, from));
                part += s[n][e];
            }
        sum[h] = sum[h] * old[h] + part;
    }
}

/* What was summed up against the maxima before. */
template <int N> __device__ __forceinline__ void flash_scale(float (&y)[N][4], const float (&by)[2])
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            y[n][i] *= by[i / 2];
}

template <class T, class C, int D>
__device__ __forceinline__ void attend(const flash_forward_jobs &a, uint32_t memory,
                                       const flash_queries &j, uint32_t q, int before, int half)
{
    constexpr int N = C::KEYS / 8;
    const flash_problem &p = a.p;
    const int lane = lane_id(), row = j.row + half * 64 + threadIdx.x % WARPGROUP / 32 * 16;
    const int sees = j.row + half * 64 + p.end; /* the warpgroup's first row sees the keys below */
    const uint32_t own_q = q + half * 64 * PANEL_PITCH;
    float y[D / 8][4] = {}, most[2] = {-CUDART_INF_F, -CUDART_INF_F}, sum[2] = {}, old[2];
    float s[N][4];
    uint32_t weights[N / 2][4];

    const auto multiply_keys = [&](int number) {
        const int stage = number % C::STAGES;
        wait_barrier(memory + C::K_HERE + 8 * stage, number / C::STAGES % 2);
        multiply_tiles<T, D>(s, own_q, C::PANEL, memory + C::K + stage * C::TILE, C::PANEL);
    };
    const auto add_values = [&](int number) {
        const int stage = number % C::STAGES;
        wait_barrier(memory + C::V_HERE + 8 * stage, number / C::STAGES % 2);
        add_columns<T>(y, weights, memory + C::V + stage * C::TILE, C::PANEL);
    };
    const auto weigh = [&](int step) {
        const int key = (j.steps - 1 - step) * C::KEYS;
        settle(s);
        if (lane == 0)
            arrive(memory + C::K_FREE + 8 * ((before + step) % C::STAGES));
        if (key + C::KEYS > min(p.keys, sees))
            flash_hide_keys(s, key + lane % 4 * 2, p.keys,
                            sees + threadIdx.x % WARPGROUP / 32 * 16 + lane / 4);
        flash_powers<T>(s, most, sum, old, p.factor);
    };
    if (j.steps > 0) {
        multiply_keys(before);
        wait_for_products<0>();
        weigh(0);
        round_sums<T>(weights, s);
        for (int step = 1; step < j.steps; step++) {
            multiply_keys(before + step);
            add_values(before + step - 1);
            wait_for_products<1>();
            weigh(step);
            wait_for_products<0>();
            settle(y);
            if (lane == 0)
                arrive(memory + C::V_FREE + 8 * ((before + step - 1) % C::STAGES));
            flash_scale(y, old);
            round_sums<T>(weights, s);
        }
        add_values(before + j.steps - 1);
        wait_for_products<0>();
        settle(y);
        if (lane == 0)
            arrive(memory + C::V_FREE + 8 * ((before + j.steps - 1) % C::STAGES));
    }
    float *const lse = p.lse ? p.lse + ((int64_t)j.b * p.heads + j.head) * p.queries + row : NULL;
    flash_end_rows<T>(sum, most, p.factor, lse, p.queries - row);
    store_sums<T>(y, sum, p.y.at(j.b, j.head, row), p.y.row, p.queries - row, p.d);
}

template <class T, int D>
__global__ void __launch_bounds__(flash_forward_sm90<D>::THREADS, 1)
    flash_forward_sm90_kernel(const __grid_constant__ flash_forward_jobs a)
{
#if HAS_WGMMA
    using C = flash_forward_sm90<D>;
    extern __shared__ __align__(1024) char shared[];
    const uint32_t memory = shared_address(shared);
    int *const indices = (int *)(shared + C::JOB);
    if (threadIdx.x == 0) {
        for (int i = 0; i < C::STAGES; i++) {
            init_barrier(memory + C::Q_HERE + 8 * i, 1);
            init_barrier(memory + C::K_HERE + 8 * i, 1);
            init_barrier(memory + C::V_HERE + 8 * i, 1);
            init_barrier(memory + C::Q_FREE + 8 * i, C::WARPS);
            init_barrier(memory + C::K_FREE + 8 * i, C::WARPS);
            init_barrier(memory + C::V_FREE + 8 * i, C::WARPS);
        }
        fence_barriers();
    }
    __syncthreads();
    if (threadIdx.x >= C::GROUPS * WARPGROUP) {
        fewer_registers<24>();
        if (threadIdx.x == C::GROUPS * WARPGROUP)
            bring_tiles<C, D>(a, memory, indices);
    } else {
        more_registers<240>();
        const int jobs = a.tiles * a.p.batches * a.p.heads, half = threadIdx.x / WARPGROUP;
        for (int job = 0, steps = 0;; job++) {
            const int stage = job % C::STAGES;
            wait_barrier(memory + C::Q_HERE + 8 * stage, job / C::STAGES % 2);
            const int at = ((volatile int *)indices)[stage];
            if (at >= jobs)
                return;
            const flash_queries j = queries_of<C>(a, at);
            attend<T, C, D>(a, memory, j, memory + C::Q + stage * C::TILE, steps, half);
            steps += j.steps;
            __syncwarp();
            if (lane_id() == 0)
                arrive(memory + C::Q_FREE + 8 * stage);
        }
    }
#endif
}

/* ---- the host's side ---- */

template <class T, int D>
static bool flash_launch_forward(const flash_problem &p, unsigned *ticket, int processors,
                                 cudaStream_t stream)
{
    using C = flash_forward_sm90<D>;
    flash_forward_jobs a = {};
    a.p = p;
    a.ticket = ticket;
    a.tiles = (int)ceil_div(p.queries, C::QUERIES);
    a.together = (int)ceil_div(processors, a.tiles);
    if (!flash_map<T>(&a.q, p, p.q, p.queries, p.heads, C::QUERIES) ||
        !flash_map<T>(&a.k, p, p.k, p.keys, p.key_heads, C::KEYS) ||
        !flash_map<T>(&a.v, p, p.v, p.keys, p.key_heads, C::KEYS))
        return false;
    const int64_t jobs = (int64_t)a.tiles * p.batches * p.heads;
    cudaMemsetAsync(ticket, 0, sizeof(unsigned), stream);
    flash_start<C>(flash_forward_sm90_kernel<T, D>, a, jobs, processors, stream);
    return true;
}

template <class T>
bool flash_attention_forward_sm90(const flash_problem &p, unsigned *ticket, int processors,
                                  cudaStream_t stream)
{
    return p.d <= 64 ? flash_launch_forward<T, 64>(p, ticket, processors, stream)
                     : flash_launch_forward<T, 128>(p, ticket, processors, stream);
}

#endif
