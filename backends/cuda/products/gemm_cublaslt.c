/* gemm_cublaslt.c - gemm and batched_gemm by NVIDIA's cuBLASLt, where it is installed.
 *
 * cuBLASLt stores matrices by columns: a matrix of rows is its transpose there, without a copy, so that c^T = op(b)^T op(a)^T is asked
 * for. Sums are f32; TF32 is never used. Parts of a product that is split along k are added in a fixed order, so that the same call gives
 * the same bits. Of what cuBLASLt suggests for a shape, the fastest is taken, which is found by timing at the first large product of that
 * shape whose result may be written several times, and kept; of suggestions that cut k as the first one does, so that the choice
 * does not show in the bits. A kernel of our own (gemm_wgmma.cu) takes part where the first one does not cut k: it has the same bits. */
#include <library_types.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "gemm_series.h"
#include "host/cublaslt.h"

enum { MOST_WORKSPACE = 32 << 20, SLOTS = 1024, SUGGESTIONS = 8, TIMED = 3 };

/* ---- the library ---- */

static cublaslt lt;
static int there;

static void open_library(void)
{
    there = cuda_open_cublaslt(&lt);
}

static int is_there(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_library);
    return there;
}

/* ---- plans: what was found for a product's shape ---- */

typedef struct shape {
    int64_t m, n, k, a_ld, b_ld, c_ld; /* of rows, as the operator has them */
    gemm_series series;
    int32_t card, type, c_type, trans_a, trans_b;
    uint32_t a_aligned, b_aligned, c_aligned; /* bytes, a power of two */
} shape;

typedef struct plan {
    shape of;
    int made, usable, timed;
    int own; /* our own kernel was faster than all that was found */
    cublaslt_desc desc;
    cublaslt_layout a, b, c;
    int count, taken; /* of what was found */
    cublaslt_found found[SUGGESTIONS];
    size_t workspace; /* bytes that those of them need that may be taken */
} plan;

static plan plans[SLOTS];
static cublaslt_handle handles[MOST_CARDS];
static pthread_mutex_t lock =
    PTHREAD_MUTEX_INITIALIZER; /* of both; it is held while a call is launched */

static void forget(plan *p)
{
    if (p->desc)
        lt.cublasLtMatmulDescDestroy(p->desc);
    cublaslt_layout *const layouts[] = {&p->a, &p->b, &p->c};
    for (int i = 0; i < 3; i++)
        if (*layouts[i])
            lt.cublasLtMatrixLayoutDestroy(*layouts[i]);
    memset(p, 0, sizeof *p);
}

static int cuda_type(int type)
{
    return type == TG_F32 ? CUDA_R_32F : type == TG_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

/* Matrices that lie `step` apart. */
static int make_batch(cublaslt_layout layout, int64_t count, int64_t step)
{
    const int32_t matrices = (int32_t)count;
    return lt.cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_LAYOUT_BATCH_COUNT, &matrices,
                                               sizeof matrices) == CUBLASLT_OK &&
           lt.cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_LAYOUT_STRIDED_BATCH_OFFSET, &step,
                                               sizeof step) == CUBLASLT_OK;
}

/* Rows of `columns` elements as cuBLASLt sees them: columns. */
static int make_layout(cublaslt_layout *layout, int type, int64_t rows, int64_t columns, int64_t ld,
                       int64_t count, int64_t step)
{
    return lt.cublasLtMatrixLayoutCreate(layout, cuda_type(type), (uint64_t)columns, (uint64_t)rows,
                                         ld) == CUBLASLT_OK &&
           (count == 1 || make_batch(*layout, count, step));
}

static int describe(plan *p)
{
    const shape *s = &p->of;
    const gemm_series *all = &s->series;
    const int32_t first = s->trans_b ? CUBLASLT_OP_T : CUBLASLT_OP_N;
    const int32_t second = s->trans_a ? CUBLASLT_OP_T : CUBLASLT_OP_N;
    return lt.cublasLtMatmulDescCreate(&p->desc, CUBLASLT_COMPUTE_32F, CUDA_R_32F) == CUBLASLT_OK &&
           lt.cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_DESC_TRANSA, &first, sizeof first) ==
               CUBLASLT_OK &&
           lt.cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_DESC_TRANSB, &second,
                                             sizeof second) == CUBLASLT_OK &&
           make_layout(&p->a, s->type, s->trans_a ? s->k : s->m, s->trans_a ? s->m : s->k, s->a_ld,
                       all->count, all->a_step) &&
           make_layout(&p->b, s->type, s->trans_b ? s->n : s->k, s->trans_b ? s->k : s->n, s->b_ld,
                       all->count, all->b_step) &&
           make_layout(&p->c, s->c_type, s->m, s->n, s->c_ld, all->count, all->c_step);
}

