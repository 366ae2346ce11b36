/* flash_attention_attend_hopper.cuh - the forward on Hopper: a warpgroup's part of a job. */
#ifndef CUDA_FLASH_ATTENTION_ATTEND_HOPPER_CUH
#define CUDA_FLASH_ATTENTION_ATTEND_HOPPER_CUH

#include "flash_attention_queries_hopper.cuh"
#include "flash_attention_softmax.cuh"

/* ---- scores ---- */

/* Scores that a query does not see become -inf: those of columns from its row's end on, and before
 * its begin. `key`, begin and end are those of the thread's first element. */
template <bool BOTH, int N>
__device__ __forceinline__ void flash_hide_keys(float (&s)[N][4], int key, int keys, int begin,
                                                int end)
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int at = key + n * 8 + i % 2;
            if (at >= min(keys, end + i / 2 * 8) || (BOTH && at < begin + i / 2 * 8))
                s[n][i] = -CUDART_INF_F;
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

/* ---- a warpgroup's queries ---- */

/* The end of a job: lse, and y. */
template <class T, class C, int N>
__device__ __forceinline__ void end_queries(const flash_forward_jobs &a, const flash_job &j,
                                            int row, float (&most)[2], float (&sum)[2],
                                            const float (&y)[C::PARTS][N][4])
{
    const flash_problem &p = a.p;
    const int at = j.of.query + row, left = j.of.queries - row;
    float *const lse =
        p.lse ? p.lse + ((int64_t)j.of.batch * p.heads + j.head) * p.queries + at : NULL;
    if (!C::PLAIN && p.sinks.data) {
        const float sink = get<T>(p.sinks, j.head) / LN_2;
        float old[2];
#pragma unroll
        for (int h = 0; h < 2; h++)
            old[h] = flash_add_sink<T>(sum[h], most[h], p.factor, sink, lane_id() % 4 == 0);
        flash_end_rows<T>(sum, most, 1, lse, left);
        sum[0] *= old[0];
        sum[1] *= old[1];
    } else {
        flash_end_rows<T>(sum, most, p.factor, lse, left);
    }
#pragma unroll
    for (int part = 0; part < C::PARTS; part++)
        store_sums<T>(y[part], sum, p.y.at(j.of.batch, j.head, at) + part * C::PART * sizeof(T),
                      p.y.row, left, p.e - part * C::PART);
}

