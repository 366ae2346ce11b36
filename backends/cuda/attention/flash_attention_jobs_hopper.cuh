/* flash_attention_jobs_hopper.cuh - the backward on Hopper: what a block has in shared memory, its
 * jobs, and the threads that bring tiles and pass turns on. */
#ifndef CUDA_FLASH_ATTENTION_JOBS_HOPPER_CUH
#define CUDA_FLASH_ATTENTION_JOBS_HOPPER_CUH

#include "flash_attention_order_hopper.cuh"

struct flash_backward_jobs {
    flash_problem p; /* with a soft cap its factor is that of the hyperbolic tangent */
    flash_jobs jobs;
    CUtensorMap q, k, v, dy;
    float *sums;     /* [B,Hq,tiles,2,64 x OF_SUMS]: dq so far, as it lies in registers */
    unsigned *turns; /* [B,Hq,tiles]: jobs that have added to a tile of dq */
    int tiles;       /* of queries of a head */
    float to_cap;    /* what a score is multiplied by before its hyperbolic tangent is taken; 0 */
};

/* What a block has in shared memory: tiles of KEYS keys of D elements and values of E, of QUERIES
 * queries and dy, STAGES of these; SCORES tiles of [KEYS, QUERIES] scores; TILES of dq, or none. */
template <int D_, int E_, int KEYS_, int QUERIES_, int SCORES, int TILES_>
struct flash_backward_memory {
    static constexpr int D = D_, E = E_, KEYS = KEYS_, QUERIES = QUERIES_, STAGES = 2, TURNS = 2;
    static constexpr int TILES = TILES_;
    static constexpr bool OF_KEYS = true; /* rows of a job are keys */
    static constexpr int ROWS = KEYS, COLUMNS = QUERIES;
    static constexpr int GROUPS = 2, WARPS = 4 * GROUPS, THREADS = (GROUPS + 1) * WARPGROUP;
    static constexpr int MET = 1, CLEARED = 2; /* named barriers */
    static constexpr int OF_K = KEYS * D * 2, OF_V = KEYS * E * 2;
    static constexpr int OF_Q = QUERIES * D * 2, OF_DY = QUERIES * E * 2;
    static constexpr int OF_SCORES = KEYS * QUERIES * 2, OF_ROWS = QUERIES * (int)sizeof(flash_row);
    /* places */
    static constexpr int K = 0, V = K + OF_K, Q = V + OF_V, DY = Q + STAGES * OF_Q;
    static constexpr int OF_DQ = QUERIES * D * (int)sizeof(float);
    static constexpr int DS = DY + STAGES * OF_DY, DQ = DS + SCORES * OF_SCORES;
    static constexpr int ROWS_AT = DQ + TILES * OF_DQ;
    static constexpr int KEYS_HERE = ROWS_AT + STAGES * OF_ROWS, KEYS_FREE = KEYS_HERE + 8;
    static constexpr int Q_HERE = KEYS_FREE + 8, DY_HERE = Q_HERE + 8 * STAGES;
    static constexpr int FREE = DY_HERE + 8 * STAGES, TURN = FREE + 8 * STAGES;
    static constexpr int ADDED = TURN + 8 * TURNS, EMPTY = ADDED + 8 * TURNS;
    static constexpr int JOB = EMPTY + 8 * TURNS;
    static constexpr int BYTES = JOB + (int)sizeof(flash_job);
    static constexpr int KEYS_PANEL = KEYS * PANEL_PITCH, QUERIES_PANEL = QUERIES * PANEL_PITCH;
    static_assert(JOB % 16 == 0, "jobs are read as they are aligned");
    static_assert(BYTES <= 227 << 10, "a block has so much shared memory");
};

/* Heads of up to D elements, values too. PLAIN: as in the forward. */
template <int D_, bool PLAIN_>
struct flash_backward_sm90 : flash_backward_memory<D_, D_, 128, D_ == 64 ? 128 : 64, 2, 2> {
    static constexpr bool PLAIN = PLAIN_;
    static constexpr int FEWER = PLAIN || D_ == 64 ? 24 : 40;
    static constexpr int MORE = PLAIN || D_ == 64 ? 240 : 232;
    static constexpr int OF_SUMS = 64; /* columns of dq of a warpgroup */
};

/* ---- jobs ---- */

template <class C>
__device__ __forceinline__ flash_job keys_of(const flash_backward_jobs &a, int index)
{
    const int tiles = a.jobs.tiles, set = index / (a.jobs.together * tiles);
    const int at = index % (a.jobs.together * tiles), first = set * a.jobs.together;
    const int width = min(a.jobs.together, a.p.batches * a.p.key_heads - first);
    const int head = first + at % width;
    flash_job j = {};
    j.row = at / width * C::KEYS;
    j.of.batch = head / a.p.key_heads;
    j.of.queries = a.p.queries;
    j.of.keys = a.p.keys;
    j.of.end = a.p.end;
    j.head = head % a.p.key_heads;
    j.first = min(a.tiles, max(0, j.row + 1 - a.p.end) / C::QUERIES);
    j.steps = a.tiles - j.first;
    return j;
}

