/* gemm_cublaslt.c - gemm and batched_gemm by NVIDIA's cuBLASLt, where it is installed.
 *
 * cuBLASLt stores matrices by columns: a matrix of rows is its transpose there, without a copy, so
 * that c^T = op(b)^T op(a)^T is asked for. Sums are f32; TF32 is never used. Parts of a product
 * that is split along k are added in a fixed order, so that the same call gives the same bits. Of
 * what cuBLASLt suggests for a shape, the fastest is taken, which is found by timing at the first
 * large product of that shape whose result may be written several times, and kept; of suggestions
 * that cut k as the first one does, so that the choice does not show in the bits. A kernel of our
 * own (gemm_wgmma.cu) takes part where the first one does not cut k: it has the same bits. */
#include "gemm_cublaslt.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

enum { TIMED = 3 };

/* Of the plans; it is held while a call is launched. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the operator ---- */

/* The bytes, a power of two of at most 256, that the rows of all matrices begin at a multiple
 * of. */
static uint32_t aligned(const tg_tensor *t)
{
    int64_t strides = matrix_stride(t);
    for (int i = 0; i < t->ndim - 2; i++)
        strides |= tg_stride(t, i);
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

/* cuBLASLt multiplies a factor by alpha before the sum in some products, which overflows or
 * underflows where the sum would not: of such an alpha only with factors beyond 2^95 or below
 * 2^-94. */
static int is_moderate(double alpha)
{
    return fabs(alpha) >= 0x1p-32 && fabs(alpha) <= 0x1p32;
}

/* It adds what is of c's type. */
static int takes_addend(const tg_gemm_args *args)
{
    const tg_tensor *addend = gemm_addend(args);
    return takes(addend) && tg_type_of(addend) == tg_type_of(args->c);
}

/* What cuBLASLt takes for products of fewer terms than tensor cores take in a step rounds them to
 * 16 bits twice. What it takes for a few rows, columns or terms does so before it adds beta c, so
 * that sums which cancel lose their digits. */
static int rounds_once(const tg_gemm_args *args)
{
    enum { FEW = 16, FEW_TERMS = 64 };
    const tg_tensor *c = args->c;
    const int64_t terms = gemm_inner(args);
    if (tg_type_of(c) == TG_F32)
        return 1;
    return args->beta == 0 ? terms >= FEW
                           : terms >= FEW_TERMS && matrix_rows(c) >= FEW && width_of(c) >= FEW;
}

int cuda_gemm_cublaslt_accepts(const tg_gemm_args *args)
{
    return is_moderate(args->alpha) && gemm_inner(args) > 0 && takes(args->a) && takes(args->b) &&
           takes(args->c) && takes_addend(args) && rounds_once(args) && gemm_cublaslt_is_there();
}

int cuda_batched_gemm_cublaslt_accepts(const tg_batched_gemm_args *args)
{
    const tg_gemm_args all = gemm_of_batch(args);
    return series_of(&all).count <= INT32_MAX && cuda_gemm_cublaslt_accepts(&all);
}

static gemm_shape shape_of(const tg_gemm_args *args, int card)
{
    gemm_shape s;
    memset(&s, 0, sizeof s);
    s.series = series_of(args);
    s.m = matrix_rows(args->c);
    s.n = width_of(args->c);
    s.k = gemm_inner(args);
    s.a_ld = matrix_stride(args->a);
    s.b_ld = matrix_stride(args->b);
    s.c_ld = matrix_stride(args->c);
    s.addend_ld = matrix_stride(gemm_addend(args));
    s.card = card;
    s.type = tg_type_of(args->a);
    s.c_type = tg_type_of(args->c);
    s.trans_a = args->trans_a != 0;
    s.trans_b = args->trans_b != 0;
    s.a_aligned = aligned(args->a);
    s.b_aligned = aligned(args->b);
    s.c_aligned = aligned(args->c);
    s.addend_aligned = aligned(gemm_addend(args));
    s.adds = args->beta != 0;
    return s;
}

/* ---- series of products ---- */

enum { OWN = -1 }; /* in place of the number of what was found */

static int own_takes(const tg_gemm_args *args)
{
    return args->c->ndim == 2 && cuda_gemm_wgmma_accepts(args);
}

static int run_series(const gemm_plan *p, const cuda_call *call, const tg_gemm_args *args,
                      int64_t index, int which, void *workspace)
{
    const float alpha = (float)args->alpha, beta = (float)args->beta;
    const int first = first_in_series(args);
    const char *a = series_at(args->a, first, index), *b = series_at(args->b, first, index);
    const char *addend = series_at(gemm_addend(args), first, index);
    char *c = series_at(args->c, first, index);
    return gemm_plan_run(p, which, alpha, a, b, beta, addend, c, workspace, call->stream);
}

static int run(const gemm_plan *p, const cuda_call *call, const tg_gemm_args *args, int which,
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
static float time_of(const gemm_plan *p, const cuda_call *call, const tg_gemm_args *args, int which,
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

/* Small products are not worth it; a stream that is recorded cannot wait, and c cannot be written
 * again where it is read. */
static int can_time(const gemm_plan *p, const cuda_call *call, const tg_gemm_args *args)
{
    const double least = 1e9;
    enum cudaStreamCaptureStatus capture;
    return !p->timed && p->count > 1 && (args->beta == 0 || args->addend) &&
           2.0 * (double)p->of.series.count * (double)p->of.m * (double)p->of.n * (double)p->of.k >=
               least &&
           cudaStreamIsCapturing(call->stream, &capture) == cudaSuccess &&
           capture == cudaStreamCaptureStatusNone;
}

/* What is timed here runs alone, on a card whose clock is higher than in the middle of a step,
 * where its power bounds it. Of the weights' gradients of Llama-3.2-1B, of 32768 tokens, cuBLASLt's
 * first suggestion takes 1.47 ms within steps of an H200; our own product and smaller tiles, which
 * were taken for it by 5 and by 1 %, 1.53 and 1.57. So another one must be clearly faster. */
static void choose(gemm_plan *p, const cuda_call *call, const tg_gemm_args *args, void *workspace)
{
    const float clearly = 0.95f, own = 0.85f;
    cudaEvent_t begun, ended;
    if (cudaEventCreate(&begun) != cudaSuccess)
        return;
    if (cudaEventCreate(&ended) == cudaSuccess) {
        const float first = time_of(p, call, args, 0, workspace, begun, ended);
        float best = clearly * first;
        for (int i = 1; i < p->count; i++) {
            if (!gemm_plan_allows(p, i))
                continue;
            const float ms = time_of(p, call, args, i, workspace, begun, ended);
            if (ms < best) {
                best = ms;
                p->taken = i;
            }
        }
        p->own = own_takes(args) && gemm_plan_splits(p) <= 1 &&
                 time_of(p, call, args, OWN, workspace, begun, ended) < fminf(best, own * first);
        p->timed = 1;
        cudaEventDestroy(ended);
    }
    cudaEventDestroy(begun);
}

/* With the lock held. */
static tg_status multiply_by(gemm_plan *p, const cuda_call *call, const tg_gemm_args *args)
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
    const gemm_shape s = shape_of(args, call->card);
    pthread_mutex_lock(&lock);
    const tg_status status = multiply_by(gemm_plan_of(&s), call, args);
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