/* A warpgroup at its 64 queries of a job. */
template <class T, class C> struct flash_attending {
    static constexpr int N = C::KEYS / 8;
    const flash_forward_jobs &a;
    const flash_job &j;
    uint32_t memory, own_q;
    int before, group, own, row; /* steps of jobs before; first row of the group, and of the warp */
    float y[C::PARTS][C::PART / 8][4], most[2], sum[2], old[2], s[N][4];
    uint32_t weights[N / 2][4];

    __device__ __forceinline__ flash_attending(const flash_forward_jobs &a_, const flash_job &j_,
                                               uint32_t memory_, uint32_t q, int before_,
                                               int group_)
        : a(a_), j(j_), memory(memory_), own_q(q + group_ * 64 * PANEL_PITCH), before(before_),
          group(group_), own(j_.row + group_ * 64),
          row(own + threadIdx.x % WARPGROUP / 32 * 16), y{}, sum{}
    {
        most[0] = most[1] = -CUDART_INF_F;
    }

    __device__ __forceinline__ int key_of(int step) const
    {
        return (j.first + j.steps - 1 - step) * C::KEYS;
    }
    __device__ __forceinline__ int stage_of(int step) const
    {
        return (before + step) % C::STAGES;
    }
    __device__ __forceinline__ void wait_for(int here, int step) const
    {
        wait_barrier(memory + here + 8 * stage_of(step), (before + step) / C::STAGES % 2);
    }
    __device__ __forceinline__ void leave(int free, int step) const
    {
        if (lane_id() == 0)
            arrive(memory + free + 8 * stage_of(step));
    }

    /* Values, with zeros where there are none, or nobody sees them. */
    __device__ __forceinline__ void wait_for_values(int step) const
    {
        const int key = key_of(step), keys = j.of.keys;
        wait_for(C::V_HERE, step);
        if (!C::PLAIN && (key < j.of.begin || key + C::KEYS > keys))
            clear_outside<C::E / 64, C::KEYS>(memory + C::V + stage_of(step) * C::OF_V,
                                              j.of.begin - key, keys - key, C::CLEARED,
                                              C::GROUPS * WARPGROUP);
    }

    /* Tiles that the group's rows see nothing of. */
    __device__ __forceinline__ void pass(int from, int to) const
    {
        for (int step = from; step < to; step++) {
            wait_for(C::K_HERE, step);
            leave(C::K_FREE, step);
            wait_for_values(step);
            leave(C::V_FREE, step);
        }
    }

    __device__ __forceinline__ void multiply_keys(int step)
    {
        wait_for(C::K_HERE, step);
        if (C::TAKES_TURNS)
            named_barrier(C::TURN + group, 2 * WARPGROUP);
        multiply_tiles<T, C::D>(s, own_q, C::Q_PANEL, memory + C::K + stage_of(step) * C::OF_K,
                                C::PANEL);
    }
    __device__ __forceinline__ void add_values(int step)
    {
        wait_for_values(step);
#pragma unroll
        for (int part = 0; part < C::PARTS; part++)
            add_columns<T>(y[part], weights,
                           memory + C::V + stage_of(step) * C::OF_V +
                               part * C::PART / 64 * C::PANEL,
                           C::PANEL);
    }
    __device__ __forceinline__ void pass_turn() const
    {
        if (C::TAKES_TURNS)
            named_arrival(C::TURN + 1 - group, 2 * WARPGROUP);
    }

    /* Scores, which are there, become powers. */
    __device__ __forceinline__ void weigh(int step)
    {
        const int key = key_of(step), keys = j.of.keys;
        settle(s);
        leave(C::K_FREE, step);
        if (!C::PLAIN && a.to_cap != 0)
            flash_cap(s, a.to_cap);
        if (key + C::KEYS > min(keys, own + j.of.end) ||
            (!C::PLAIN && key < own + 63 + j.of.begin)) {
            const int thread_row = row + lane_id() / 4;
            flash_hide_keys<!C::PLAIN>(s, key + lane_id() % 4 * 2, keys, thread_row + j.of.begin,
                                       thread_row + j.of.end);
        }
        flash_powers<T>(s, most, sum, old, a.p.factor);
    }

    /* All products with values are there. */
    __device__ __forceinline__ void end_values(int step)
    {
        wait_for_products<0>();
#pragma unroll
        for (int part = 0; part < C::PARTS; part++)
            settle(y[part]);
        leave(C::V_FREE, step);
    }

    __device__ __forceinline__ void go_over(int from, int to)
    {
        if (from >= to)
            return;
        multiply_keys(from);
        pass_turn();
        wait_for_products<0>();
        weigh(from);
        round_sums<T>(weights, s);
        for (int step = from + 1; step < to; step++) {
            multiply_keys(step);
            add_values(step - 1);
            pass_turn();
            wait_for_products<C::PARTS>();
            weigh(step);
            end_values(step - 1);
#pragma unroll
            for (int part = 0; part < C::PARTS; part++)
                flash_scale(y[part], old);
            round_sums<T>(weights, s);
        }
        add_values(to - 1);
        end_values(to - 1);
    }
};

template <class T, class C>
__device__ __forceinline__ void attend(const flash_forward_jobs &a, uint32_t memory,
                                       const flash_job &j, uint32_t q, int before, int group)
{
    flash_attending<T, C> at(a, j, memory, q, before, group);
    if constexpr (C::SKIPS) {
        const int end = j.first + j.steps; /* in tiles, as what follows */
        const int above = (max(0, min(j.of.keys, at.own + 63 + j.of.end)) + C::KEYS - 1) / C::KEYS;
        const int below = C::PLAIN ? 0 : max(0, at.own + j.of.begin) / C::KEYS;
        const int from = min(j.steps, max(0, end - above));
        const int to = at.own < j.of.queries ? min(j.steps, max(from, end - below)) : from;
        at.pass(0, from);
        at.go_over(from, to);
        at.pass(to, j.steps);
    } else {
        at.go_over(0, j.steps);
    }
    end_queries<T, C>(a, j, at.row, at.most, at.sum, at.y);
}

#endif
