/* flash_attention_backward_hopper.cuh - all gradients in one pass, on Hopper: five products a tile.
 *
 * A job is a tile of keys of one head: dk and dv stay in registers while it goes over the queries
 * that see them, the last ones first. What it adds to dq lies in memory in f32, and jobs add to a
 * tile of queries in the order of their keys: each waits for its turn, the number of jobs that have
 * added before. Blocks take jobs by a ticket and a job waits for jobs with earlier tickets alone,
 * so that some job can always go on. Jobs of some heads are interleaved, so that a job's turn has
 * mostly come when it gets there.
 *
 * One warp of a block brings tiles, two watch turns, and two warpgroups compute, each with half of
 * the keys: s^T = k q^T and dp^T = v dy^T have keys as rows, so that p^T and ds^T are factors of dv
 * and dk as they lie in registers. dq needs ds of all keys, which goes through shared memory. */
#ifndef CUDA_FLASH_ATTENTION_BACKWARD_HOPPER_CUH
#define CUDA_FLASH_ATTENTION_BACKWARD_HOPPER_CUH

#include "flash_attention_jobs_hopper.cuh"

/* ---- who computes ---- */

/* Scores become probabilities: queries along the columns, whose lse and delta lie in shared
 * memory. */
template <class T, int N>
__device__ __forceinline__ void flash_probabilities(float (&s)[N][4], uint32_t rows, float factor)
{
#pragma unroll
    for (int n = 0; n < N; n++) {
        const float4 of = shared_float4(rows + (n * 8 + lane_id() % 4 * 2) * 8);
#pragma unroll
        for (int i = 0; i < 4; i++)
            s[n][i] = power_of_2(fmaf(s[n][i], factor, P_EXPONENT<T> - (i % 2 ? of.z : of.x)));
    }
}

/* Probabilities of keys that a query does not see become 0: key r sees itself from query column
 * on. */
template <int N>
__device__ __forceinline__ void flash_hide(float (&s)[N][4], int key, int keys, int query, int end)
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (key + i / 2 * 8 >= min(keys, query + n * 8 + i % 2 + end))
                s[n][i] = 0;
}

/* dv += p^T dy, and dp^T becomes ds^T, rounded: step by step, so that products run while
 * differences are computed, and registers of what has been used are free. Ends with dv's products
 * open. */
template <class T, int N, int M>
__device__ __forceinline__ void flash_differences(uint32_t (&ds)[N / 2][4], float (&dv)[M][4],
                                                  const float (&s)[N][4], const float (&dp)[N][4],
                                                  uint32_t dy, int panel, uint32_t rows)
{
#pragma unroll
    for (int k = 0; k < N / 2; k++) {
        uint32_t p[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            p[i] = narrow_pair<T>(s[2 * k + i / 2][i % 2 * 2], s[2 * k + i / 2][i % 2 * 2 + 1]);
        begin_products();
        multiply_step<T>(dv, p, descriptor_of(dy + k * 16 * PANEL_PITCH, panel));
#pragma unroll
        for (int n = 0; n < 2; n++) {
            const float4 of = shared_float4(rows + ((2 * k + n) * 8 + lane_id() % 4 * 2) * 8);
            float x[4];
#pragma unroll
            for (int i = 0; i < 4; i++)
                x[i] = factor_of<T>(s[2 * k + n][i],
                                    P_UNIT<T> * (dp[2 * k + n][i] - (i % 2 ? of.w : of.y)));
            ds[k][2 * n] = narrow_pair<T>(x[0], x[1]);
            ds[k][2 * n + 1] = narrow_pair<T>(x[2], x[3]);
        }
    }
    end_products();
}

/* A warp's 16 rows of ds^T, from row `first` of the tile on. */
template <int ROWS, int STEPS>
__device__ __forceinline__ void store_factor(uint32_t tile, int first,
                                             const uint32_t (&a)[STEPS][4])
{
    const int lane = lane_id(), row = first + lane % 16;
#pragma unroll
    for (int k = 0; k < STEPS; k++) {
        const int chunk = 2 * k % 8 + lane / 16;
        const uint32_t to =
            tile + 2 * k / 8 * ROWS * PANEL_PITCH + row * PANEL_PITCH + ((chunk ^ row % 8) << 4);
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                     "r"(a[k][0]), "r"(a[k][1]), "r"(a[k][2]), "r"(a[k][3])
                     : "memory");
    }
}