/* A step of a job: a tile of the queries of a head; the last tiles come first. */
struct flash_step {
    int head, tile;
    __device__ __forceinline__ flash_step(const flash_backward_jobs &a, const flash_job &j)
        : head(j.head * a.p.group), tile(j.first + j.steps - 1)
    {
    }
    __device__ __forceinline__ void go_on(const flash_job &j)
    {
        const bool more = tile > j.first;
        tile = more ? tile - 1 : j.first + j.steps - 1;
        head += more ? 0 : 1;
    }
    /* among all */
    __device__ __forceinline__ int64_t place(const flash_backward_jobs &a, const flash_job &j) const
    {
        return ((int64_t)j.of.batch * a.p.heads + head) * a.tiles + j.place + tile;
    }
};

/* Of the tiles of keys that some of a tile of queries see, the first. */
template <class C> __device__ __forceinline__ int first_of_keys(const flash_job &j, int tile)
{
    return C::PLAIN ? 0 : max(0, tile * C::QUERIES + j.of.begin) / C::KEYS;
}

/* Of the jobs that add to a tile of dq, whether this is the first one and the last one. */
struct flash_turn {
    bool first, last;
    unsigned before; /* jobs that add before it */
};

template <class C>
__device__ __forceinline__ flash_turn flash_turn_of(const flash_job &j, const flash_step &s)
{
    const int query = s.tile * C::QUERIES, key_tile = j.row / C::KEYS;
    const int seen = min(j.of.keys, min(j.of.queries, query + C::QUERIES) - 1 + j.of.end);
    const int before = key_tile - first_of_keys<C>(j, s.tile);
    return {before == 0, key_tile == (seen - 1) / C::KEYS, (unsigned)before};
}

/* Calls run(job, number of its first step) for each job of the block, which lies in shared
 * memory: an index where calls are plain. */
template <class C, class F>
__device__ __forceinline__ void each_job(const flash_backward_jobs &a, uint32_t memory,
                                         const char *place, F run)
{
    int steps = 0;
    for (int phase = 0;; phase ^= 1) {
        wait_barrier(memory + C::KEYS_HERE, phase);
        flash_job j;
        if constexpr (C::PLAIN) {
            const int at = *(const volatile int *)place;
            if (at >= a.jobs.tiles * a.p.batches * a.p.key_heads)
                return;
            j = keys_of<C>(a, at);
        } else {
            j = *(const flash_job *)place;
            if (j.steps < 0)
                return;
        }
        run(j, steps);
        steps += j.steps * a.p.group;
    }
}

/* ---- who brings tiles, and who passes turns on: one thread each ---- */

/* The next job, which the others know as soon as the place of its keys is free. */
template <class C>
__device__ __forceinline__ flash_job give_keys(const flash_backward_jobs &a, uint32_t memory,
                                               char *place, int phase)
{
    const int at = (int)atomicAdd(a.jobs.ticket, 1u);
    flash_job j = {};
    if constexpr (C::PLAIN) {
        wait_barrier(memory + C::KEYS_FREE, phase);
        *(volatile int *)place = at;
        if (at >= a.jobs.tiles * a.p.batches * a.p.key_heads)
            j.steps = -1;
        else
            j = keys_of<C>(a, at);
    } else {
        j = flash_job_at<C>(a.p, a.jobs, at);
        wait_barrier(memory + C::KEYS_FREE, phase);
        *(flash_job *)place = j;
    }
    return j;
}

