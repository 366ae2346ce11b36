/* fused_ce_tvd.cu - cross entropy and total variation distance of a row of student's and of
 * teacher's logits, and the gradient of the student's.
 *
 * Forward has the rows as softmax_jsd has them: wide ones in shared memory, so that they are read
 * once. Where p and q are not plainly apart (fused_ce_tvd_apart.cuh) they are compared by the
 * difference of their logarithms, which are to base 2. Backward is one pass, from what forward has
 * saved. */
#include "fused_ce_tvd_ring.cuh"

/* ---- forward ---- */

template <class T, class TEAM, class PAIR>
__device__ __forceinline__ static void forward_row(const cetvd_args &a, TEAM &t, const PAIR &pair,
                                                   int64_t r, float x_y)
{
    const rows_apart s = compare_apart<T>(t, a.n, pair, x_y);
    if (!s.are)
        forward_near<T>(a, t, pair, r, x_y);
    else if (t.lane == 0)
        write_results(a, r, -(float)LN_2 * s.log_p, s.distance, s.sigma, s.lse[0], s.lse[1]);
}

/* 1 if row r has no target, and nothing is left to do. */
template <class TEAM>
__device__ __forceinline__ static bool skip_row(const cetvd_args &a, const TEAM &t, int64_t r)
{
    const int64_t target = a.target[r];
    if (target != a.ignore_index)
        return !a.range.holds(r, target, t.lane == 0);
    if (t.lane == 0)
        write_results(a, r, 0, 0, 0, 0, 0);
    return true;
}

template <class T>
__global__ void __launch_bounds__(MOST_LANES) fused_ce_tvd_kernel(const cetvd_args a)
{
    __shared__ team_memory memory;
    team t(&memory, a.lanes);
    for (int64_t r = t.first; r < a.rows; r += t.step) {
        const walked_pair<T> pair = {a.student.row<T>(r), a.teacher.row<T>(r)};
        if (!skip_row(a, t, r))
            forward_row<T>(a, t, pair, r, get(pair.student + a.target[r]));
    }
}

template <class T>
__global__ void __launch_bounds__(PAIR_THREADS, 3)
    held_fused_ce_tvd_kernel(const __grid_constant__ cetvd_args a)
{
    extern __shared__ uint4 held[];
    __shared__ pair_team::room memory;
    pair_team t(&memory);
    const held_pair<T> pair = {held};
    if (skip_row(a, t, t.row))
        return;
    pair.take(t, a.n, a.student.row<T>(t.row), a.teacher.row<T>(t.row));
    const float x_y = get(a.student.row<T>(t.row) + a.target[t.row]);
    t.begin();
    wait_for_copies();
    forward_row<T>(a, t, pair, t.row, x_y);
}

/* ---- backward ---- */

enum {
    BACKWARD_LANES = 512,
    BACKWARD_AHEAD = 2 /* chunks that are loaded before one is computed */
};

/* each(j, x, z) of both rows' chunks. */
template <class T, class EACH>
__device__ __forceinline__ static void each_ahead(const team &t, int n, const T *student,
                                                  const T *teacher, const EACH &each)
{
    const int step = t.lanes * V<T>;
    for (int first = t.lane * V<T>; first < n; first += BACKWARD_AHEAD * step) {
        uint4 x[BACKWARD_AHEAD], z[BACKWARD_AHEAD];
#pragma unroll
        for (int u = 0; u < BACKWARD_AHEAD; u++) {
            const int j = first + u * step;
            if (j < n) {
                x[u] = load(student + j, n - j, MINUS_INFINITY<T>);
                z[u] = load(teacher + j, n - j, MINUS_INFINITY<T>);
            }
        }
#pragma unroll
        for (int u = 0; u < BACKWARD_AHEAD; u++) {
            float wide_x[V<T>], wide_z[V<T>];
            const int j = first + u * step;
            if (j < n) {
                widen<T>(x[u], wide_x);
                widen<T>(z[u], wide_z);
                each(j, wide_x, wide_z);
            }
        }
    }
}

template <class T>
__device__ __forceinline__ static void backward_row(const cetvd_args &a, const team &t, int64_t r)
{
    /* without dtvd nothing depends on the teacher: the student stands in its place */
    const T *const student = a.student.row<T>(r);
    const T *const teacher = a.dtvd ? a.teacher.row<T>(r) : student;
    const int y = (int)a.target[r];
    const float lse = a.saved_student[r], apart = a.dtvd ? lse - a.saved_teacher[r] : 0;
    const float sigma = a.dtvd ? a.saved_sigma[r] : 0, half = a.dtvd ? a.dtvd[r] / 2 : 0;
    const float dce = a.dce ? a.dce[r] : 0;
    const float above = half * (1 - sigma), below = -half * (1 + sigma), tie = -half * sigma;
    each_ahead<T>(t, a.n, student, teacher, [&](int j, float(&x)[V<T>], float(&z)[V<T>]) {
        float dx[V<T>];
#pragma unroll
        for (int i = 0; i < V<T>; i++) {
            const float log_p = x[i] - lse, p = expf(log_p), d = (x[i] - z[i]) - apart;
            const float of_tvd = d > 0 ? above : d < 0 ? below : tie + (p == 0 ? 0 : d);
            dx[i] = p * (dce + of_tvd);
            if (j + i == y) /* no difference of numbers near each other */
                dx[i] = dce * expm1f(log_p) + p * of_tvd;
        }
        store_as<T>(a.dstudent.row<T>(r) + j, a.n - j, dx);
    });
}

