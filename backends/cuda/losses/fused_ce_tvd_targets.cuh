/* fused_ce_tvd_targets.cuh - the rows of a cluster that have targets, one after the other, and the
 * logits of these targets, which are asked for long before they are looked at. */
#ifndef CUDA_FUSED_CE_TVD_TARGETS_CUH
#define CUDA_FUSED_CE_TVD_TARGETS_CUH

#include "fused_ce_tvd_row.cuh"

/* A row and its target; r: of rows that there are not behind the last one. */
struct ring_row {
    int r, target;
};

/* The logits of the targets of two rows, in shared memory: a block's first thread copies the four
 * bytes in which each of them is, and all threads read them. */
template <class T> struct ring_targets {
    uint32_t of[2][2];

    /* A batch of copies. */
    __device__ __forceinline__ void ask(const cetvd_args &a, const ring_row &row, int half)
    {
        if (threadIdx.x == 0 && row.r < a.rows) {
            const int pair = row.target / 2;
            copy_word_ahead(shared_address(&of[half][0]),
                            (const uint32_t *)a.student.row<T>(row.r) + pair);
            copy_word_ahead(shared_address(&of[half][1]),
                            (const uint32_t *)a.teacher.row<T>(row.r) + pair);
        }
        end_batch();
    }
    __device__ __forceinline__ float logit(const ring_row &row, int half, int m) const
    {
        const float2 pair = widen_pair<typename element<T>::type>(of[half][m]);
        return row.target % 2 ? pair.y : pair.x;
    }
};

/* The rows of a cluster that have targets, one after the other: the targets of 32 rows are read at
 * once, since a thread waits for what it reads there. */
struct ring_rows {
    const cetvd_args &a;
    int64_t first; /* of the rows whose targets have not been read */
    int step, begin, of_lane;
    uint32_t wanted; /* the rows from `begin` on that are left */

    __device__ __forceinline__ ring_rows(const cetvd_args &args, int64_t row, int apart)
        : a(args), first(row), step(apart), begin(0), of_lane(0), wanted(0)
    {
    }
    /* tells: this warp says what becomes of rows without a target. */
    __device__ __forceinline__ ring_row next(bool tells)
    {
        while (wanted == 0 && first < a.rows)
            read(tells);
        if (wanted == 0)
            return {(int)a.rows, 0};
        const int at = __ffs((int)wanted) - 1;
        wanted &= wanted - 1;
        return {begin + at * step, __shfl_sync(0xffffffffu, of_lane, at)};
    }

  private:
    __device__ __forceinline__ void read(bool tells)
    {
        const int64_t own = first + (int64_t)(threadIdx.x % 32) * step;
        const bool is_wanted = own < a.rows && has_target(own, tells);
        wanted = __ballot_sync(0xffffffffu, is_wanted);
        begin = (int)first;
        first += 32 * (int64_t)step;
    }
    __device__ __forceinline__ bool has_target(int64_t r, bool tells)
    {
        const int64_t target = a.target[r];
        of_lane = (int)target;
        if (target != a.ignore_index)
            return a.range.holds(r, target, tells);
        if (tells)
            write_results(a, r, 0, 0, 0, 0, 0);
        return false;
    }
};

#endif