template <class C>
__device__ __forceinline__ void bring_tiles(const flash_backward_jobs &a, uint32_t memory,
                                            char *place)
{
    for (int phase = 1, number = 0;; phase ^= 1) {
        const flash_job j = give_keys<C>(a, memory, place, phase);
        if (j.steps < 0) {
            arrive(memory + C::KEYS_HERE);
            return;
        }
        const int key = j.of.key + j.row, b = j.of.batch;
        arrive_and_expect(memory + C::KEYS_HERE, C::OF_K + C::OF_V);
        copy_tile<C::D, C::KEYS>(memory + C::K, &a.k, memory + C::KEYS_HERE, j.head, key, b);
        copy_tile<C::E, C::KEYS>(memory + C::V, &a.v, memory + C::KEYS_HERE, j.head, key, b);
        flash_step s(a, j);
        for (int step = 0; step < j.steps * a.p.group; step++, number++, s.go_on(j)) {
            const int stage = number % C::STAGES, query = j.of.query + s.tile * C::QUERIES;
            const uint32_t q_here = memory + C::Q_HERE + 8 * stage;
            const uint32_t dy_here = memory + C::DY_HERE + 8 * stage;
            wait_barrier(memory + C::FREE + 8 * stage, number / C::STAGES % 2 ^ 1);
            arrive_and_expect(q_here, C::OF_Q + C::OF_ROWS);
            copy_tile<C::D, C::QUERIES>(memory + C::Q + stage * C::OF_Q, &a.q, q_here, s.head,
                                        query, b);
            copy_bytes(memory + C::ROWS_AT + stage * C::OF_ROWS,
                       a.p.rows + s.place(a, j) * C::QUERIES, C::OF_ROWS, q_here);
            arrive_and_expect(dy_here, C::OF_DY);
            copy_tile<C::E, C::QUERIES>(memory + C::DY + stage * C::OF_DY, &a.dy, dy_here, s.head,
                                        query, b);
        }
    }
}

/* How many jobs have added; and that this one has. */
__device__ __forceinline__ unsigned turn_of(const unsigned *turn)
{
    unsigned now;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(turn) : "memory");
    return now;
}

__device__ __forceinline__ void end_turn(unsigned *turn, unsigned next)
{
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(turn), "r"(next) : "memory");
}

/* run(number of the step, its place among all, its turn) for each step of the block. */
template <class C, class F>
__device__ __forceinline__ void each_turn(const flash_backward_jobs &a, uint32_t memory,
                                          const char *place, F run)
{
    each_job<C>(a, memory, place, [&](const flash_job &j, int before) {
        arrive(memory + C::KEYS_FREE);
        flash_step s(a, j);
        for (int step = 0; step < j.steps * a.p.group; step++, s.go_on(j))
            run(before + step, s.place(a, j), flash_turn_of<C>(j, s));
    });
}

__device__ __forceinline__ void await_turn(const unsigned *turn, unsigned own)
{
    while (turn_of(turn) != own)
        ;
}

/* Turns come, and are awaited up to C::TURNS steps ahead, while another thread passes on those that
 * are over: that this takes its time is the matter of the job behind, not of the next step. */
template <class C>
__device__ __forceinline__ void await_turns(const flash_backward_jobs &a, uint32_t memory,
                                            const char *place)
{
    each_turn<C>(a, memory, place, [&](int number, int64_t tile, const flash_turn &turn) {
        const int at = 8 * (number % C::TURNS), round = number / C::TURNS;
        if (round > 0)
            wait_barrier(memory + C::ADDED + at, round % 2 ^ 1);
        await_turn(a.turns + tile, turn.before);
        arrive(memory + C::TURN + at);
    });
}

template <class C>
__device__ __forceinline__ void pass_turns(const flash_backward_jobs &a, uint32_t memory,
                                           const char *place)
{
    each_turn<C>(a, memory, place, [&](int number, int64_t tile, const flash_turn &turn) {
        const int at = 8 * (number % C::TURNS), round = number / C::TURNS;
        wait_barrier(memory + C::ADDED + at, round % 2);
        end_turn(a.turns + tile, turn.before + 1);
    });
}

/* Where tiles of dq lie in shared memory, the copy engine adds them. A thread for each of their two
 * places, with the steps of odd numbers or the others, waits for the tile and for its turn, and
 * tells when the place is free and when the turn is over. What the last job of a tile adds to comes
 * to its registers; it has nothing to pass on. */
template <class C>
__device__ __forceinline__ void add_tiles(const flash_backward_jobs &a, uint32_t memory,
                                          const char *place, int own)
{
    each_turn<C>(a, memory, place, [&](int number, int64_t tile, const flash_turn &turn) {
        if (number % C::TURNS != own)
            return;
        const int phase = number / C::TURNS % 2;
        if (turn.last) {
            await_turn(a.turns + tile, turn.before);
            arrive(memory + C::TURN + 8 * own);
            wait_barrier(memory + C::ADDED + 8 * own, phase);
            arrive(memory + C::EMPTY + 8 * own);
            return;
        }
        arrive(memory + C::TURN + 8 * own);
        await_turn(a.turns + tile, turn.before);
        wait_barrier(memory + C::ADDED + 8 * own, phase);
        fence_copies();
        add_bytes(a.sums + tile * (C::OF_DQ / (int)sizeof(float)), memory + C::DQ + own * C::OF_DQ,
                  C::OF_DQ, !turn.first);
        end_stores();
        wait_for_stores_to_read();
        arrive(memory + C::EMPTY + 8 * own);
        wait_for_stores();
        fence_copies();
        end_turn(a.turns + tile, turn.before + 1);
    });
}

#endif
