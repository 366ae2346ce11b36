/* fused_ce_tvd_ring.cuh - pairs of wide rows of 16 bits on Hopper. Clusters of blocks stay and go
 * from row to row; each thread copies its chunks of the rows to come to shared memory and alone
 * reads them again. Exponentials of some of its pieces stay in registers from the first pass to the
 * second, and those of the others are made twice. A row has one exchange: the sums of its first
 * pass go with those of the second pass of the row before.
 *
 * Powers are relative to those of the target, so that no pass is needed for the largest logit: what
 * is too large for that, as all that fused_ce_tvd_apart.cuh does not take, is left for the end. */
#ifndef CUDA_FUSED_CE_TVD_RING_CUH
#define CUDA_FUSED_CE_TVD_RING_CUH

#include "fused_ce_tvd_targets.cuh"

enum {
    RING_THREADS = PAIR_THREADS,
    RING_TWICE =
        3, /* pieces, a chunk of both rows, that have two slots: this row's and the next's */
    RING_KEPT = 5, /* pieces that have one, since their exponentials are kept */
    RING_PIECES = RING_TWICE + RING_KEPT,
    RING_SLOTS = 2 * RING_TWICE + RING_KEPT,
    RING_BYTES = RING_SLOTS * 2 * RING_THREADS * 16,
    RING_LEAST = 8192 /* elements of a row */
};

struct ring_args {
    cetvd_args a;
    int of_rank; /* chunks of a row that a block has */
};

/* Copies to come, batch by batch in this order: the pieces of two slots, and those of one, of the
 * first row, those of two of the second row, those of one of the second row, ... */
template <class T> struct pair_ring {
    uint4 *own;
    int begin, end; /* chunks */

    __device__ __forceinline__ uint4 *slot(int p, int half) const
    {
        const int at = p < RING_TWICE ? 2 * p + half : RING_TWICE + p;
        return own + at * 2 * RING_THREADS;
    }
    __device__ __forceinline__ void ask(const cetvd_args &a, int r, int p, int half) const
    {
        const int chunk = begin + p * RING_THREADS;
        if (r < a.rows && chunk < end) {
            copy_ahead(slot(p, half), a.student.row<T>(r) + chunk * V<T>);
            copy_ahead(slot(p, half) + RING_THREADS, a.teacher.row<T>(r) + chunk * V<T>);
        }
        end_batch();
    }
    /* Slots beyond the row have logits of -inf, and nothing ever comes there. */
    __device__ __forceinline__ void clear() const
    {
        const uint32_t pair = MINUS_INFINITY<T> | MINUS_INFINITY<T> << 16;
        const uint4 none = make_uint4(pair, pair, pair, pair);
#pragma unroll
        for (int p = 0; p < RING_PIECES; p++)
            for (int half = 0; begin + p * RING_THREADS >= end && half < (p < RING_TWICE ? 2 : 1);
                 half++)
                slot(p, half)[0] = slot(p, half)[RING_THREADS] = none;
    }
    /* Batches that may still be open when piece p of a row is taken. */
    static __device__ constexpr int behind(int p)
    {
        return p < RING_TWICE ? RING_TWICE - 1 - p + RING_KEPT + RING_TWICE
                              : RING_KEPT - 1 + RING_TWICE;
    }
    /* Powers of a piece, relative to 2 to the bases. */
    __device__ __forceinline__ void take(int p, int half, const float (&base)[2],
                                         float (&x)[2][V<T>]) const
    {
#pragma unroll
        for (int m = 0; m < 2; m++) {
            widen<T>(slot(p, half)[m * RING_THREADS], x[m]);
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                x[m][i] = exp2_term(fmaf(x[m][i], LOG2_E, -base[m]));
        }
    }
};

/* run(p) of pieces FIRST to END - 1, each the constant p.AT. */
template <int P> struct ring_piece {
    static constexpr int AT = P;
};
template <int FIRST, int END, class RUN>
__device__ __forceinline__ static void for_pieces(const RUN &run)
{
    if constexpr (FIRST < END) {
        run(ring_piece<FIRST>());
        for_pieces<FIRST + 1, END>(run);
    }
}

template <class T> struct kept_powers {
    float of[RING_KEPT][2][V<T>];
};

/* The sums of the powers of both rows. Kept pieces of row `next` are asked for. */
template <class T>
__device__ __forceinline__ static void first_pass(const cetvd_args &a, const pair_ring<T> &ring,
                                                  int half, int next, const float (&base)[2],
                                                  kept_powers<T> &kept, float (&sum)[4])
{
    const auto add = [&](const float(&x)[2][V<T>]) {
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int i = 0; i < V<T>; i++)
                sum[m] += x[m][i];
    };
    for_pieces<0, RING_TWICE>([&](auto p) {
        float x[2][V<T>];
        wait_for_batches<pair_ring<T>::behind(p.AT)>();
        ring.take(p.AT, half, base, x);
        add(x);
    });
    for_pieces<RING_TWICE, RING_PIECES>([&](auto p) {
        float(&x)[2][V<T>] = kept.of[p.AT - RING_TWICE];
        wait_for_batches<pair_ring<T>::behind(p.AT)>();
        ring.take(p.AT, half, base, x);
        add(x);
        ring.ask(a, next, p.AT, 0);
    });
}

