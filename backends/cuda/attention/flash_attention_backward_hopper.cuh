/* flash_attention_backward_hopper.cuh - all gradients in one pass, on Hopper: five products a tile.
 *
 * A job is a tile of keys of one head: dk and dv stay in registers while it goes over the queries
 * that see them, the last ones first. What it adds to dq lies in memory in f32, and jobs add to a
 * tile of queries in the order of their keys: each waits for its turn, the number of jobs that have
 * added before. Blocks take jobs by a ticket and a job waits for jobs with earlier tickets alone,
 * so that some job can always go on. Jobs of some heads are interleaved, so that a job's turn has
 * mostly come when it gets there.
 *
 * One warp of a block brings tiles, two pass turns on, and two warpgroups compute, each with half
 * of the keys: s^T = k q^T and dp^T = v dy^T have keys as rows, so that p^T and ds^T are factors of
 * dv and dk as they lie in registers. dq needs ds of all keys, which goes through shared memory. */
#ifndef CUDA_FLASH_ATTENTION_BACKWARD_HOPPER_CUH
#define CUDA_FLASH_ATTENTION_BACKWARD_HOPPER_CUH

#include "flash_attention_keys_hopper.cuh"
#include "flash_attention_sinks.cuh"
#include "flash_attention_wide_hopper.cuh"

template <class T, class C>
__global__ void __launch_bounds__(C::THREADS, 1)
    flash_backward_sm90_kernel(const __grid_constant__ flash_backward_jobs a)
{
#if HAS_WGMMA
    extern __shared__ __align__(1024) char shared[];
    const uint32_t memory = shared_address(shared);
    char *const place = shared + C::JOB;
    if (threadIdx.x == 0) {
        init_barrier(memory + C::KEYS_HERE, 1);
        init_barrier(memory + C::KEYS_FREE, C::WARPS + 2);
        for (int i = 0; i < C::STAGES; i++) {
            init_barrier(memory + C::Q_HERE + 8 * i, 1);
            init_barrier(memory + C::DY_HERE + 8 * i, 1);
            init_barrier(memory + C::FREE + 8 * i, C::WARPS);
        }
        for (int i = 0; i < C::TURNS; i++) {
            init_barrier(memory + C::TURN + 8 * i, 1);
            init_barrier(memory + C::ADDED + 8 * i, C::WARPS);
            init_barrier(memory + C::EMPTY + 8 * i, 1);
        }
        fence_barriers();
    }
    __syncthreads();
    if (threadIdx.x >= C::GROUPS * WARPGROUP) {
        fewer_registers<C::FEWER>();
        const int warp = threadIdx.x / 32 - C::WARPS;
        if (lane_id() != 0)
            return;
        if (warp == 2)
            bring_tiles<C>(a, memory, place);
        else if (warp < 2 && C::TILES > 0)
            add_tiles<C>(a, memory, place, warp);
        else if (warp == 0)
            await_turns<C>(a, memory, place);
        else if (warp == 1)
            pass_turns<C>(a, memory, place);
    } else {
        more_registers<C::MORE>();
        /* of the warp, as the compiler knows of what comes from one lane */
        const int half = __shfl_sync(0xffffffff, threadIdx.x / WARPGROUP, 0);
        each_job<C>(a, memory, place, [&](const flash_job &j, int before) {
            if constexpr (C::D > 128)
                compute_wide_job<T, C>(a, memory, j, before, half);
            else
                compute_job<T, C>(a, memory, j, before, half);
        });
    }
#endif
}

/* ---- before: lse and dy . y of each query; turns and the ticket begin at 0 ---- */

/* Threads of a row: a power of 2, of which each has a chunk. Rows that a thread goes through, all
 * of which are on their way at once; those of a warp are of one tile, which it finds once. */
template <class C> constexpr int FLASH_LANES = C::D <= 64 ? 8 : C::D <= 128 ? 16 : 32;
enum { FLASH_ROWS_AHEAD = 4 };