static int wish(cublaslt_preference preference, int attribute, const void *value, size_t size)
{
    return lt.cublasLtMatmulPreferenceSetAttribute(preference, attribute, value, size) ==
           CUBLASLT_OK;
}

static int find_algorithm(plan *p)
{
    const uint64_t workspace = MOST_WORKSPACE;
    /* Sums are f32: parts are not added up in a c of 16 bits. */
    const uint32_t reductions =
        p->of.c_type == TG_F32 ? CUBLASLT_REDUCTION_COMPUTE_TYPE | CUBLASLT_REDUCTION_OUTPUT_TYPE
                               : CUBLASLT_REDUCTION_COMPUTE_TYPE;
    /* of cuBLASLt's A and B, which are b and a, and of C and D */
    const uint32_t aligned[4] = {p->of.b_aligned, p->of.a_aligned, p->of.c_aligned,
                                 p->of.c_aligned};
    cublaslt_preference preference;
    if (lt.cublasLtMatmulPreferenceCreate(&preference) != CUBLASLT_OK)
        return 0;
    int ok = wish(preference, CUBLASLT_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace) &&
             wish(preference, CUBLASLT_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions);
    for (int i = 0; i < 4 && ok; i++)
        ok = wish(preference, CUBLASLT_PREF_MIN_ALIGNMENT_A_BYTES + i, &aligned[i],
                  sizeof aligned[i]);
    ok = ok && lt.cublasLtMatmulAlgoGetHeuristic(handles[p->of.card], p->desc, p->b, p->a, p->c,
                                                 p->c, preference, SUGGESTIONS, p->found,
                                                 &p->count) == CUBLASLT_OK;
    lt.cublasLtMatmulPreferenceDestroy(preference);
    return ok && p->count > 0 && p->found[0].status == CUBLASLT_OK;
}

/* How an algorithm works, as far as it tells: CUBLASLT_CONFIG_*. UINT32_MAX if it does not. */
static uint32_t config_of(const cublaslt_found *found, int attribute)
{
    uint32_t value = 0;
    size_t written;
    return lt.cublasLtMatmulAlgoConfigGetAttribute(&found->algo, attribute, &value, sizeof value,
                                                   &written) == CUBLASLT_OK
               ? value
               : UINT32_MAX;
}

static uint32_t splits_of(const cublaslt_found *found)
{
    return config_of(found, CUBLASLT_CONFIG_SPLITS);
}

/* Whether two algorithms add up along k alike. */
static int add_alike(const cublaslt_found *one, const cublaslt_found *other)
{
    const uint32_t splits = splits_of(one),
                   reduction = config_of(one, CUBLASLT_CONFIG_REDUCTION_SCHEME);
    return splits != UINT32_MAX && reduction != UINT32_MAX && splits == splits_of(other) &&
           reduction == config_of(other, CUBLASLT_CONFIG_REDUCTION_SCHEME);
}

static int may_take(const plan *p, int which)
{
    return p->found[which].status == CUBLASLT_OK && add_alike(&p->found[0], &p->found[which]);
}

static size_t workspace_of(const plan *p)
{
    size_t most = 0;
    for (int i = 0; i < p->count; i++)
        if (may_take(p, i) && p->found[i].workspace > most)
            most = p->found[i].workspace;
    return most;
}