template <class T>
__global__ void __launch_bounds__(BACKWARD_LANES, 2)
    fused_ce_tvd_backward_kernel(const cetvd_args a)
{
    __shared__ team_memory memory;
    team t(&memory, a.lanes);
    const float zeros[V<T>] = {};
    for (int64_t r = t.first; r < a.rows; r += t.step) {
        const int64_t target = a.target[r];
        if (target == a.ignore_index)
            for (int j = t.lane * V<T>; j < a.n; j += t.lanes * V<T>)
                store_as<T>(a.dstudent.row<T>(r) + j, a.n - j, zeros);
        else if (a.range.holds(r, target, t.lane == 0))
            backward_row<T>(a, t, r);
    }
}

/* ---- the host's side ---- */

/* What both directions have. */
template <class ARGS> static cetvd_args args_of(const cuda_call &call, const ARGS *args)
{
    cetvd_args a = {};
    a.student = span_of(args->student);
    a.teacher = span_of(args->teacher);
    a.target = (const int64_t *)data_of(args->target);
    a.rows = rows_of(args->student);
    a.n = (int)width_of(args->student);
    a.ignore_index = args->ignore_index;
    a.range = range_of(call, "target", a.n);
    return a;
}

template <class T> static void launch_forward(const cuda_call &call, cetvd_args a, held_shape held)
{
    if constexpr (element<T>::WHOLE) {
        launch_held(call, held, held_fused_ce_tvd_kernel<T>, a);
    } else {
        const row_shape s = shape_rows(a.rows, ceil_div(a.n, V<T>), FEW, MOST_LANES);
        a.lanes = s.lanes;
        fused_ce_tvd_kernel<T><<<(unsigned)s.blocks, s.threads, 0, call.stream>>>(a);
    }
}

/* Wide rows of 16 bits on Hopper. */
static bool runs_in_ring(const cuda_call &call, const tg_tensor *student, const cetvd_args &a,
                         const tg_tensor *const (&tensors)[2])
{
    const int type = tg_type_of(student);
    return (type == TG_BF16 && launch_ring<whole<bf16>>(call, a, tensors)) ||
           (type == TG_F16 && launch_ring<whole<f16>>(call, a, tensors));
}

CUDA_OPERATOR(fused_ce_tvd_forward, TG_TAKES_FLOATS);
CUDA_OPERATOR(fused_ce_tvd_backward, TG_TAKES_FLOATS);

tg_status cuda_fused_ce_tvd_forward(tg_ctx *ctx, const tg_fused_ce_tvd_forward_args *args)
{
    cuda_call call;
    const tg_tensor *const tensors[] = {args->student, args->teacher};
    const tg_status status = begin_rows(&call, ctx, "fused_ce_tvd_forward", args->student);
    if (status != TG_OK)
        return status;
    cetvd_args a = args_of(call, args);
    a.ce = (float *)data_of(args->ce);
    a.tvd = (float *)data_of(args->tvd);
    a.student_lse = (float *)data_of(args->student_lse);
    a.teacher_lse = (float *)data_of(args->teacher_lse);
    a.sigma = (float *)data_of(args->sigma);
    const int size = (int)tg_type_size(tg_type_of(args->student));
    held_shape held = hold_rows(call, PAIR_THREADS, a.rows, 2 * (int64_t)a.n * size, 2);
    held.cluster = are_whole(tensors, 2) ? held.cluster : 0;
    if (a.rows > 0 && !runs_in_ring(call, args->student, a, tensors))
        by_wholeness(args->student, held.cluster > 0,
                     [&](auto e) { launch_forward<decltype(e)>(call, a, held); });
    return cuda_end(&call, TG_OK);
}

tg_status cuda_fused_ce_tvd_backward(tg_ctx *ctx, const tg_fused_ce_tvd_backward_args *args)
{
    cuda_call call;
    const tg_tensor *const tensors[] = {args->student, args->teacher, args->dstudent};
    const tg_status status = begin_rows(&call, ctx, "fused_ce_tvd_backward", args->student);
    if (status != TG_OK)
        return status;
    cetvd_args a = args_of(call, args);
    a.dstudent = span_of(args->dstudent);
    a.saved_student = (const float *)data_of(args->student_lse);
    a.saved_teacher = (const float *)data_of(args->teacher_lse);
    a.saved_sigma = (const float *)data_of(args->sigma);
    a.dce = (const float *)data_of(args->dce);
    a.dtvd = (const float *)data_of(args->dtvd);
    if (a.rows > 0 && a.n > 0)
        by_wholeness(args->student, are_whole(tensors, 3), [&](auto e) {
            using T = decltype(e);
            const row_shape s = shape_rows(a.rows, ceil_div(a.n, V<T>), FEW, BACKWARD_LANES);
            a.lanes = s.lanes;
            fused_ce_tvd_backward_kernel<T><<<(unsigned)s.blocks, s.threads, 0, call.stream>>>(a);
        });
    return cuda_end(&call, TG_OK);
}
