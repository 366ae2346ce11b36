/* A stand-in for the two libraries of CANN that multiply matrices, libnnopbase.so and libopapi.so,
 * by their documented rules. It does multiply, f32 and bf16, in the memory of the stand-in's
 * device; f16 it refuses in the first phase, as CANN refuses what it has no kernel for.
 *
 *   STAND_IN_FAIL=NAME   that function answers error 507899, or makes nothing */
#include <stdlib.h>
#include <string.h>

#include "stand_in.h"

enum { F32 = 0, BF16 = 27, ND = 2, REFUSED = 161002, WORKSPACE = 512 };

typedef struct matrix {
    int64_t shape[2], strides[2];
    int type;
    void *data;
} matrix;

typedef struct plan {
    const matrix *a, *b, *c;
    float alpha, beta;
} plan;

static int alive; /* matrices and scalars */
static plan made;
static int is_made;

/* ---- tensors and scalars ---- */

API void *aclCreateTensor(const int64_t *shape, uint64_t ndim, int type, const int64_t *strides,
                          int64_t offset, int format, const int64_t *storage_shape,
                          uint64_t storage_ndim, void *data)
{
    const size_t size = type == F32 ? 4 : 2;
    record("aclCreateTensor");
    if (fails("aclCreateTensor"))
        return NULL;
    if (ndim != 2 || offset != 0 || format != ND || storage_ndim != 1 ||
        (shape[0] - 1) * strides[0] + (shape[1] - 1) * strides[1] >= storage_shape[0] ||
        room_at((uint64_t)(uintptr_t)data) < (size_t)storage_shape[0] * size) {
        violation("aclCreateTensor", "a view that does not lie within its memory");
        return NULL;
    }
    matrix *m = malloc(sizeof *m);
    *m = (matrix){{shape[0], shape[1]}, {strides[0], strides[1]}, type, (char *)data - moved};
    alive++;
    return m;
}

static int give_back(const char *function, const void *thing)
{
    record("%s", function);
    if (!thing)
        return violation(function, "nothing is given back");
    alive--;
    free((void *)thing);
    return 0;
}

API int aclDestroyTensor(const void *tensor)
{
    return give_back("aclDestroyTensor", tensor);
}

API void *aclCreateScalar(void *value, int type)
{
    float *scalar = malloc(sizeof *scalar);
    record("aclCreateScalar");
    if (type != F32)
        violation("aclCreateScalar", "another type than f32");
    memcpy(scalar, value, sizeof *scalar);
    alive++;
    return scalar;
}

API int aclDestroyScalar(const void *scalar)
{
    return give_back("aclDestroyScalar", scalar);
}

/* ---- products ---- */

static char *element(const matrix *m, int64_t i, int64_t j)
{
    return (char *)m->data + (i * m->strides[0] + j * m->strides[1]) * (m->type == F32 ? 4 : 2);
}

static float get(const matrix *m, int64_t i, int64_t j)
{
    uint32_t bits = 0;
    float value;
    memcpy((char *)&bits + (m->type == F32 ? 0 : 2), element(m, i, j), m->type == F32 ? 4 : 2);
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* To nearest, to even. */
static void set(const matrix *m, int64_t i, int64_t j, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (m->type == BF16 && value == value)
        bits += 0x7fff + (bits >> 16 & 1);
    memcpy(element(m, i, j), (char *)&bits + (m->type == F32 ? 0 : 2), m->type == F32 ? 4 : 2);
}

static void multiply(const plan *p)
{
    for (int64_t i = 0; i < p->c->shape[0]; i++)
        for (int64_t j = 0; j < p->c->shape[1]; j++) {
            double sum = 0;
            for (int64_t k = 0; k < p->a->shape[1]; k++)
                sum += (double)get(p->a, i, k) * (double)get(p->b, k, j);
            sum *= p->alpha;
            if (p->beta != 0)
                sum += (double)p->beta * (double)get(p->c, i, j);
            set(p->c, i, j, (float)sum);
        }
}

static int first_phase(const char *function, plan p, int8_t cube_math, uint64_t *bytes,
                       void **executor)
{
    BEGIN(function, 1);
    if (cube_math != 0 || p.a->shape[1] != p.b->shape[0] || p.a->shape[0] != p.c->shape[0] ||
        p.b->shape[1] != p.c->shape[1] || p.a->type != p.c->type || p.b->type != p.c->type)
        return violation(function, "types or shapes that are not of one product");
    if (p.a->type != F32 && p.a->type != BF16)
        return REFUSED;
    made = p;
    is_made = 1;
    *bytes = WORKSPACE;
    *executor = &made;
    return 0;
}

static int second_phase(const char *function, void *workspace, uint64_t bytes, void *executor)
{
    BEGIN(function, 1);
    if (!is_made || executor != &made)
        return violation(function, "a plan that was not made, or is spent");
    if (bytes != WORKSPACE || room_at((uint64_t)(uintptr_t)workspace) < bytes)
        return violation(function, "a workspace that is not as asked for");
    multiply(&made);
    is_made = 0;
    return 0;
}

API int aclnnMatmulGetWorkspaceSize(const matrix *a, const matrix *b, matrix *c, int8_t cube_math,
                                    uint64_t *bytes, void **executor)
{
    return first_phase("aclnnMatmulGetWorkspaceSize", (plan){a, b, c, 1, 0}, cube_math, bytes,
                       executor);
}

API int aclnnMatmul(void *workspace, uint64_t bytes, void *executor, void *stream)
{
    (void)stream;
    return second_phase("aclnnMatmul", workspace, bytes, executor);
}

API int aclnnInplaceAddmmGetWorkspaceSize(const matrix *c, const matrix *a, const matrix *b,
                                          const float *beta, const float *alpha, int8_t cube_math,
                                          uint64_t *bytes, void **executor)
{
    return first_phase("aclnnInplaceAddmmGetWorkspaceSize", (plan){a, b, c, *alpha, *beta},
                       cube_math, bytes, executor);
}

API int aclnnInplaceAddmm(void *workspace, uint64_t bytes, void *executor, void *stream)
{
    (void)stream;
    return second_phase("aclnnInplaceAddmm", workspace, bytes, executor);
}

__attribute__((destructor)) static void end(void)
{
    if (alive)
        record("VIOLATION at the end: %d matrices or scalars are left", alive);
}
