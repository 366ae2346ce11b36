/* fused_ce_tvd_ring.cuh - pairs of wide rows of 16 bits on Hopper. Clusters of blocks stay and go
 * from row to row; while a thread works on a row it copies its chunks of the next one to shared
 * memory, and alone reads them again. A row has one exchange: the sums of its first pass go with
 * those of the second pass of the row before, and what else is to be done is done while they are
 * under way.
 *
 * Powers are relative to those of the target, so that no pass is needed for the largest logit: what
 * is too large for that, as all that fused_ce_tvd_apart.cuh does not take, is left for the end. */
#ifndef CUDA_FUSED_CE_TVD_RING_CUH
#define CUDA_FUSED_CE_TVD_RING_CUH

#include "fused_ce_tvd_pieces.cuh"
#include "fused_ce_tvd_targets.cuh"

enum { RING_LEAST = 8192 /* elements of a row */ };

typedef cluster_team<RING_THREADS, RING_SUMS> ring_team;

struct ring_args {
    cetvd_args a;
    int of_rank, pieces; /* chunks of a row that a block has, and pieces of a thread at most */
};

/* What is known of a row behind its first pass. */
struct ring_sums {
    int r; /* of rows that there are not before the first one */
    float x_y, base[2], sum[2];

    /* compared: sums of the second pass. Returns true if the row is left for the end; a distance of
     * -1 says so of it. */
    __device__ __forceinline__ bool write(const cetvd_args &a, const float (&compared)[2]) const
    {
        if (r >= a.rows)
            return false;
        const float log_sum[2] = {log2f(sum[0]), log2f(sum[1])};
        const float log_p = fmaf(x_y, LOG2_E, -base[0]) - log_sum[0];
        float lse[2];
        bool are_apart =
            log_p <= -1 && fabsf(base[0] - base[1] + log_sum[0] - log_sum[1]) >= LEAST_OF_OFFSETS;
#pragma unroll
        for (int m = 0; m < 2; m++) {
            lse[m] = (float)LN_2 * (base[m] + log_sum[m]);
            are_apart = are_apart && sum[m] < CUDART_INF_F && fabsf(base[m]) <= HIGHEST_BASE;
        }
        const bool is_left = !(are_apart && compared[0] / 2 >= LEAST_DISTANCE);
        write_results(a, r, -(float)LN_2 * log_p, is_left ? -1 : compared[0] / 2, compared[1],
                      lse[0], lse[1]);
        return is_left;
    }
};

/* The results of rows, of the one thread that writes them, which does so while it waits for an
 * exchange: the row before the one before. */
struct ring_results {
    ring_sums of[2];
    float compared[2]; /* of the row before */
};

/* Which of the team's next 32 rows from r on were left: a bit each. */
__device__ __forceinline__ static uint32_t rows_left(const cetvd_args &a, int64_t r, int step)
{
    const int64_t own = r + (int64_t)(threadIdx.x % 32) * step;
    bool is = false;
    if (own < a.rows) {
        const int64_t y = a.target[own];
        is = __ldcg(a.tvd + own) < 0 && y != a.ignore_index && y >= 0 && y < a.n;
    }
    return __ballot_sync(0xffffffffu, is);
}

/* The rows that were left, which come once more. any: there are some, which one thread of the team
 * knows. */
template <class T, class TEAM>
__device__ __forceinline__ static void run_rows_left(const cetvd_args &a, TEAM &t, bool any,
                                                     int step, uint4 *slots)
{
    const held_pair<T> pair = {slots};
    float some[4] = {any ? 1.0f : 0, 0, 0, 0};
    wait_for_copies();
    __syncwarp();
    t.sum(some);
    if (some[0] == 0)
        return;
    t.barrier(); /* what has been written is seen */
    for (int64_t first = t.row; first < a.rows; first += 32 * (int64_t)step)
        for (uint32_t left = rows_left(a, first, step); left; left &= left - 1) {
            const int64_t r = first + (int64_t)(__ffs((int)left) - 1) * step;
            pair.take(t, a.n, a.student.row<T>(r), a.teacher.row<T>(r));
            wait_for_copies();
            forward_near<T>(a, t, pair, r, get(a.student.row<T>(r) + a.target[r]));
        }
}

