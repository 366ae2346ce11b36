/* flash_attention_keys_hopper.cuh - the backward on Hopper for heads of up to 128 elements: a
 * warpgroup's half of a job. */
#ifndef CUDA_FLASH_ATTENTION_KEYS_HOPPER_CUH
#define CUDA_FLASH_ATTENTION_KEYS_HOPPER_CUH

#include "flash_attention_gradients_hopper.cuh"

/* A warpgroup at its 64 keys of a job. */
template <class T, class C> struct flash_at_keys {
    static constexpr int D = C::D, N = C::QUERIES / 8;
    const flash_backward_jobs &a;
    const flash_job &j;
    uint32_t memory;
    int half, key, warp_key; /* first key of the group, and of the warp */
    float dk[D / 8][4], dv[D / 8][4], s[N][4], dp[N][4], dq[8][4];
    uint32_t factor[N / 2][4];

    __device__ __forceinline__ flash_at_keys(const flash_backward_jobs &a_, const flash_job &j_,
                                             uint32_t memory_, int half_)
        : a(a_), j(j_), memory(memory_), half(half_), key(j_.row + half_ * 64),
          warp_key(key + threadIdx.x % WARPGROUP / 32 * 16), dk{}, dv{}
    {
    }

    /* A place in shared memory of this step's stage. */
    __device__ __forceinline__ uint32_t stage_of(int at, int bytes, int number) const
    {
        return memory + at + number % C::STAGES * bytes;
    }
    __device__ __forceinline__ uint32_t own_row(int tile) const
    {
        return memory + tile + half * 64 * PANEL_PITCH;
    }

    __device__ __forceinline__ void multiply_queries(int number)
    {
        multiply_tiles<T, D>(s, own_row(C::K), C::KEYS_PANEL, stage_of(C::Q, C::OF_Q, number),
                             C::QUERIES_PANEL);
    }

    /* Scores become probabilities. */
    __device__ __forceinline__ void weigh(int query, uint32_t rows)
    {
        const int keys = j.of.keys, lane = lane_id();
        flash_probabilities<T>(s, rows, a.p.factor);
        if (key + 63 >= min(keys, query + j.of.end) ||
            (!C::PLAIN && key < query + C::QUERIES - 1 + j.of.begin))
            flash_hide<!C::PLAIN>(s, warp_key + lane / 4, keys, query + lane % 4 * 2, j.of.begin,
                                  j.of.end);
    }

    /* Scores, whose products are open, become ds^T, also in shared memory;
     * dv has its products open. */
    __device__ __forceinline__ void differ(int number, int query)
    {
        const uint32_t dy = stage_of(C::DY, C::OF_DY, number);
        const uint32_t rows = stage_of(C::ROWS_AT, C::OF_ROWS, number);
        const bool capped = !C::PLAIN && a.to_cap != 0;
        wait_for_dy<C>(memory, number);
        multiply_tiles<T, D>(dp, own_row(C::V), C::KEYS_PANEL, dy, C::QUERIES_PANEL);
        wait_for_products<1>();
        settle(s);
        if (!capped)
            weigh(query, rows);
        wait_for_products<0>();
        settle(dp);
        if (capped) {
            flash_cap(s, dp, rows, a.to_cap);
            weigh(query, rows);
        }
        flash_differences<T>(factor, dv, s, dp, dy, C::QUERIES_PANEL, rows, capped ? 0 : 1);
        store_factor<C::KEYS>(memory + C::DS + number % 2 * C::OF_SCORES,
                              half * 64 + threadIdx.x % WARPGROUP / 32 * 16, factor);
        fence_shared();
        named_barrier(C::MET, C::GROUPS * WARPGROUP);
    }

    /* Products for dq, and behind them those for dk. */
    __device__ __forceinline__ void multiply_differences(int number)
    {
        const uint32_t q = stage_of(C::Q, C::OF_Q, number);
        const uint32_t ds = memory + C::DS + number % 2 * C::OF_SCORES;
        multiply_columns<T, C::KEYS>(
            dq, ds + (C::QUERIES == 128 ? half * C::KEYS_PANEL : 0), C::KEYS_PANEL,
            memory + C::K + (D == 128 ? half * C::KEYS_PANEL : 0), C::KEYS_PANEL);
        add_columns<T>(dk, factor, q, C::QUERIES_PANEL);
    }

    __device__ __forceinline__ void go_over(int before, int steps)
    {
        flash_step at(a, j);
        for (int number = before; number < before + steps; number++) {
            wait_for_queries<C>(memory, j, number, at.tile * C::QUERIES);
            multiply_queries(number);
            differ(number, at.tile * C::QUERIES);
            multiply_differences(number);
            wait_for_products<1>();
            settle(dq);
            add_to_dq<T, C>(a, j, at, half, memory, number, dq);
            wait_for_products<0>();
            if (lane_id() == 0)
                arrive(memory + C::FREE + 8 * (number % C::STAGES));
            at.go_on(j);
        }
    }
};

template <class T, class C>
__device__ __forceinline__ void compute_job(const flash_backward_jobs &a, uint32_t memory,
                                            const flash_job &j, int before, int half)
{
    const int steps = j.steps * a.p.group;
    flash_at_keys<T, C> at(a, j, memory, half);
    clear_keys<C>(memory, j, steps);
    at.go_over(before, steps);
    end_keys<T, C>(a.p, memory, j, at.warp_key, at.dk, at.dv);
}

#endif
