/* gemm_cublaslt_plans.c - what cuBLASLt suggests for a product's shape, asked once and kept. */
#include "gemm_cublaslt.h"

#include <library_types.h>
#include <pthread.h>
#include <string.h>

/* A plan is in one of NEAR slots from the one that its shape's hash says: one that two shapes took
 * from each other in turn would be timed in every call. */
enum { MOST_WORKSPACE = 32 << 20, SLOTS = 1024, NEAR = 16 };

/* ---- the library ---- */

static cublaslt lt;
static int there;

static void open_library(void)
{
    there = cuda_open_cublaslt(&lt);
}

int gemm_cublaslt_is_there(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_library);
    return there;
}

/* ---- plans ---- */

static gemm_plan plans[SLOTS];
static cublaslt_handle handles[MOST_CARDS];

static void forget(gemm_plan *p)
{
    if (p->desc)
        lt.cublasLtMatmulDescDestroy(p->desc);
    cublaslt_layout *const layouts[] = {&p->a, &p->b, &p->c, &p->addend};
    for (int i = 0; i < 4; i++)
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

static int describe(gemm_plan *p)
{
    const gemm_shape *s = &p->of;
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
           make_layout(&p->c, s->c_type, s->m, s->n, s->c_ld, all->count, all->c_step) &&
           make_layout(&p->addend, s->c_type, s->m, s->n, s->addend_ld, all->count,
                       all->addend_step);
}

static int wish(cublaslt_preference preference, int attribute, const void *value, size_t size)
{
    return lt.cublasLtMatmulPreferenceSetAttribute(preference, attribute, value, size) ==
           CUBLASLT_OK;
}

static int find_algorithm(gemm_plan *p)
{
    const uint64_t workspace = MOST_WORKSPACE;
    /* Sums are f32: parts are not added up in a c of 16 bits. */
    const uint32_t reductions =
        p->of.c_type == TG_F32 ? CUBLASLT_REDUCTION_COMPUTE_TYPE | CUBLASLT_REDUCTION_OUTPUT_TYPE
                               : CUBLASLT_REDUCTION_COMPUTE_TYPE;
    /* of cuBLASLt's A and B, which are b and a, and of C and D */
    const uint32_t aligned[4] = {p->of.b_aligned, p->of.a_aligned, p->of.addend_aligned,
                                 p->of.c_aligned};
    cublaslt_preference preference;
    if (lt.cublasLtMatmulPreferenceCreate(&preference) != CUBLASLT_OK)
        return 0;
    int ok = wish(preference, CUBLASLT_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace) &&
             wish(preference, CUBLASLT_PREF_REDUCTION_SCHEME_MASK, &reductions, sizeof reductions);
    for (int i = 0; i < 4 && ok; i++)
        ok = wish(preference, CUBLASLT_PREF_MIN_ALIGNMENT_A_BYTES + i, &aligned[i],
                  sizeof aligned[i]);
    ok = ok && lt.cublasLtMatmulAlgoGetHeuristic(handles[p->of.card], p->desc, p->b, p->a,
                                                 p->addend, p->c, preference, GEMM_SUGGESTIONS,
                                                 p->found, &p->count) == CUBLASLT_OK;
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

int gemm_plan_allows(const gemm_plan *p, int which)
{
    return p->found[which].status == CUBLASLT_OK && add_alike(&p->found[0], &p->found[which]);
}

static size_t workspace_of(const gemm_plan *p)
{
    size_t most = 0;
    for (int i = 0; i < p->count; i++)
        if (gemm_plan_allows(p, i) && p->found[i].workspace > most)
            most = p->found[i].workspace;
    return most;
}

static uint64_t hash_of(const gemm_shape *s)
{
    uint64_t hash = 0;
    const uint64_t *words = (const uint64_t *)s;
    _Static_assert(sizeof *s % sizeof *words == 0, "a shape is whole words, without gaps");
    for (size_t i = 0; i < sizeof *s / sizeof *words; i++)
        hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u ^ hash >> 29;
    return hash ^ hash >> 32;
}

/* The shape's slot, a free one, or, where there is none, that of another shape. */
static gemm_plan *slot_of(const gemm_shape *s)
{
    const uint64_t hash = hash_of(s);
    for (uint64_t i = 0; i < NEAR; i++) {
        gemm_plan *const p = &plans[(hash + i) % SLOTS];
        if (!p->made || !memcmp(&p->of, s, sizeof *s))
            return p;
    }
    return &plans[(hash + (hash >> 16) % NEAR) % SLOTS];
}

gemm_plan *gemm_plan_of(const gemm_shape *s)
{
    gemm_plan *const p = slot_of(s);
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

uint32_t gemm_plan_splits(const gemm_plan *p)
{
    return splits_of(&p->found[0]);
}

int gemm_plan_run(const gemm_plan *p, int which, float alpha, const void *a, const void *b,
                  float beta, const void *addend, void *c, void *workspace, cudaStream_t stream)
{
    return lt.cublasLtMatmul(handles[p->of.card], p->desc, &alpha, b, p->b, a, p->a, &beta, addend,
                             p->addend, c, p->c, &p->found[which].algo, workspace, p->workspace,
                             stream);
}