template <class T, class C>
__global__ void __launch_bounds__(256)
    flash_prepare_kernel(const __grid_constant__ flash_backward_jobs a)
{
    constexpr int LANES = FLASH_LANES<C>, TOGETHER = 32 / LANES, EACH = FLASH_ROWS_AHEAD;
    static_assert(C::QUERIES % (TOGETHER * EACH) == 0, "rows of a warp are of one tile");
    const flash_problem &p = a.p;
    const int64_t thread = blockIdx.x * 256ll + threadIdx.x;
    const int64_t at = thread / 32 * (TOGETHER * EACH) + lane_id() / LANES;
    const int rows = a.tiles * C::QUERIES, c = lane_id() % LANES * V<T>;
    const int row = (int)(at % rows), h = (int)(at / rows % p.heads);
    const int b = (int)(at / rows / p.heads);
    if (thread < (int64_t)a.tiles * p.heads * p.batches)
        a.turns[thread] = 0;
    if (b >= p.batches)
        return;
    const flash_place tile = flash_tile_by_warp<C::QUERIES, false>(p, b, h, row / C::QUERIES);
    const int first = tile.row + row % C::QUERIES, r = tile.of.query + first;
    uint4 dy[EACH], y[EACH];
    bool there[EACH], blind[EACH];
#pragma unroll
    for (int n = 0; n < EACH; n++) {
        const int i = first + n * TOGETHER;
        there[n] = i < tile.of.queries;
        blind[n] = tile.of.sees_none(i);
        dy[n] = y[n] = make_uint4(0, 0, 0, 0);
        if (there[n] && !blind[n] && c < p.e) {
            dy[n] = *(const uint4 *)(p.dy.at(b, h, r + n * TOGETHER) + c * sizeof(T));
            y[n] = *(const uint4 *)(p.y.at(b, h, r + n * TOGETHER) + c * sizeof(T));
        }
    }
#pragma unroll
    for (int n = 0; n < EACH; n++) {
        const int query = r + n * TOGETHER;
        float sum = 0, of_dy[V<T>], of_y[V<T>];
        widen<T>(dy[n], of_dy);
        widen<T>(y[n], of_y);
#pragma unroll
        for (int k = 0; k < V<T>; k++)
            sum = fmaf(of_dy[k], of_y[k], sum);
#pragma unroll
        for (int step = LANES / 2; step > 0; step /= 2)
            sum += __shfl_xor_sync(0xffffffff, sum, step);
        if (there[n] && blind[n] && c < p.d) /* no job has this row of dq */
            *(uint4 *)(p.dq.at(b, h, query) + c * sizeof(T)) = make_uint4(0, 0, 0, 0);
        if (c == 0) {
            const float saved = there[n] && !blind[n]
                                    ? p.lse[((int64_t)b * p.heads + h) * p.queries + query]
                                    : -CUDART_INF_F;
            p.rows[at + n * TOGETHER] =
                make_float2(saved == -CUDART_INF_F ? CUDART_INF_F : saved / LN_2, sum);
        }
    }
}

/* ---- the host's side ---- */

/* Places of what a call keeps in the workspace, from `room` on; returns their bytes. */
template <class C> static int64_t flash_lay_out(flash_backward_jobs &a, char *room, int processors)
{
    char *const first = room;
    room += flash_lay_out_jobs<C>(&a.jobs, a.p, room, processors);
    a.tiles = flash_tiles(a.p, a.p.queries, C::QUERIES);
    const int64_t tiles = (int64_t)a.p.batches * a.p.heads * a.tiles;
    a.sums = (float *)room;
    room += tiles * (2 * 64 * C::OF_SUMS) * (int64_t)sizeof(float);
    a.p.rows = (flash_row *)room;
    room += tiles * C::QUERIES * (int64_t)sizeof(flash_row);
    a.turns = (unsigned *)room;
    return room - first + tiles * (int64_t)sizeof(unsigned);
}

template <class T, class C>
static bool flash_launch_jobs(const flash_problem &p, char *room, int processors,
                              cudaStream_t stream)
{
    flash_backward_jobs a = {};
    a.p = p;
    flash_lay_out<C>(a, room, processors);
    if (p.softcap != 0) {
        a.to_cap = p.scale / p.softcap;
        a.p.factor = p.softcap / LN_2;
    }
    if (!flash_map<T>(&a.q, p, p.q, p.queries, p.heads, p.d, C::QUERIES) ||
        !flash_map<T>(&a.dy, p, p.dy, p.queries, p.heads, p.e, C::QUERIES) ||
        !flash_map<T>(&a.k, p, p.k, p.keys, p.key_heads, p.d, C::KEYS) ||
        !flash_map<T>(&a.v, p, p.v, p.keys, p.key_heads, p.e, C::KEYS))
        return false;
    const int64_t rows = (int64_t)a.tiles * C::QUERIES;
    const int64_t threads = (int64_t)p.batches * p.heads * rows * FLASH_LANES<C> / FLASH_ROWS_AHEAD;
    flash_prepare_kernel<T, C><<<(unsigned)ceil_div(threads, 256), 256, 0, stream>>>(a);
    flash_list<C>(p, a.jobs, stream);
    flash_start<C>(flash_backward_sm90_kernel<T, C>, a, flash_most_jobs(p, a.jobs), processors,
                   stream);
    a.p.queries = (int)rows; /* as a.p.rows has them */
    flash_launch_sinks<T>(a.p, stream);
    return true;
}

/* run(C()) with the kernel of a call. */
template <class F> static auto by_backward_kernel(const flash_problem &p, F run)
{
    const bool plain = flash_is_plain(p);
    if (max(p.d, p.e) <= 64)
        return plain ? run(flash_backward_sm90<64, true>()) : run(flash_backward_sm90<64, false>());
    if (max(p.d, p.e) <= 128)
        return plain ? run(flash_backward_sm90<128, true>())
                     : run(flash_backward_sm90<128, false>());
    if (p.d <= 192 && p.e <= 128)
        return run(flash_backward_wide_sm90<192, 128>());
    return run(flash_backward_wide_sm90<256, 256>());
}

template <class T> int64_t flash_backward_sm90_room(const flash_problem &p)
{
    return by_backward_kernel(p, [&](auto c) {
        flash_backward_jobs a = {};
        a.p = p;
        return flash_lay_out<decltype(c)>(a, NULL, 1);
    });
}

template <class T>
bool flash_attention_backward_sm90(const flash_problem &p, char *room, int processors,
                                   cudaStream_t stream)
{
    return by_backward_kernel(
        p, [&](auto c) { return flash_launch_jobs<T, decltype(c)>(p, room, processors, stream); });
}

#endif