static plan *plan_of(const shape *s)
{
    uint64_t hash = 0;
    const uint64_t *words = (const uint64_t *)s;
    _Static_assert(sizeof *s % sizeof *words == 0, "a shape is whole words, without gaps");
    for (size_t i = 0; i < sizeof *s / sizeof *words; i++)
        hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u ^ hash >> 29;
    plan *p = &plans[(hash ^ hash >> 32) % SLOTS];
    if (p->made && !memcmp(&p->of, s, sizeof *s))
        return p;
    forget(p);
    p->of = *s;
    p->made = 1;
    p->usable = (handles[s->card] || lt.cublasLtCreate(&handles[s->card]) == CUBLASLT_OK) &&
                describe(p) && find_algorithm(p);
    p->workspace = p->usable ? workspace_of(p) : 0;
    return p;
}

/* ---- the operator ---- */

/* The bytes, a power of two of at most 256, that the rows of all matrices begin at a multiple of. */
static uint32_t aligned(const tg_tensor *t)
{
    int64_t strides = matrix_stride(t);
    for (int i = 0; i < t->ndim - 2; i++)
        strides |= stride_at(t, i);
    const uintptr_t size = tg_type_size(tg_type_of(t));
    const uintptr_t bits = (uintptr_t)data_of(t) | (uintptr_t)strides * size | 256;
    return (uint32_t)(bits & -bits);
}

static int takes(const tg_tensor *t)
{
    const int64_t ld = matrix_stride(t);
    return matrix_rows(t) <= INT32_MAX && width_of(t) <= INT32_MAX && ld >= width_of(t) &&
           ld <= INT32_MAX;
}

/* cuBLASLt multiplies a factor by alpha before the sum in some products, which overflows or underflows where the sum would not: of
 * such an alpha only with factors beyond 2^95 or below 2^-94. */
static int is_moderate(double alpha)
{
    return fabs(alpha) >= 0x1p-32 && fabs(alpha) <= 0x1p32;
}

int cuda_gemm_cublaslt_accepts(const tg_gemm_args *args)
{
    return is_moderate(args->alpha) && gemm_inner(args) > 0 && takes(args->a) && takes(args->b) &&
           takes(args->c) && is_there();
}

int cuda_batched_gemm_cublaslt_accepts(const tg_batched_gemm_args *args)
{
    const tg_gemm_args all = gemm_of_batch(args);
    return series_of(&all).count <= INT32_MAX && cuda_gemm_cublaslt_accepts(&all);
}

static shape shape_of(const tg_gemm_args *args, int card)
{
    shape s;
    memset(&s, 0, sizeof s);
    s.series = series_of(args);
    s.m = matrix_rows(args->c);
    s.n = width_of(args->c);
    s.k = gemm_inner(args);
    s.a_ld = matrix_stride(args->a);
    s.b_ld = matrix_stride(args->b);
    s.c_ld = matrix_stride(args->c);
    s.card = card;
    s.type = tg_type_of(args->a);
    s.c_type = tg_type_of(args->c);
    s.trans_a = args->trans_a != 0;
    s.trans_b = args->trans_b != 0;
    s.a_aligned = aligned(args->a);
    s.b_aligned = aligned(args->b);
    s.c_aligned = aligned(args->c);
    return s;
}

/* ---- series of products ---- */

enum { OWN = -1 }; /* in place of the number of what was found */

static int own_takes(const tg_gemm_args *args)
{
    return args->c->ndim == 2 && cuda_gemm_wgmma_accepts(args);
}

static int run_series(const plan *p, const cuda_call *call, const tg_gemm_args *args, int64_t index,
                      int which, void *workspace)
{
    const float alpha = (float)args->alpha, beta = (float)args->beta;
    const int first = first_in_series(args);
    const char *a = series_at(args->a, first, index), *b = series_at(args->b, first, index);
    char *c = series_at(args->c, first, index);
    return lt.cublasLtMatmul(handles[p->of.card], p->desc, &alpha, b, p->b, a, p->a, &beta, c, p->c,
                             c, p->c, &p->found[which].algo, workspace, p->workspace, call->stream);
}

static int run(const plan *p, const cuda_call *call, const tg_gemm_args *args, int which,
               void *workspace)
{
    if (which == OWN)
        return cuda_gemm_wgmma_on(call, args);
    const int64_t count = count_series(args);
    int error = CUBLASLT_OK;
    for (int64_t i = 0; i < count && error == CUBLASLT_OK; i++)
        error = run_series(p, call, args, i, which, workspace);
    return error;
}

