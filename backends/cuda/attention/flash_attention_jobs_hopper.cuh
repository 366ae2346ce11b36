/* flash_attention_jobs_hopper.cuh - the backward on Hopper: what a block has in shared memory, its
 * jobs, and the threads that bring tiles and watch turns. */
#ifndef CUDA_FLASH_ATTENTION_JOBS_HOPPER_CUH
#define CUDA_FLASH_ATTENTION_JOBS_HOPPER_CUH

#include "flash_attention_hopper.cuh"

struct flash_backward_jobs {
    flash_problem p;
    CUtensorMap q, k, v, dy;
    float *sums;     /* [B,Hq,tiles,QUERIES x D]: dq so far, as it lies in registers */
    unsigned *turns; /* [B,Hq,tiles,2]: jobs that have added to each half of a tile of dq */
    unsigned *ticket;
    int tiles, key_tiles; /* of a head */
    int together;         /* heads whose jobs are interleaved */
};

template <int D> struct flash_backward_sm90 {
    static constexpr int KEYS = 128, QUERIES = D == 64 ? 128 : 64, STAGES = 2;
    static constexpr int GROUPS = 2, WARPS = 4 * GROUPS, THREADS = (GROUPS + 1) * WARPGROUP;
    static constexpr int OF_KEYS = KEYS * D * 2, OF_QUERIES = QUERIES * D * 2;
    static constexpr int OF_SCORES = KEYS * QUERIES * 2, OF_ROWS = QUERIES * (int)sizeof(flash_row);
    /* places in shared memory */
    static constexpr int K = 0, V = OF_KEYS, Q = 2 * OF_KEYS, DY = Q + STAGES * OF_QUERIES;
    static constexpr int DS = DY + STAGES * OF_QUERIES, ROWS = DS + 2 * OF_SCORES;
    static constexpr int BARRIERS = ROWS + STAGES * OF_ROWS;
    static constexpr int KEYS_HERE = BARRIERS, KEYS_FREE = KEYS_HERE + 8, Q_HERE = KEYS_FREE + 8;
    static constexpr int DY_HERE = Q_HERE + 8 * STAGES, FREE = DY_HERE + 8 * STAGES;
    static constexpr int TURN = FREE + 8 * STAGES, ADDED = TURN + 8 * GROUPS;
    static constexpr int JOB = ADDED + 8 * GROUPS, BYTES = JOB + 16;
    static constexpr int KEYS_PANEL = KEYS * PANEL_PITCH, QUERIES_PANEL = QUERIES * PANEL_PITCH;
};

/* ---- jobs ---- */

/* A tile of keys, and the tiles of queries that see some of them, in each head of its group. */
struct flash_job {
    int key_tile, b, key_head, tiles, steps;
};

template <class C>
__device__ __forceinline__ flash_job job_of(const flash_backward_jobs &a, int index)
{
    const int set = index / (a.together * a.key_tiles), at = index % (a.together * a.key_tiles);
    const int first = set * a.together;
    const int width = min(a.together, a.p.batches * a.p.key_heads - first);
    const int head = first + at % width;
    flash_job j;
    j.key_tile = at / width;
    j.b = head / a.p.key_heads;
    j.key_head = head % a.p.key_heads;
    j.tiles = max(0, a.tiles - max(0, j.key_tile * C::KEYS + 1 - a.p.end) / C::QUERIES);
    j.steps = j.tiles * a.p.group;
    return j;
}

/* A step of a job: a tile of the queries of a head. */
struct flash_step {
    int head, tile;
    int64_t place; /* of the tile among all */
};

__device__ __forceinline__ flash_step step_of(const flash_backward_jobs &a, const flash_job &j,
                                              int step)
{
    flash_step s;
    s.head = j.key_head * a.p.group + step / j.tiles;
    s.tile = a.tiles - 1 - step % j.tiles;
    s.place = ((int64_t)j.b * a.p.heads + s.head) * a.tiles + s.tile;
    return s;
}

