/* gemm_aclnn.c - gemm by CANN's own product, on a card whose CANN has it: ascend/gemm.aclnn, which
 * comes before the kernel of this backend for the products that the table below names. */
#include <dlfcn.h>
#include <pthread.h>

#include "aclnn.h"
#include "ascend.h"
#include "kernels/shared/asc_any.args.h"

/* The products that are left to CANN, by the rows of c: with few of them the time is that of
 * reading b, and our own kernel is as fast as memory there (README.md has the figures). */
static const struct {
    int type; /* CANN's number of it */
    int64_t fewest_rows;
} types[] = {
    [ASC_ANY_F32] = {ACLNN_F32, 17},
    [ASC_ANY_BF16] = {ACLNN_BF16, 17},
    [ASC_ANY_F16] = {ACLNN_F16, 17},
};

/* ---- loading ---- */

static struct {
#define X(result, name, arguments) result(*name) arguments;
    ACLNN_BASE_FUNCTIONS(X)
    ACLNN_OPERATOR_FUNCTIONS(X)
#undef X
} aclnn;

static int is_there;
static pthread_once_t looked = PTHREAD_ONCE_INIT;

typedef struct function {
    const char *name;
    void **at;
} function;

/* 1 if a library of this name has them all. */
static int load(const char *library, const function *functions, int count)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    int found = 0;
    while (handle && found < count &&
           (*functions[found].at = dlsym(handle, functions[found].name)) != NULL)
        found++;
    return found == count;
}

static void look(void)
{
#define X(result, name, arguments) {#name, (void **)&aclnn.name},
    static const function base[] = {ACLNN_BASE_FUNCTIONS(X)};
    static const function operators[] = {ACLNN_OPERATOR_FUNCTIONS(X)};
#undef X
    static const char *const libraries[] = {"libopapi.so", "libopapi_nn.so"};
    if (!load("libnnopbase.so", base, ASCEND_COUNT(base)))
        return;
    for (int i = 0; i < ASCEND_COUNT(libraries) && !is_there; i++)
        is_there = load(libraries[i], operators, ASCEND_COUNT(operators));
}

/* ---- the operator ---- */

/* A matrix, or its transpose, as CANN sees it. */
static aclTensor *view(const tg_tensor *t, int transposed)
{
    const tg_rows r = tg_rows_of(t);
    const int64_t shape[] = {transposed ? r.n : r.rows, transposed ? r.rows : r.n};
    const int64_t strides[] = {transposed ? 1 : r.stride, transposed ? r.stride : 1};
    const int64_t elements = (int64_t)(tg_extent(t) / tg_type_size(r.type));
    return aclnn.aclCreateTensor(shape, 2, types[ascend_any(t)].type, strides, 0, ACLNN_ND,
                                 &elements, 1, r.data);
}

typedef struct product {
    aclTensor *a, *b, *c;
    aclScalar *alpha, *beta;
} product;

static tg_status run(tg_ctx *ctx, const product *p, int add)
{
    uint64_t bytes = 0;
    aclOpExecutor *executor = NULL;
    void *memory = NULL;
    int error = add ? aclnn.aclnnInplaceAddmmGetWorkspaceSize(p->c, p->a, p->b, p->beta, p->alpha,
                                                              ACLNN_KEEP_TYPE, &bytes, &executor)
                    : aclnn.aclnnMatmulGetWorkspaceSize(p->a, p->b, p->c, ACLNN_KEEP_TYPE, &bytes,
                                                        &executor);
    if (error != ACLNN_SUCCESS) /* nothing is written yet: our own kernel takes it */
        return ascend_host->fail(TG_EUNSUPPORTED, "npu: CANN's product answers error %d", error);
    if (bytes > 0)
        ASCEND_TRY(ascend_scratch(ctx, bytes, &memory));
    error = (add ? aclnn.aclnnInplaceAddmm : aclnn.aclnnMatmul)(memory, bytes, executor,
                                                                ascend_host->stream(ctx));
    return error == ACLNN_SUCCESS
               ? TG_OK
               : ascend_host->fail(TG_EDEVICE, "npu: %s answers error %d",
                                   add ? "aclnnInplaceAddmm" : "aclnnMatmul", error);
}

static tg_status multiply(tg_ctx *ctx, const tg_gemm_args *args)
{
    float alpha = (float)args->alpha, beta = (float)args->beta;
    const product p = {view(args->a, args->trans_a), view(args->b, args->trans_b), view(args->c, 0),
                       aclnn.aclCreateScalar(&alpha, ACLNN_F32),
                       aclnn.aclCreateScalar(&beta, ACLNN_F32)};
    const tg_status status =
        p.a && p.b && p.c && p.alpha && p.beta
            ? run(ctx, &p, args->beta != 0)
            : ascend_host->fail(TG_ENOMEM, "npu: CANN makes no tensor of a matrix");
    aclTensor *const tensors[] = {p.a, p.b, p.c};
    aclScalar *const scalars[] = {p.alpha, p.beta};
    for (int i = 0; i < ASCEND_COUNT(tensors); i++)
        if (tensors[i])
            aclnn.aclDestroyTensor(tensors[i]);
    for (int i = 0; i < ASCEND_COUNT(scalars); i++)
        if (scalars[i])
            aclnn.aclDestroyScalar(scalars[i]);
    return status;
}

tg_status ascend_gemm_aclnn(tg_ctx *ctx, const tg_gemm_args *args)
{
    const int32_t card = ascend_state_of(ctx)->card;
    int32_t before;
    ASCEND_TRY(ascend_side_so_far(ctx));
    ASCEND_TRY(ascend_card_enter(card, &before));
    const tg_status status = multiply(ctx, args);
    ascend_card_leave(card, before);
    return status;
}

/* CANN's matmul has neither an alpha nor a result of another type than its operands. Its addmm has
 * an alpha, but rounds the product to 16 bits before it adds, and promises not that an alpha of 0
 * leaves a and b unread. */
int ascend_gemm_aclnn_accepts(const tg_gemm_args *args)
{
    const int type = tg_type_of(args->c);
    const int has_form =
        args->beta == 0 ? args->alpha == 1 : type == TG_F32 && args->alpha != 0 && !args->addend;
    if (!has_form || type != tg_type_of(args->a) || args->a->shape[!args->trans_a] == 0 ||
        args->c->shape[1] == 0 || args->c->shape[0] < types[ascend_any(args->c)].fewest_rows)
        return 0;
    pthread_once(&looked, look);
    return is_there;
}