/* Milliseconds of the fastest of some runs; a lot if there was an error. */
static float time_of(const plan *p, const cuda_call *call, const tg_gemm_args *args, int which,
                     void *workspace, cudaEvent_t begun, cudaEvent_t ended)
{
    const float never = 1e30f;
    float best = never, ms;
    for (int i = 0; i <= TIMED; i++) { /* the first run is not counted */
        cudaEventRecord(begun, call->stream);
        if (run(p, call, args, which, workspace) != CUBLASLT_OK)
            return never;
        cudaEventRecord(ended, call->stream);
        if (cudaEventSynchronize(ended) != cudaSuccess ||
            cudaEventElapsedTime(&ms, begun, ended) != cudaSuccess)
            return never;
        best = i > 0 && ms < best ? ms : best;
    }
    return best;
}

/* Small products are not worth it; a stream that is recorded cannot wait, and c cannot be written again where it is read. */
static int can_time(const plan *p, const cuda_call *call, const tg_gemm_args *args)
{
    const double least = 1e9;
    enum cudaStreamCaptureStatus capture;
    return !p->timed && p->count > 1 && args->beta == 0 &&
           2.0 * (double)p->of.series.count * (double)p->of.m * (double)p->of.n * (double)p->of.k >=
               least &&
           cudaStreamIsCapturing(call->stream, &capture) == cudaSuccess &&
           capture == cudaStreamCaptureStatusNone;
}

static void choose(plan *p, const cuda_call *call, const tg_gemm_args *args, void *workspace)
{
    const float better = 0.99f;
    cudaEvent_t begun, ended;
    if (cudaEventCreate(&begun) != cudaSuccess)
        return;
    if (cudaEventCreate(&ended) == cudaSuccess) {
        float best = time_of(p, call, args, 0, workspace, begun, ended);
        for (int i = 1; i < p->count; i++) {
            if (!may_take(p, i))
                continue;
            const float ms = time_of(p, call, args, i, workspace, begun, ended);
            if (ms < better * best) {
                best = ms;
                p->taken = i;
            }
        }
        p->own = own_takes(args) && splits_of(&p->found[0]) <= 1 &&
                 time_of(p, call, args, OWN, workspace, begun, ended) < better * best;
        p->timed = 1;
        cudaEventDestroy(ended);
    }
    cudaEventDestroy(begun);
}

/* With the lock held. */
static tg_status multiply_by(plan *p, const cuda_call *call, const tg_gemm_args *args)
{
    void *workspace = NULL;
    if (!p->usable)
        return TG_EUNSUPPORTED;
    if (p->workspace > 0) {
        workspace = cuda_host->device_workspace(call->ctx, p->workspace);
        if (!workspace)
            return TG_ENOMEM;
    }
    if (can_time(p, call, args))
        choose(p, call, args, workspace);
    const int which = p->own && own_takes(args) ? OWN : p->taken;
    const int error = run(p, call, args, which, workspace);
    return error == CUBLASLT_OK
               ? TG_OK
               : cuda_host->fail(TG_EDEVICE, "%s: cuBLASLt answers error %d", call->op, error);
}

static tg_status multiply(const cuda_call *call, const tg_gemm_args *args)
{
    const shape s = shape_of(args, call->card);
    pthread_mutex_lock(&lock);
    const tg_status status = multiply_by(plan_of(&s), call, args);
    pthread_mutex_unlock(&lock);
    return status;
}

static tg_status run_op(tg_ctx *ctx, const char *op, const tg_gemm_args *args)
{
    cuda_call call;
    if (tg_numel(args->c) == 0)
        return TG_OK;
    tg_status status = cuda_begin(&call, ctx, op, args->c);
    if (status != TG_OK)
        return status;
    status = multiply(&call, args);
    return cuda_end(&call, status);
}

tg_status cuda_gemm_cublaslt(tg_ctx *ctx, const tg_gemm_args *args)
{
    return run_op(ctx, "gemm", args);
}

tg_status cuda_batched_gemm_cublaslt(tg_ctx *ctx, const tg_batched_gemm_args *args)
{
    const tg_gemm_args all = gemm_of_batch(args);
    return run_op(ctx, "batched_gemm", &all);
}
