/* flash_attention_backward_hopper.cuh - all gradients in one pass, on Hopper: five products a tile.
 *
 * A job is a tile of keys of one head: dk and dv stay in registers while it goes over the queries
 * that see them, the last ones first. What it adds to dq lies in memory in f32, and jobs add to a
 * tile of queries in the order of their keys: each waits for its turn, the number of jobs that have
 * added before. Blocks take jobs by a ticket and a job waits for jobs with earlier tickets alone,
 * so that some job can always go on. Jobs of some heads are interleaved, so that a job's turn has
 * mostly come when it gets there.
 *
 * One warp of a block brings tiles, two watch turns, and two warpgroups compute, each with half of
 * the keys: s^T = k q^T and dp^T = v dy^T have keys as rows, so that p^T and ds^T are factors of dv
 * and dk as they lie in registers. dq needs ds of all keys, which goes through shared memory. */
#ifndef CUDA_FLASH_ATTENTION_BACKWARD_HOPPER_CUH
#define CUDA_FLASH_ATTENTION_BACKWARD_HOPPER_CUH

#include "flash_attention_gradients_hopper.cuh"

template <class T, int D>
__global__ void __launch_bounds__(flash_backward_sm90<D>::THREADS, 1)
    flash_backward_sm90_kernel(const __grid_constant__ flash_backward_jobs a)
{
#if HAS_WGMMA
    using C = flash_backward_sm90<D>;
    extern __shared__ __align__(1024) char shared[];
    const uint32_t memory = shared_address(shared);
    int *const index = (int *)(shared + C::JOB);
    if (threadIdx.x == 0) {
        init_barrier(memory + C::KEYS_HERE, 1);
        init_barrier(memory + C::KEYS_FREE, C::WARPS + C::GROUPS);
        for (int i = 0; i < C::STAGES; i++) {
            init_barrier(memory + C::Q_HERE + 8 * i, 1);
            init_barrier(memory + C::DY_HERE + 8 * i, 1);
            init_barrier(memory + C::FREE + 8 * i, C::WARPS);
        }
        for (int i = 0; i < C::GROUPS; i++) {
            init_barrier(memory + C::TURN + 8 * i, 1);
            init_barrier(memory + C::ADDED + 8 * i, 4);
        }
        fence_barriers();
    }
    __syncthreads();
    if (threadIdx.x >= C::GROUPS * WARPGROUP) {
        fewer_registers<24>();
        const int warp = threadIdx.x / 32 - C::WARPS;
        if (lane_id() == 0 && warp < C::GROUPS)
            watch_turns<C>(a, memory, index, warp);
        else if (lane_id() == 0 && warp == C::GROUPS)
            bring_tiles<C, D>(a, memory, index);
    } else {
        more_registers<240>();
        const int half = threadIdx.x / WARPGROUP;
        each_job<C>(a, memory, index, [&](const flash_job &j, int before) {
            compute_job<T, C, D>(a, memory, j, before, half);
        });
    }
#endif
}

/* ---- before: lse and dy . y of each query; turns and the ticket begin at 0 ---- */

