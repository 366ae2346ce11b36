/* fused_ce_tvd_row.cuh - a call of fused_ce_tvd, and a pair of rows whose distributions are near
 * each other or out of the ordinary: they are compared by the difference of their logarithms, which
 * are to base 2. */
#ifndef CUDA_FUSED_CE_TVD_ROW_CUH
#define CUDA_FUSED_CE_TVD_ROW_CUH

#include "fused_ce_tvd_apart.cuh"
#include "rows/indices.cuh"

struct cetvd_args {
    row_span student, teacher, dstudent; /* dstudent.data NULL: forward */
    const int64_t *target;
    float *ce, *tvd, *student_lse, *teacher_lse, *sigma; /* the last three may be NULL */
    const float *saved_student, *saved_teacher, *saved_sigma, *dce, *dtvd;
    int64_t rows, ignore_index;
    index_range range;
    int n, lanes;
};

__device__ __forceinline__ static void write_results(const cetvd_args &a, int64_t r, float ce,
                                                     float tvd, float sigma, float student_lse,
                                                     float teacher_lse)
{
    a.ce[r] = ce;
    a.tvd[r] = tvd;
    if (a.sigma)
        a.sigma[r] = sigma;
    if (a.student_lse)
        a.student_lse[r] = student_lse;
    if (a.teacher_lse)
        a.teacher_lse[r] = teacher_lse;
}

/* The logarithm of the sum of exponentials of row m of a pair. */
__device__ __forceinline__ static float lse_of(const softmax_pair &s, int m)
{
    const float base = s.base[m];
    return base == -CUDART_INF_F ? base : s.height[m] + (float)LN_2 * (base - log2f(s.share[m]));
}

/* odd[m]: NaN if row m of a pair has one and nothing above -inf, so that lse_of() cannot tell. */
template <class T, class TEAM, class PAIR>
__device__ __forceinline__ static void find_nan(const softmax_pair &s, int n, TEAM &t,
                                                const PAIR &pair, float (&odd)[2])
{
    if (s.base[0] != -CUDART_INF_F && s.base[1] != -CUDART_INF_F)
        return;
    pair.template for_each<false>(t, n, [&](int j, float(&x)[V<T>], float(&z)[V<T>]) {
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            if (j + i >= n)
                continue;
            odd[0] += isnan(x[i]) ? x[i] : 0;
            odd[1] += isnan(z[i]) ? z[i] : 0;
        }
    });
    t.sum(odd);
}

template <class T, class TEAM, class PAIR>
__device__ __forceinline__ static void forward_near(const cetvd_args &a, TEAM &t, const PAIR &pair,
                                                    int64_t r, float x_y)
{
    softmax_jsd_args of_pair = {};
    of_pair.n = a.n;
    of_pair.scale = LOG2_E;
    const softmax_pair s = compare_rows<T>(of_pair, t, pair);
    const int y = (int)a.target[r];
    float sums[3] = {0, 0, 0}; /* |p - q|, p sign(p - q), p of all but the target */
    pair.template for_each<false>(t, a.n, [&](int j, float(&x)[V<T>], float(&z)[V<T>]) {
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            if (j + i >= a.n)
                continue;
            const float p = s.share[0] * exp2_term(s.power(0, x[i], LOG2_E));
            const float q = s.share[1] * exp2_term(s.power(1, z[i], LOG2_E));
            const float apart = s.apart(z[i] - x[i], LOG2_E);
            /* far apart they differ by what they are; where logits are large, apart is rounded */
            sums[0] += fabsf(fabsf(apart) > 1 ? p - q : difference_of(p, q, apart));
            sums[1] += apart < 0 ? p : apart > 0 ? -p : 0 * (p + q); /* NaN if one of them is */
            sums[2] += j + i == y ? 0 : p;
        }
    });
    t.sum(sums);
    float odd[2] = {0, 0};
    find_nan<T>(s, a.n, t, pair, odd);
    if (t.lane != 0)
        return;
    const float log_p = log2f(s.share[0]) + s.power(0, x_y, LOG2_E);
    const float ce = sums[2] < 0.5f ? -log1pf(-sums[2]) : -(float)LN_2 * log_p;
    write_results(a, r, ce, sums[0] / 2, sums[1], lse_of(s, 0) + odd[0], lse_of(s, 1) + odd[1]);
}

#endif
