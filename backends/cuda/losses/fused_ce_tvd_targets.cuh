/* fused_ce_tvd_targets.cuh - the rows of a cluster that have targets, one after the other: targets
 * and their logits are asked for long before they are looked at. */
#ifndef CUDA_FUSED_CE_TVD_TARGETS_CUH
#define CUDA_FUSED_CE_TVD_TARGETS_CUH

#include "fused_ce_tvd_row.cuh"

/* A row with a target, whose logits are on their way. */
struct ring_row {
    int r;
    uint16_t of_target[2];

    template <class T> __device__ __forceinline__ float logit(int m) const
    {
        return widen_pair<typename element<T>::type>(of_target[m]).x;
    }
};

/* The rows of a cluster that have targets. */
template <class T> struct ring_rows {
    const cetvd_args &a;
    int step, r; /* r: the row that is looked at next */
    int64_t target;

    __device__ __forceinline__ ring_rows(const cetvd_args &args, int first, int apart)
        : a(args), step(apart), r(first)
    {
        load();
    }
    /* Its target has been on its way since the call before. */
    __device__ __forceinline__ ring_row next(bool tells)
    {
        ring_row row = {(int)a.rows, {0, 0}};
        while (r < a.rows && !is_wanted(tells))
            advance();
        if (r >= a.rows)
            return row;
        row.r = r;
        row.of_target[0] = ((const uint16_t *)a.student.row<T>(r))[target];
        row.of_target[1] = ((const uint16_t *)a.teacher.row<T>(r))[target];
        advance();
        return row;
    }

  private:
    __device__ __forceinline__ void load()
    {
        target = r < a.rows ? a.target[r] : 0;
    }
    __device__ __forceinline__ void advance()
    {
        r += step;
        load();
    }
    __device__ __forceinline__ bool is_wanted(bool tells) const
    {
        if (target != a.ignore_index)
            return a.range.holds(r, target, tells);
        if (tells)
            write_results(a, r, 0, 0, 0, 0, 0);
        return false;
    }
};

#endif