/* A warpgroup's half of a tile of dq: the first job writes, others add, and the last one has the
 * result. */
template <class T, class C, int D>
__device__ __forceinline__ void add_to_dq(const flash_backward_jobs &a, const flash_job &j,
                                          const flash_step &s, int half, float (&sum)[8][4])
{
    const flash_problem &p = a.p;
    const int thread = threadIdx.x % WARPGROUP;
    const int seen = min(p.keys, (s.tile + 1) * C::QUERIES - 1 + p.end);
    const bool last = j.key_tile == (seen - 1) / C::KEYS;
    float *at = a.sums + s.place * (C::QUERIES * D) + half * (64 * 64) + thread * 4;
#pragma unroll
    for (int n = 0; n < 8; n++) {
        float4 *to = (float4 *)(at + n * 4 * WARPGROUP);
        if (last && j.key_tile > 0) {
            const float4 before = __ldcg(to);
            sum[n][0] += before.x;
            sum[n][1] += before.y;
            sum[n][2] += before.z;
            sum[n][3] += before.w;
        } else if (!last && j.key_tile == 0) {
            *to = make_float4(sum[n][0], sum[n][1], sum[n][2], sum[n][3]);
        } else if (!last) {
            asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to),
                         "f"(sum[n][0]), "f"(sum[n][1]), "f"(sum[n][2]), "f"(sum[n][3])
                         : "memory");
        }
    }
    if (!last)
        return;
    const int row = s.tile * C::QUERIES + (C::QUERIES == 128 ? 64 * half : 0) + thread / 32 * 16;
    const int column = D == 128 ? 64 * half : 0;
    const float factor[2] = {p.scale, p.scale};
    store_sums<T>(sum, factor, p.dq.at(j.b, s.head, row) + column * sizeof(T), p.dq.row,
                  p.queries - row, p.d - column);
}

template <class T, class C, int D>
__device__ __forceinline__ void compute_job(const flash_backward_jobs &a, uint32_t memory,
                                            const flash_job &j, int before, int half)
{
    constexpr int N = C::QUERIES / 8;
    const flash_problem &p = a.p;
    const int thread = threadIdx.x % WARPGROUP, lane = lane_id();
    const int own = half * 64, key = j.key_tile * C::KEYS + own;
    const int warp_key = key + thread / 32 * 16;
    const uint32_t own_k = memory + C::K + own * PANEL_PITCH;
    const uint32_t own_v = memory + C::V + own * PANEL_PITCH;
    const uint32_t k_of_dq = memory + C::K + (D == 128 ? half * C::KEYS_PANEL : 0);
    const int ds_of_dq = C::QUERIES == 128 ? half * C::KEYS_PANEL : 0;
    float dk[D / 8][4] = {}, dv[D / 8][4] = {};

    for (int step = 0; step < j.steps; step++) {
        const int number = before + step, stage = number % C::STAGES;
        const int phase = number / C::STAGES % 2;
        const flash_step at = step_of(a, j, step);
        const int query = at.tile * C::QUERIES;
        const uint32_t q = memory + C::Q + stage * C::OF_QUERIES;
        const uint32_t dy = memory + C::DY + stage * C::OF_QUERIES;
        const uint32_t rows = memory + C::ROWS + stage * C::OF_ROWS;
        const uint32_t ds = memory + C::DS + number % 2 * C::OF_SCORES;
        float s[N][4], dp[N][4], dq[8][4];
        uint32_t factor[N / 2][4];
        wait_barrier(memory + C::Q_HERE + 8 * stage, phase);
        multiply_tiles<T, D>(s, own_k, C::KEYS_PANEL, q, C::QUERIES_PANEL);
        wait_barrier(memory + C::DY_HERE + 8 * stage, phase);
        multiply_tiles<T, D>(dp, own_v, C::KEYS_PANEL, dy, C::QUERIES_PANEL);

        wait_for_products<1>();
        settle(s);
        flash_probabilities<T>(s, rows, p.factor);
        if (key + 63 >= min(p.keys, query + p.end))
            flash_hide(s, warp_key + lane / 4, p.keys, query + lane % 4 * 2, p.end);
        wait_for_products<0>();
        settle(dp);
        flash_differences<T>(factor, dv, s, dp, dy, C::QUERIES_PANEL, rows);
        store_factor<C::KEYS>(ds, own + thread / 32 * 16, factor);
        fence_shared();
        named_barrier(1, C::GROUPS * WARPGROUP);
        multiply_columns<T, C::KEYS>(dq, ds + ds_of_dq, C::KEYS_PANEL, k_of_dq, C::KEYS_PANEL);
        add_columns<T>(dk, factor, q, C::QUERIES_PANEL);

        wait_for_products<1>();
        settle(dq);
        wait_barrier(memory + C::TURN + 8 * half, number % 2);
        add_to_dq<T, C, D>(a, j, at, half, dq);
        __syncwarp();
        if (lane == 0)
            arrive(memory + C::ADDED + 8 * half);
        wait_for_products<0>();
        if (lane == 0)
            arrive(memory + C::FREE + 8 * stage);
    }
    settle(dk);
    settle(dv);
    __syncwarp(); /* that all lanes know the job, also where it has no step */
    if (lane == 0)
        arrive(memory + C::KEYS_FREE);
    const float of_dk[2] = {p.scale, p.scale}, of_dv[2] = {P_UNIT<T>, P_UNIT<T>};
    store_sums<T>(dk, of_dk, p.dk.at(j.b, j.key_head, warp_key), p.dk.row, p.keys - warp_key, p.d);
    store_sums<T>(dv, of_dv, p.dv.at(j.b, j.key_head, warp_key), p.dv.row, p.keys - warp_key, p.d);
}