template <class T>
__global__ void __launch_bounds__(RING_THREADS, 2)
    fused_ce_tvd_ring_kernel(const __grid_constant__ ring_args args)
{
    extern __shared__ uint4 slots[];
    __shared__ ring_team::room memory;
    __shared__ ring_results results;
    __shared__ ring_targets<T> targets;
    const cetvd_args &a = args.a;
    ring_team t(&memory);
    t.begin();
    const int step = (int)gridDim.x / (t.lanes / RING_THREADS);
    const int begin = t.lane / RING_THREADS * args.of_rank + (int)threadIdx.x;
    const int end = min(a.n / V<T>, begin - (int)threadIdx.x + args.of_rank);
    const pair_ring<T> ring = {slots + threadIdx.x, begin,
                               (end - begin + RING_THREADS - 1) / RING_THREADS, args.pieces};
    const bool tells = t.lane < 32;
    ring_rows rows(a, t.row, step);
    ring_row now = rows.next(tells), next = rows.next(tells);
    float compared[2] = {0, 0}; /* of the row before */
    bool any_left = false;
    if (t.lane == 0)
        results.of[0].r = results.of[1].r = (int)a.rows;
    ring.clear();
    targets.ask(a, now, 0);
    const ring_source<T> first(a, ring, now.r);
    for_pieces<0, RING_PIECES - 1>([&](auto p) { first.ask(ring, p.AT); });
    targets.ask(a, next, 1);
    first.ask(ring, RING_PIECES - 1);
    wait_for_batches<RING_PIECES + 1>();
    __syncthreads();
    for (int half = 0;; half ^= 1) {
        const float x_y = targets.logit(now, half, 0), z_y = targets.logit(now, half, 1);
        const float base[2] = {__fmul_rn(x_y, LOG2_E), __fmul_rn(z_y, LOG2_E)};
        float sums[RING_SUMS] = {0, 0, compared[0], compared[1]}, last[2][V<T>];
        kept_powers<T> kept;
        ring_row third;
        const ring_source<T> source(a, ring, next.r);
        if (now.r < a.rows)
            first_pass(ring, source, base, kept, sums);
        t.reduce(sums, plus(), [&] {
            third = rows.next(tells);
            targets.ask(a, third, half);
            if (RING_PIECES - 1 < ring.most)
                ring.take(RING_PIECES - 1, base, last);
            source.ask(ring, RING_PIECES - 1);
            if (t.lane == 0)
                any_left |= results.of[half].write(a, results.compared);
        });
        if (t.lane == 0) {
            results.of[half] = {now.r, x_y, {base[0], base[1]}, {sums[0], sums[1]}};
            results.compared[0] = sums[2];
            results.compared[1] = sums[3];
        }
        if (now.r >= a.rows) {
            if (t.lane == 0)
                any_left |= results.of[half ^ 1].write(a, results.compared);
            break;
        }
        second_pass(ring, kept, last, 1 / sums[0], sums[0] / sums[1], compared);
        now = next;
        next = third;
    }
    run_rows_left<T>(a, t, any_left, step, slots);
}

/* ---- launching ---- */

/* Returns false where the rows are not for this kernel. */
template <class T>
static bool launch_ring(const cuda_call &call, const cetvd_args &a,
                        const tg_tensor *const (&rows)[2])
{
    static kernel_room known;
    const int64_t of_rank = (int64_t)RING_PIECES * RING_THREADS * V<T>;
    int ranks = 1;
    while (ranks * of_rank < a.n)
        ranks *= 2;
    if (call.capability != 90 || a.n < RING_LEAST || a.rows > INT32_MAX / 2 || ranks > MOST_RANKS ||
        !are_whole(rows, 2))
        return false;
    row_shape s = {};
    s.threads = RING_THREADS;
    s.ranks = ranks;
    const auto kernel = fused_ce_tvd_ring_kernel<T>;
    const int room = room_for(call, s, RING_BYTES, &known, kernel);
    if (room < ranks)
        return false;
    const int64_t chunks = ceil_div(a.n / V<T>, ranks);
    const ring_args args = {a, (int)chunks, (int)ceil_div(chunks, RING_THREADS)};
    launch_rows(call, s, min_of((int64_t)room / ranks, a.rows) * ranks, RING_BYTES, kernel, args);
    return true;
}

#endif
