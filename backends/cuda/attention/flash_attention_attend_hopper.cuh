/* flash_attention_attend_hopper.cuh - the forward on Hopper: what a block has in shared memory, and
 * a warpgroup's part of a job. */
#ifndef CUDA_FLASH_ATTENTION_ATTEND_HOPPER_CUH
#define CUDA_FLASH_ATTENTION_ATTEND_HOPPER_CUH

#include "flash_attention_list_hopper.cuh"
#include "flash_attention_softmax.cuh"

struct flash_forward_jobs {
    flash_problem p; /* with a soft cap its factor is that of the hyperbolic tangent */
    flash_jobs jobs;
    CUtensorMap q, k, v;
    float to_cap; /* what a score is multiplied by before its hyperbolic tangent is taken; 0 */
};

/* Heads of up to D elements, values of up to E. PLAIN: each batch is one sequence, whose query i
 * sees all keys below i + p.end, and there is neither soft cap nor sink. */
template <int D_, int E_, bool PLAIN_, int GROUPS_, bool TURNS> struct flash_forward_sm90 {
    static constexpr int D = D_, E = E_;
    static constexpr bool PLAIN = PLAIN_, OF_KEYS = false, TAKES_TURNS = TURNS;
    static constexpr bool SKIPS = !TURNS && (!PLAIN || GROUPS_ > 2);
    static constexpr int GROUPS = GROUPS_, WARPS = 4 * GROUPS, THREADS = (GROUPS + 1) * WARPGROUP;
    static constexpr int QUERIES = 64 * GROUPS, KEYS = D <= 192 ? 128 : 64;
    static constexpr int ROWS = QUERIES, COLUMNS = KEYS;
    static constexpr int STAGES = 2, Q_STAGES = D <= 128 ? 2 : 1;
    static constexpr int PARTS = E <= 128 ? 1 : 2, PART = E / PARTS; /* columns of a product */
    static constexpr int FEWER = GROUPS > 2 ? 32 : PLAIN ? 24 : 40;
    static constexpr int MORE = GROUPS > 2 ? 160 : PLAIN ? 240 : 232;
    static constexpr int CLEARED = 2, TURN = 3; /* named barriers */
    static constexpr int OF_Q = QUERIES * D * 2, OF_K = KEYS * D * 2, OF_V = KEYS * E * 2;
    static constexpr int Q_PANEL = QUERIES * PANEL_PITCH, PANEL = KEYS * PANEL_PITCH;
    /* places in shared memory, of each tile and each barrier one a stage */
    static constexpr int Q = 0, K = Q + Q_STAGES * OF_Q, V = K + STAGES * OF_K;
    static constexpr int Q_HERE = V + STAGES * OF_V, K_HERE = Q_HERE + 8 * Q_STAGES;
    static constexpr int V_HERE = K_HERE + 8 * STAGES, Q_FREE = V_HERE + 8 * STAGES;
    static constexpr int K_FREE = Q_FREE + 8 * Q_STAGES, V_FREE = K_FREE + 8 * STAGES;
    static constexpr int JOB = V_FREE + 8 * STAGES;
    static constexpr int OF_JOB = PLAIN ? (int)sizeof(int) : (int)sizeof(flash_job);
    static constexpr int BYTES = JOB + OF_JOB * Q_STAGES;
    static_assert(JOB % 16 == 0, "jobs are read as they are aligned");
    static_assert(BYTES <= 227 << 10, "a block has so much shared memory");
};

/* ---- jobs ---- */

template <class C>
__device__ __forceinline__ flash_job queries_of(const flash_forward_jobs &a, int index)
{
    const int tiles = a.jobs.tiles, set = index / (a.jobs.together * tiles);
    const int at = index % (a.jobs.together * tiles), first = set * a.jobs.together;
    const int width = min(a.jobs.together, a.p.batches * a.p.heads - first);
    const int head = first + at % width;
    flash_job j = {};
    j.row = (tiles - 1 - at / width) * C::QUERIES; /* those that see most come first */
    j.head = head % a.p.heads;
    j.of.batch = head / a.p.heads;
    j.of.queries = a.p.queries;
    j.of.keys = a.p.keys;
    j.of.end = a.p.end;
    const int seen = max(0, min(a.p.keys, j.row + C::QUERIES - 1 + a.p.end));
    j.steps = (seen + C::KEYS - 1) / C::KEYS;
    return j;
}

/* The job of an index, for those who compute as well. */
template <class C>
__device__ __forceinline__ flash_job give_job(const flash_forward_jobs &a, char *places, int stage,
                                              int index)
{
    if constexpr (C::PLAIN) {
        ((volatile int *)places)[stage] = index;
        flash_job j = {};
        if (index >= a.jobs.tiles * a.p.batches * a.p.heads)
            j.steps = -1;
        else
            j = queries_of<C>(a, index);
        return j;
    } else {
        const flash_job j = flash_job_at<C>(a.p, a.jobs, index);
        ((flash_job *)places)[stage] = j;
        return j;
    }
}

template <class C>
__device__ __forceinline__ bool take_job(const flash_forward_jobs &a, const char *places, int stage,
                                         flash_job &j)
{
    if constexpr (C::PLAIN) {
        const int at = ((const volatile int *)places)[stage];
        if (at >= a.jobs.tiles * a.p.batches * a.p.heads)
            return false;
        j = queries_of<C>(a, at);
        return true;
    } else {
        j = ((const flash_job *)places)[stage];
        return j.steps >= 0;
    }
}

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