template <class T, int D>
__global__ void __launch_bounds__(flash_backward_sm90<D>::THREADS, 1)
    flash_backward_sm90_kernel(const __grid_constant__ flash_backward_jobs a)
{
#if HAS_WGMMA
    using C = flash_backward_sm90<D>;
    extern __shared__ __align__(1024) char shared[];
    const uint32_t memory = shared_address(shared);
    int *const index = (int *)(shared + C::JOB);
    if (threadIdx.x == 0) {
        init_barrier(memory + C::KEYS_HERE, 1);
        init_barrier(memory + C::KEYS_FREE, C::WARPS + C::GROUPS);
        for (int i = 0; i < C::STAGES; i++) {
            init_barrier(memory + C::Q_HERE + 8 * i, 1);
            init_barrier(memory + C::DY_HERE + 8 * i, 1);
            init_barrier(memory + C::FREE + 8 * i, C::WARPS);
        }
        for (int i = 0; i < C::GROUPS; i++) {
            init_barrier(memory + C::TURN + 8 * i, 1);
            init_barrier(memory + C::ADDED + 8 * i, 4);
        }
        fence_barriers();
    }
    __syncthreads();
    if (threadIdx.x >= C::GROUPS * WARPGROUP) {
        fewer_registers<24>();
        const int warp = threadIdx.x / 32 - C::WARPS;
        if (lane_id() == 0 && warp < C::GROUPS)
            watch_turns<C>(a, memory, index, warp);
        else if (lane_id() == 0 && warp == C::GROUPS)
            bring_tiles<C, D>(a, memory, index);
    } else {
        more_registers<240>();
        const int half = threadIdx.x / WARPGROUP;
        each_job<C>(a, memory, index, [&](const flash_job &j, int before) {
            compute_job<T, C, D>(a, memory, j, before, half);
        });
    }
#endif
}

/* ---- before: lse and dy . y of each query; turns and the ticket begin at 0 ---- */