/* Adds |p - q| and p sign(p - q) of all classes. Pieces of two slots of row `third` are asked
 * for. */
template <class T>
__device__ __forceinline__ static void second_pass(const cetvd_args &a, const pair_ring<T> &ring,
                                                   int half, int third, const float (&base)[2],
                                                   const kept_powers<T> &kept,
                                                   const float (&share)[2], float (&sum)[2])
{
    const auto add = [&](const float(&x)[2][V<T>]) {
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            const float p = share[0] * x[0][i], d = fmaf(-share[1], x[1][i], p);
            sum[0] += fabsf(d);
            sum[1] += copysignf(p, d);
        }
    };
    for_pieces<0, RING_KEPT>([&](auto k) { add(kept.of[k.AT]); });
    for_pieces<0, RING_TWICE>([&](auto p) {
        float x[2][V<T>];
        ring.take(p.AT, half, base, x);
        add(x);
        ring.ask(a, third, p.AT, half);
    });
}

/* What is known of a row behind its first pass; in shared memory of the thread that writes it. */
struct ring_sums {
    float ce, lse[2];
    int r, apart; /* r: of rows that there are not before the first one */

    __device__ __forceinline__ void set(int row, const float (&base)[2], const float (&sum)[4],
                                        float x_y)
    {
        const float log_sum[2] = {log2f(sum[0]), log2f(sum[1])};
        const float log_p = fmaf(x_y, LOG2_E, -base[0]) - log_sum[0];
        bool is =
            log_p <= -1 && fabsf(base[0] - base[1] + log_sum[0] - log_sum[1]) >= LEAST_OF_OFFSETS;
#pragma unroll
        for (int m = 0; m < 2; m++) {
            lse[m] = (float)LN_2 * (base[m] + log_sum[m]);
            is = is && sum[m] < CUDART_INF_F && fabsf(base[m]) <= HIGHEST_BASE;
        }
        r = row;
        ce = -(float)LN_2 * log_p;
        apart = is;
    }
    /* Returns true if the row is left for the end; a distance of -1 says so of it. */
    __device__ __forceinline__ bool write(const cetvd_args &a, float sum, float sigma) const
    {
        const bool is_left = !(apart && sum / 2 >= LEAST_DISTANCE);
        if (r >= a.rows)
            return false;
        write_results(a, r, ce, is_left ? -1 : sum / 2, sigma, lse[0], lse[1]);
        return is_left;
    }
};

/* Which of the team's next WARP rows from r on were left: a bit each. */
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

template <class T, class TEAM>
__global__ void __launch_bounds__(RING_THREADS, 2)
    fused_ce_tvd_ring_kernel(const __grid_constant__ ring_args args)
{
    extern __shared__ uint4 slots[];
    __shared__ cluster_memory memory;
    __shared__ ring_sums of_row;
    const cetvd_args &a = args.a;
    TEAM t(&memory);
    t.begin();
    const int step = (int)gridDim.x / (t.lanes / RING_THREADS);
    const int begin = t.lane / RING_THREADS * args.of_rank, end = begin + args.of_rank;
    const pair_ring<T> ring = {slots + threadIdx.x, begin + (int)threadIdx.x, min(a.n / V<T>, end)};
    ring_rows<T> rows(a, (int)t.row, step);
    ring_row now = rows.next(t.lane == 0), next = rows.next(t.lane == 0),
             third = rows.next(t.lane == 0);
    float compared[2] = {0, 0}; /* of the row before, as what of_row has */
    bool any_left = false;
    if (threadIdx.x == 0)
        of_row.r = (int)a.rows;
    ring.clear();
    for_pieces<0, RING_PIECES>([&](auto p) { ring.ask(a, now.r, p.AT, 0); });
    for_pieces<0, RING_TWICE>([&](auto p) { ring.ask(a, next.r, p.AT, 1); });
    for (int half = 0;; half ^= 1) {
        const float x_y = now.logit<T>(0), z_y = now.logit<T>(1);
        const float base[2] = {__fmul_rn(x_y, LOG2_E), __fmul_rn(z_y, LOG2_E)};
        float sums[4] = {0, 0, compared[0], compared[1]};
        kept_powers<T> kept;
        if (now.r < a.rows)
            first_pass(a, ring, half, next.r, base, kept, sums);
        t.sum(sums);
        if (t.lane == 0) {
            any_left |= of_row.write(a, sums[2], sums[3]);
            of_row.set(now.r, base, sums, x_y);
        }
        if (now.r >= a.rows)
            break;
        const float share[2] = {1 / sums[0], 1 / sums[1]};
        compared[0] = compared[1] = 0;
        second_pass(a, ring, half, third.r, base, kept, share, compared);
        now = next;
        next = third;
        third = rows.next(t.lane == 0);
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
    const auto kernel = fused_ce_tvd_ring_kernel<T, pair_team>;
    const int room = room_for(call, s, RING_BYTES, &known, kernel);
    if (room < ranks)
        return false;
    const ring_args args = {a, (int)ceil_div(a.n / V<T>, ranks)};
    launch_rows(call, s, min_of((int64_t)room / ranks, a.rows) * ranks, RING_BYTES, kernel, args);
    return true;
}

#endif
