/* flash_attention_forward_hopper.cuh - the forward on Hopper: a job is a tile of queries of one
 * head, which goes over the tiles of keys that it sees, the last ones first, with a running maximum
 * and sum.
 *
 * One warp of a block takes jobs by a ticket and brings tiles, of the next job too while this one
 * ends. Warpgroups compute, each with 64 of the queries: the exponentials of one tile while the
 * product of the tile before with its values runs (flash_attention_attend_hopper.cuh). */
#ifndef CUDA_FLASH_ATTENTION_FORWARD_HOPPER_CUH
#define CUDA_FLASH_ATTENTION_FORWARD_HOPPER_CUH

#include "flash_attention_attend_hopper.cuh"

/* ---- who brings tiles: one thread ---- */

template <class C, int WIDTH, int ROWS>
__device__ __forceinline__ void bring_tile(uint32_t memory, const CUtensorMap *map, int tile,
                                           int here, int free, int stages, int number, int head,
                                           int row, int b)
{
    const int stage = number % stages;
    const uint32_t barrier = memory + here + 8 * stage;
    wait_barrier(memory + free + 8 * stage, number / stages % 2 ^ 1);
    arrive_and_expect(barrier, ROWS * WIDTH * 2);
    copy_tile<WIDTH, ROWS>(memory + tile + stage * ROWS * WIDTH * 2, map, barrier, head, row, b);
}

template <class C>
__device__ __forceinline__ void bring_tiles(const flash_forward_jobs &a, uint32_t memory,
                                            char *places)
{
    int at = (int)atomicAdd(a.jobs.ticket, 1u);
    for (int job = 0, number = 0;; job++) {
        const int stage = job % C::Q_STAGES;
        wait_barrier(memory + C::Q_FREE + 8 * stage, job / C::Q_STAGES % 2 ^ 1);
        const flash_job j = give_job<C>(a, places, stage, at);
        if (j.steps < 0) {
            arrive(memory + C::Q_HERE + 8 * stage);
            return;
        }
        const int key_head = j.head / a.p.group, b = j.of.batch;
        at = (int)atomicAdd(a.jobs.ticket, 1u);
        bring_tile<C, C::D, C::QUERIES>(memory, &a.q, C::Q, C::Q_HERE, C::Q_FREE, C::Q_STAGES, job,
                                        j.head, j.of.query + j.row, b);
        for (int tile = j.first + j.steps - 1; tile >= j.first; tile--, number++) {
            const int key = j.of.key + tile * C::KEYS;
            bring_tile<C, C::D, C::KEYS>(memory, &a.k, C::K, C::K_HERE, C::K_FREE, C::STAGES,
                                         number, key_head, key, b);
            bring_tile<C, C::E, C::KEYS>(memory, &a.v, C::V, C::V_HERE, C::V_FREE, C::STAGES,
                                         number, key_head, key, b);
        }
    }
}

template <class T, class C>
__global__ void __launch_bounds__(C::THREADS, 1)
    flash_forward_sm90_kernel(const __grid_constant__ flash_forward_jobs a)
{
#if HAS_WGMMA
    extern __shared__ __align__(1024) char shared[];
    const uint32_t memory = shared_address(shared);
    char *const places = shared + C::JOB;
    if (threadIdx.x == 0) {
        for (int i = 0; i < C::Q_STAGES; i++) {
            init_barrier(memory + C::Q_HERE + 8 * i, 1);
            init_barrier(memory + C::Q_FREE + 8 * i, C::WARPS);
        }
        for (int i = 0; i < C::STAGES; i++) {
            init_barrier(memory + C::K_HERE + 8 * i, 1);
            init_barrier(memory + C::V_HERE + 8 * i, 1);
            init_barrier(memory + C::K_FREE + 8 * i, C::WARPS);
            init_barrier(memory + C::V_FREE + 8 * i, C::WARPS);
        }
        fence_barriers();
    }
    __syncthreads();
    if (threadIdx.x >= C::GROUPS * WARPGROUP) {
        fewer_registers<C::FEWER>();
        if (threadIdx.x == C::GROUPS * WARPGROUP)
            bring_tiles<C>(a, memory, places);
    } else {
        more_registers<C::MORE>();
        /* of the warp, as the compiler knows of what comes from one lane */
        const int group = __shfl_sync(0xffffffff, threadIdx.x / WARPGROUP, 0);
        if (C::TAKES_TURNS && group == 1)
            named_arrival(C::TURN, 2 * WARPGROUP); /* the first turn is group 0's */
        for (int job = 0, steps = 0;; job++) {
            const int stage = job % C::Q_STAGES;
            wait_barrier(memory + C::Q_HERE + 8 * stage, job / C::Q_STAGES % 2);
            flash_job j;
            if (!take_job<C>(a, places, stage, j))
                return;
            attend<T, C>(a, memory, j, memory + C::Q + stage * C::OF_Q, steps, group);
            steps += j.steps;
            __syncwarp();
            if (lane_id() == 0)
                arrive(memory + C::Q_FREE + 8 * stage);
        }
    }
#endif
}

/* ---- the host's side ---- */

template <class T, class C>
static bool flash_launch_forward(const flash_problem &p, char *room, int processors,
                                 cudaStream_t stream)
{
    flash_forward_jobs a = {};
    a.p = p;
    flash_lay_out_jobs<C>(&a.jobs, p, room, processors);
    if (p.softcap != 0) {
        a.to_cap = p.scale / p.softcap;
        a.p.factor = p.softcap / LN_2;
    }
    if (!flash_map<T>(&a.q, p, p.q, p.queries, p.heads, p.d, C::QUERIES) ||
        !flash_map<T>(&a.k, p, p.k, p.keys, p.key_heads, p.d, C::KEYS) ||
        !flash_map<T>(&a.v, p, p.v, p.keys, p.key_heads, p.e, C::KEYS))
        return false;
    flash_list<C>(p, a.jobs, stream);
    flash_start<C>(flash_forward_sm90_kernel<T, C>, a, flash_most_jobs(p, a.jobs), processors,
                   stream);
    return true;
}

/* run(C()) with the kernel of a call. */
template <class F> static auto by_forward_kernel(const flash_problem &p, F run)
{
    const bool plain = flash_is_plain(p);
    const int wider = max(p.d, p.e);
    if (wider <= 64)
        return plain ? run(flash_forward_sm90<64, 64, true>())
                     : run(flash_forward_sm90<64, 64, false>());
    if (wider <= 128)
        return plain ? run(flash_forward_sm90<128, 128, true>())
                     : run(flash_forward_sm90<128, 128, false>());
    if (p.d <= 192 && p.e <= 128)
        return run(flash_forward_sm90<192, 128, false>());
    return run(flash_forward_sm90<256, 256, false>());
}

template <class T> int64_t flash_forward_sm90_room(const flash_problem &p)
{
    return by_forward_kernel(p, [&](auto c) {
        flash_jobs jobs;
        return flash_lay_out_jobs<decltype(c)>(&jobs, p, NULL, 1);
    });
}

template <class T>
bool flash_attention_forward_sm90(const flash_problem &p, char *room, int processors,
                                  cudaStream_t stream)
{
    return by_forward_kernel(p, [&](auto c) {
        return flash_launch_forward<T, decltype(c)>(p, room, processors, stream);
    });
}

#endif
