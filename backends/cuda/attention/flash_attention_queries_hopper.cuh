/* flash_attention_queries_hopper.cuh - the forward on Hopper: what a block has in shared memory,
 * and its jobs. */
#ifndef CUDA_FLASH_ATTENTION_QUERIES_HOPPER_CUH
#define CUDA_FLASH_ATTENTION_QUERIES_HOPPER_CUH

#include "flash_attention_order_hopper.cuh"

struct flash_forward_jobs {
    flash_problem p; /* with a soft cap its factor is that of the hyperbolic tangent */
    flash_jobs jobs;
    CUtensorMap q, k, v;
    float to_cap; /* what a score is multiplied by before its hyperbolic tangent is taken; 0 */
};

/* Heads of up to D elements, values of up to E. PLAIN: each batch is one sequence, whose query i
 * sees all keys below i + p.end, and there is neither soft cap nor sink. */
template <int D_, int E_, bool PLAIN_> struct flash_forward_sm90 {
    static constexpr int D = D_, E = E_;
    static constexpr bool PLAIN = PLAIN_, OF_KEYS = false, TAKES_TURNS = D == 128;
    static constexpr bool SKIPS = !TAKES_TURNS && (!PLAIN || D == 64);
    static constexpr int GROUPS = D == 64 ? 3 : 2, WARPS = 4 * GROUPS,
                         THREADS = (GROUPS + 1) * WARPGROUP;
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

#endif
