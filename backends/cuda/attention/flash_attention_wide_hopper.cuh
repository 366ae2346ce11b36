/* flash_attention_wide_hopper.cuh - the backward on Hopper for heads of more than 128 elements: a
 * warpgroup's half of a job.
 *
 * dk and dv of 64 keys fill the registers of two warpgroups, which share the columns: each has half
 * of those of dk, dv and dq, and computes half of the scores, by queries. Probabilities and their
 * differences go through shared memory to the other. A head of three panels of columns has the one
 * in the middle in both halves. */
#ifndef CUDA_FLASH_ATTENTION_WIDE_HOPPER_CUH
#define CUDA_FLASH_ATTENTION_WIDE_HOPPER_CUH

#include "flash_attention_gradients_hopper.cuh"

template <int D_, int E_>
struct flash_backward_wide_sm90 : flash_backward_memory<D_, E_, 64, 64, 4, 0> {
    static constexpr bool PLAIN = false;
    static constexpr int FEWER = 40, MORE = 232;
    static constexpr int OF_SUMS = 128, OF_VALUES = E_ / 2;        /* columns of a warpgroup */
    static constexpr int OF_DK = D_ - 128, OF_DV = E_ - OF_VALUES; /* where the other's begin */
};

/* p^T and ds^T, rounded. */
template <class T, int N>
__device__ __forceinline__ void wide_differences(uint32_t (&weights)[N / 2][4],
                                                 uint32_t (&ds)[N / 2][4], const float (&s)[N][4],
                                                 float (&dp)[N][4], uint32_t rows, float open)
{
    round_sums<T>(weights, s);
#pragma unroll
    for (int n = 0; n < N; n++) {
        const float4 of = shared_float4(rows + (n * 8 + lane_id() % 4 * 2) * 8);
#pragma unroll
        for (int i = 0; i < 4; i++)
            dp[n][i] =
                factor_of<T>(s[n][i], P_UNIT<T> * fmaf(-open, i % 2 ? of.w : of.y, dp[n][i]));
    }
    round_sums<T>(ds, dp);
}

/* A warpgroup's columns of a gradient of the job's keys. */
template <class T, int N>
__device__ __forceinline__ void store_columns(const flash_job &j, const flash_view &to, int key,
                                              int column, int d, float (&sum)[N][4], float by)
{
    const float factor[2] = {by, by};
    store_sums<T>(sum, factor, to.at(j.of.batch, j.head, j.of.key + key) + column * (int)sizeof(T),
                  to.row, j.of.keys - key, d - column);
}

template <class T, class C>
__device__ __forceinline__ void compute_wide_job(const flash_backward_jobs &a, uint32_t memory,
                                                 const flash_job &j, int before, int half)
{
    constexpr int THREADS = C::GROUPS * WARPGROUP;
    const flash_problem &p = a.p;
    const int lane = lane_id(), warp_row = threadIdx.x % WARPGROUP / 32 * 16;
    const int keys = j.of.keys, steps = j.steps * p.group, warp_key = j.row + warp_row;
    const int own = half * 32; /* queries of a tile whose scores are this group's */
    const int panel_of_dk = half * C::OF_DK / 64, panel_of_dv = half * C::OF_DV / 64;
    float dk[C::OF_SUMS / 8][4] = {}, dv[C::OF_VALUES / 8][4] = {}, dq[C::OF_SUMS / 8][4];
    float s[4][4], dp[4][4];
    uint32_t weights[2][4], ds[2][4];

    clear_keys<C>(memory, j, steps);
    flash_step at(a, j);
    for (int step = 0; step < steps; step++, at.go_on(j)) {
        const int number = before + step, stage = number % C::STAGES;
        const int query = at.tile * C::QUERIES;
        const uint32_t q = memory + C::Q + stage * C::OF_Q, dy = memory + C::DY + stage * C::OF_DY;
        const uint32_t rows =
            memory + C::ROWS_AT + stage * C::OF_ROWS + own * (int)sizeof(flash_row);
        const uint32_t of_p = memory + C::DS + number % 2 * 2 * C::OF_SCORES;
        const uint32_t of_ds = of_p + C::OF_SCORES;
        wait_for_queries<C>(memory, j, number, query);
        multiply_tiles<T, C::D>(s, memory + C::K, C::KEYS_PANEL, q + own * PANEL_PITCH,
                                C::QUERIES_PANEL);
        wait_for_dy<C>(memory, number);
        multiply_tiles<T, C::E>(dp, memory + C::V, C::KEYS_PANEL, dy + own * PANEL_PITCH,
                                C::QUERIES_PANEL);
        wait_for_products<0>();
        settle(s);
        settle(dp);
        if (a.to_cap != 0)
            flash_cap(s, dp, rows, a.to_cap);
        flash_probabilities<T>(s, rows, p.factor);
        flash_hide<true>(s, warp_key + lane / 4, keys, query + own + lane % 4 * 2, j.of.begin,
                         j.of.end);
        wide_differences<T>(weights, ds, s, dp, rows, a.to_cap != 0 ? 0 : 1);
        store_factor<C::KEYS>(of_p, warp_row, weights, half * 4);
        store_factor<C::KEYS>(of_ds, warp_row, ds, half * 4);
        fence_shared();
        named_barrier(C::MET, THREADS);
        multiply_columns<T, C::KEYS>(dq, of_ds, C::KEYS_PANEL,
                                     memory + C::K + panel_of_dk * C::KEYS_PANEL, C::KEYS_PANEL);
        add_rows<T, C::QUERIES>(dv, of_p, C::KEYS_PANEL, dy + panel_of_dv * C::QUERIES_PANEL,
                                C::QUERIES_PANEL);
        add_rows<T, C::QUERIES>(dk, of_ds, C::KEYS_PANEL, q + panel_of_dk * C::QUERIES_PANEL,
                                C::QUERIES_PANEL);
        wait_for_products<2>();
        settle(dq);
        add_to_dq<T, C>(a, j, at, half, memory, number, dq);
        wait_for_products<0>();
        if (lane == 0)
            arrive(memory + C::FREE + 8 * stage);
    }
    settle(dk);
    settle(dv);
    __syncwarp(); /* that all lanes know the job, also where it has no step */
    if (lane == 0)
        arrive(memory + C::KEYS_FREE);
    store_columns<T>(j, p.dk, warp_key, half * C::OF_DK, p.d, dk, p.scale);
    store_columns<T>(j, p.dv, warp_key, half * C::OF_DV, p.e, dv, P_UNIT<T>);
}

#endif