/* Calls run(job, number of its first step) for each job of the block, whose index lies in shared
 * memory; `read` jobs have been read. */
template <class C, class F>
__device__ __forceinline__ void each_job(const flash_backward_jobs &a, uint32_t memory,
                                         const int *index, F run)
{
    const int jobs = a.key_tiles * a.p.batches * a.p.key_heads;
    int steps = 0;
    for (int phase = 0;; phase ^= 1) {
        wait_barrier(memory + C::KEYS_HERE, phase);
        const int at = *(volatile const int *)index;
        if (at >= jobs)
            return;
        const flash_job j = job_of<C>(a, at);
        run(j, steps);
        steps += j.steps;
    }
}

/* ---- who brings tiles, and who watches turns: one thread each ---- */

template <class C, int D>
__device__ __forceinline__ void bring_tiles(const flash_backward_jobs &a, uint32_t memory,
                                            int *index)
{
    const int jobs = a.key_tiles * a.p.batches * a.p.key_heads;
    for (int phase = 1, number = 0;; phase ^= 1) {
        const int at = (int)atomicAdd(a.ticket, 1u);
        wait_barrier(memory + C::KEYS_FREE, phase);
        *(volatile int *)index = at;
        if (at >= jobs) {
            arrive(memory + C::KEYS_HERE);
            return;
        }
        const flash_job j = job_of<C>(a, at);
        const int key = j.key_tile * C::KEYS;
        arrive_and_expect(memory + C::KEYS_HERE, 2 * C::OF_KEYS);
        copy_tile<D, C::KEYS>(memory + C::K, &a.k, memory + C::KEYS_HERE, j.key_head, key, j.b);
        copy_tile<D, C::KEYS>(memory + C::V, &a.v, memory + C::KEYS_HERE, j.key_head, key, j.b);
        for (int step = 0; step < j.steps; step++, number++) {
            const flash_step s = step_of(a, j, step);
            const int stage = number % C::STAGES, query = s.tile * C::QUERIES;
            const uint32_t q_here = memory + C::Q_HERE + 8 * stage;
            const uint32_t dy_here = memory + C::DY_HERE + 8 * stage;
            wait_barrier(memory + C::FREE + 8 * stage, number / C::STAGES % 2 ^ 1);
            arrive_and_expect(q_here, C::OF_QUERIES + C::OF_ROWS);
            copy_tile<D, C::QUERIES>(memory + C::Q + stage * C::OF_QUERIES, &a.q, q_here, s.head,
                                     query, j.b);
            copy_bytes(memory + C::ROWS + stage * C::OF_ROWS, a.p.rows + s.place * C::QUERIES,
                       C::OF_ROWS, q_here);
            arrive_and_expect(dy_here, C::OF_QUERIES);
            copy_tile<D, C::QUERIES>(memory + C::DY + stage * C::OF_QUERIES, &a.dy, dy_here, s.head,
                                     query, j.b);
        }
    }
}

/* Of one half of each tile of dq: `added` follows `turn`. */
template <class C>
__device__ __forceinline__ void watch_turns(const flash_backward_jobs &a, uint32_t memory,
                                            const int *index, int half)
{
    each_job<C>(a, memory, index, [&](const flash_job &j, int before) {
        arrive(memory + C::KEYS_FREE);
        for (int step = 0; step < j.steps; step++) {
            unsigned *turn = a.turns + 2 * step_of(a, j, step).place + half, now;
            do
                asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                             : "=r"(now)
                             : "l"(turn)
                             : "memory");
            while (now != (unsigned)j.key_tile);
            arrive(memory + C::TURN + 8 * half);
            wait_barrier(memory + C::ADDED + 8 * half, (before + step) % 2);
            __threadfence();
            asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(turn), "r"(now + 1)
                         : "memory");
        }
    });
}

#endif