template <class T, int D>
__global__ void __launch_bounds__(256)
    flash_prepare_kernel(const __grid_constant__ flash_backward_jobs a)
{
    constexpr int LANES = D / V<T>;
    const flash_problem &p = a.p;
    const int64_t thread = blockIdx.x * 256ll + threadIdx.x, at = thread / LANES;
    const int rows = a.tiles * flash_backward_sm90<D>::QUERIES, c = (int)(thread % LANES) * V<T>;
    const int r = (int)(at % rows), h = (int)(at / rows % p.heads);
    const int b = (int)(at / rows / p.heads);
    if (thread < 2ll * a.tiles * p.heads * p.batches)
        a.turns[thread] = 0;
    if (thread == 0)
        *a.ticket = 0;
    if (b >= p.batches)
        return;
    float sum = 0, x[V<T>], y[V<T>];
    const bool there = r < p.queries && c < p.d;
    if (there) {
        widen<T>(*(const uint4 *)(p.dy.at(b, h, r) + c * sizeof(T)), x);
        widen<T>(*(const uint4 *)(p.y.at(b, h, r) + c * sizeof(T)), y);
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            sum = fmaf(x[i], y[i], sum);
    }
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, step);
    if (there && min(p.keys, r + p.end) <= 0) /* no job has this row of dq */
        *(uint4 *)(p.dq.at(b, h, r) + c * sizeof(T)) = make_uint4(0, 0, 0, 0);
    if (c == 0) {
        const float saved =
            r < p.queries ? p.lse[((int64_t)b * p.heads + h) * p.queries + r] : -CUDART_INF_F;
        p.rows[at] = make_float2(saved == -CUDART_INF_F ? CUDART_INF_F : saved / LN_2, sum);
    }
}

/* ---- the host's side ---- */

/* Places of what a call keeps in the workspace, from `room` on; returns their bytes. */
template <int D> static int64_t flash_lay_out(flash_backward_jobs &a, char *room)
{
    using C = flash_backward_sm90<D>;
    a.tiles = (int)ceil_div(a.p.queries, C::QUERIES);
    a.key_tiles = (int)ceil_div(a.p.keys, C::KEYS);
    const int64_t tiles = (int64_t)a.p.batches * a.p.heads * a.tiles;
    char *const first = room;
    a.sums = (float *)room;
    room += tiles * C::QUERIES * D * (int64_t)sizeof(float);
    a.p.rows = (flash_row *)room;
    room += tiles * C::QUERIES * (int64_t)sizeof(flash_row);
    a.turns = (unsigned *)room;
    room += tiles * 2 * (int64_t)sizeof(unsigned);
    a.ticket = (unsigned *)room;
    return room - first + (int64_t)sizeof(unsigned);
}

template <class T> int64_t flash_backward_sm90_room(const flash_problem &p)
{
    flash_backward_jobs a = {};
    a.p = p;
    return p.d <= 64 ? flash_lay_out<64>(a, NULL) : flash_lay_out<128>(a, NULL);
}

template <class T, int D>
static bool flash_launch_jobs(const flash_problem &p, char *room, int processors,
                              cudaStream_t stream)
{
    using C = flash_backward_sm90<D>;
    flash_backward_jobs a = {};
    a.p = p;
    flash_lay_out<D>(a, room);
    if (!flash_map<T>(&a.q, p, p.q, p.queries, p.heads, C::QUERIES) ||
        !flash_map<T>(&a.dy, p, p.dy, p.queries, p.heads, C::QUERIES) ||
        !flash_map<T>(&a.k, p, p.k, p.keys, p.key_heads, C::KEYS) ||
        !flash_map<T>(&a.v, p, p.v, p.keys, p.key_heads, C::KEYS))
        return false;
    const int64_t threads = (int64_t)p.batches * p.heads * a.tiles * C::QUERIES * (D / V<T>);
    const int64_t jobs = (int64_t)a.key_tiles * p.batches * p.key_heads;
    /* Of more heads at once, jobs of different lengths are spread better; of fewer, what they share
     * stays in L2. */
    a.together = (int)ceil_div(p.end < p.keys ? 4 * processors : processors, a.key_tiles);
    flash_prepare_kernel<T, D><<<(unsigned)(threads / 256), 256, 0, stream>>>(a);
    const auto kernel = flash_backward_sm90_kernel<T, D>;
    cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         C::BYTES);
    kernel<<<(unsigned)min_of(jobs, processors), C::THREADS, C::BYTES, stream>>>(a);
    return true;
}

template <class T>
bool flash_attention_backward_sm90(const flash_problem &p, char *room, int processors,
                                   cudaStream_t stream)
{
    return p.d <= 64 ? flash_launch_jobs<T, 64>(p, room, processors, stream)
                     : flash_launch_jobs<T, 128>(p, room, processors, stream);
}

#endif