template <class T, int D>
__global__ void __launch_bounds__(256)
    flash_prepare_kernel(const __grid_constant__ flash_backward_jobs a)
{
    constexpr int LANES = D / V<T>;
    const flash_problem &p = a.p;
    const int64_t thread = blockIdx.x * 256ll + threadIdx.x, at = thread / LANES;
    const int rows = a.tiles * flash_backward_sm90<D>::QUERIES, c = (int)(thread % LANES) * V<T>;
    const int r = (int)(at % rows), h = (int)(at / rows % p.heads);
    const int b = (int)(at / rows / p.heads);
    if (thread < 2ll * a.tiles * p.heads * p.batches)
        a.turns[thread] = 0;
    if (thread == 0)
        *a.ticket = 0;
    if (b >= p.batches)
        return;
    float sum = 0, x[V<T>], y[V<T>];
    const bool there = r < p.queries && c < p.d;
    if (there) {
        widen<T>(*(const uint4 *)(p.dy.at(b, h, r) + c * sizeof(T)), x);
        widen<T>(*(const uint4 *)(p.y.at(b, h, r) + c * sizeof(T)), y);
#pragma unroll
        for (int i = 0; i < V<T>; i++)
            sum = fmaf(x[i], y[i], sum);
    }
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, step);
    if (there && min(p.keys, r + p.end) <= 0) /* no job has this row of dq */
        *(uint4 *)(p.dq.at(b, h, r) + c * sizeof(T)) = make_uint4(0, 0, 0, 0);
    if (c == 0) {
        const float saved =
            r < p.queries ? p.lse[((int64_t)b * p.heads + h) * p.queries + r] : -CUDART_INF_F;
        p.rows[at] = make_float2(saved == -CUDART_INF_F ? CUDART_INF_F : saved / LN_2, sum);
    }
}

/* ---- the host's side ---- */

/* Places of what a call keeps in the workspace, from `room` on; returns their bytes. */
template <int D> static int64_t flash_lay_out(flash_backward_jobs &a, char *room)
{
    using C = flash_backward_sm90<D>;
    a.tiles = (int)ceil_div(a.p.queries, C::QUERIES);
    a.key_tiles = (int)ceil_div(a.p.keys, C::KEYS);
    const int64_t tiles = (int64_t)a.p.batches * a.p.heads * a.tiles;
    char *const first = room;
    a.sums = (float *)room;
    room += tiles * C::QUERIES * D * (int64_t)sizeof(float);
    a.p.rows = (flash_row *)room;
    room += tiles * C::QUERIES * (int64_t)sizeof(flash_row);
    a.turns = (unsigned *)room;
    room += tiles * 2 * (int64_t)sizeof(unsigned);
    a.ticket = (unsigned *)room;
    return room - first + (int64_t)sizeof(unsigned);
}

template <class T> int64_t flash_backward_sm90_room(const flash_problem &p)
{
    flash_backward_jobs a = {};
    a.p = p;
    return p.d <= 64 ? flash_lay_out<64>(a, NULL) : flash_lay_out<128>(a, NULL);
}

template <class T, int D>
static bool flash_launch_jobs(const flash_problem &p, char *room, int processors,
                              cudaStream_t stream)
{
    using C = flash_backward_sm90<D>;
    flash_backward_jobs a = {};
    a.p = p;
    flash_lay_out<D>(a, room);
    if (!flash_map<T>(&a.q, p, p.q, p.queries, p.heads, C::QUERIES) ||
        !flash_map<T>(&a.dy, p, p.dy, p.queries, p.heads, C::QUERIES) ||
        !flash_map<T>(&a.k, p, p.k, p.keys, p.key_heads, C::KEYS) ||
        !flash_map<T>(&a.v, p, p.v, p.keys, p.key_heads, C::KEYS))
        return false;
    const int64_t threads = (int64_t)p.batches * p.heads * a.tiles * C::QUERIES * (D / V<T>);
    const int64_t jobs = (int64_t)a.key_tiles * p.batches * p.key_heads;
    /* Of more heads at once, jobs of different lengths are spread better; of fewer, what they share
     * stays in L2. */
    a.together = (int)ceil_div(p.end < p.keys ? 4 * processors : processors, a.key_tiles);
    flash_prepare_kernel<T, D><<<(unsigned)(threads / 256), 256, 0, stream>>>(a);
    flash_start<C>(flash_backward_sm90_kernel<T, D>, a, jobs, processors, stream);
    return true;
}

template <class T>
bool flash_attention_backward_sm90(const flash_problem &p, char *room, int processors,
                                   cudaStream_t stream)
{
    return p.d <= 64 ? flash_launch_jobs<T, 64>(p, room, processors, stream)
                     : flash_launch_jobs<T, 128>(p, room, processors, stream);
}

#endif
