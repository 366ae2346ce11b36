/* flash_attention_gradients_hopper.cuh - the backward on Hopper: a warpgroup's half of a job. */
#ifndef CUDA_FLASH_ATTENTION_GRADIENTS_HOPPER_CUH
#define CUDA_FLASH_ATTENTION_GRADIENTS_HOPPER_CUH

#include "flash_attention_jobs_hopper.cuh"

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

/* The job's keys are through, and their memory is another's. */
template <class T, class C, int D>
__device__ __forceinline__ void end_keys(const flash_problem &p, uint32_t memory,
                                         const flash_job &j, int warp_key, float (&dk)[D / 8][4],
                                         float (&dv)[D / 8][4])
{
    settle(dk);
    settle(dv);
    __syncwarp(); /* that all lanes know the job, also where it has no step */
    if (lane_id() == 0)
        arrive(memory + C::KEYS_FREE);
    const float of_dk[2] = {p.scale, p.scale}, of_dv[2] = {P_UNIT<T>, P_UNIT<T>};
    store_sums<T>(dk, of_dk, p.dk.at(j.b, j.key_head, warp_key), p.dk.row, p.keys - warp_key, p.d);
    store_sums<T>(dv, of_dv, p.dv.at(j.b, j.key_head, warp_key), p.dv.row, p.keys - warp_key, p.d);
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
    end_keys<T, C, D>(p, memory, j, warp_key, dk, dv);
}

#endif