template <class T, class C>
__device__ __forceinline__ void attend(const flash_forward_jobs &a, uint32_t memory,
                                       const flash_job &j, uint32_t q, int before, int group)
{
    constexpr int N = C::KEYS / 8;
    const flash_problem &p = a.p;
    const int lane = lane_id(), own = j.row + group * 64, keys = j.of.keys;
    const int row = own + threadIdx.x % WARPGROUP / 32 * 16;
    const uint32_t own_q = q + group * 64 * PANEL_PITCH;
    float y[C::PARTS][C::PART / 8][4] = {}, most[2] = {-CUDART_INF_F, -CUDART_INF_F}, sum[2] = {};
    float s[N][4], old[2];
    uint32_t weights[N / 2][4];

    const auto key_of = [&](int step) { return (j.first + j.steps - 1 - step) * C::KEYS; };
    const auto multiply_keys = [&](int step) {
        const int stage = (before + step) % C::STAGES;
        wait_barrier(memory + C::K_HERE + 8 * stage, (before + step) / C::STAGES % 2);
        if (C::TAKES_TURNS)
            named_barrier(C::TURN + group, 2 * WARPGROUP);
        multiply_tiles<T, C::D>(s, own_q, C::Q_PANEL, memory + C::K + stage * C::OF_K, C::PANEL);
    };
    const auto end_turn = [&]() {
        if (C::TAKES_TURNS)
            named_arrival(C::TURN + 1 - group, 2 * WARPGROUP);
    };
    const auto leave = [&](int free, int step) {
        if (lane == 0)
            arrive(memory + free + 8 * ((before + step) % C::STAGES));
    };
    const auto wait_for_values = [&](int step) {
        const int stage = (before + step) % C::STAGES, key = key_of(step);
        wait_barrier(memory + C::V_HERE + 8 * stage, (before + step) / C::STAGES % 2);
        if (!C::PLAIN && (key < j.of.begin || key + C::KEYS > keys))
            clear_outside<C::E / 64, C::KEYS>(memory + C::V + stage * C::OF_V, j.of.begin - key,
                                              keys - key, C::CLEARED, C::GROUPS * WARPGROUP);
    };
    const auto add_values = [&](int step) {
        const uint32_t v = memory + C::V + (before + step) % C::STAGES * C::OF_V;
        wait_for_values(step);
#pragma unroll
        for (int part = 0; part < C::PARTS; part++)
            add_columns<T>(y[part], weights, v + part * C::PART / 64 * C::PANEL, C::PANEL);
    };
    const auto weigh = [&](int step) {
        const int key = key_of(step);
        settle(s);
        leave(C::K_FREE, step);
        if (!C::PLAIN && a.to_cap != 0)
            flash_cap(s, a.to_cap);
        if (key + C::KEYS > min(keys, own + j.of.end) ||
            (!C::PLAIN && key < own + 63 + j.of.begin)) {
            const int thread_row = row + lane / 4;
            flash_hide_keys<!C::PLAIN>(s, key + lane % 4 * 2, keys, thread_row + j.of.begin,
                                       thread_row + j.of.end);
        }
        flash_powers<T>(s, most, sum, old, p.factor);
    };
    const auto settle_sums = [&]() {
#pragma unroll
        for (int part = 0; part < C::PARTS; part++)
            settle(y[part]);
    };
    /* tiles that the group's rows see nothing of */
    const auto pass = [&](int from, int to) {
        for (int step = from; step < to; step++) {
            wait_barrier(memory + C::K_HERE + 8 * ((before + step) % C::STAGES),
                         (before + step) / C::STAGES % 2);
            leave(C::K_FREE, step);
            wait_for_values(step);
            leave(C::V_FREE, step);
        }
    };
    int from = 0, to = j.steps;
    if constexpr (C::SKIPS) {
        const int above = (min(keys, own + 63 + j.of.end) + C::KEYS - 1) / C::KEYS;
        from = min(to, max(0, j.first + j.steps - max(0, above)));
        to = C::PLAIN ? to : max(from, j.first + j.steps - max(0, own + j.of.begin) / C::KEYS);
        to = own < j.of.queries ? min(to, j.steps) : from;
        pass(0, from);
    }
    if (from < to) {
        multiply_keys(from);
        end_turn();
        wait_for_products<0>();
        weigh(from);
        round_sums<T>(weights, s);
        for (int step = from + 1; step < to; step++) {
            multiply_keys(step);
            add_values(step - 1);
            end_turn();
            wait_for_products<C::PARTS>();
            weigh(step);
            wait_for_products<0>();
            settle_sums();
            leave(C::V_FREE, step - 1);
#pragma unroll
            for (int part = 0; part < C::PARTS; part++)
                flash_scale(y[part], old);
            round_sums<T>(weights, s);
        }
        add_values(to - 1);
        wait_for_products<0>();
        settle_sums();
        leave(C::V_FREE, to - 1);
    }
    if constexpr (C::SKIPS)
        pass(to, j.steps);
    end_queries<T, C>(a, j, row, most, sum, y);
}

#endif
