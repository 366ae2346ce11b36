/* Fuzzing of argument checks: valid problems with one to three fields of their arguments changed.
 * Each call either is refused, with a message that begins with the operator's name and with nothing
 * written, or it runs.
 *   fuzz_arguments [CALLS [SEED]] */
#include "../common/test.h"
#include "problem/problem.h"

static uint64_t state;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static int64_t below(int64_t n)
{
    return (int64_t)(next() % (uint64_t)n);
}

static int64_t odd_number(int64_t near)
{
    const uint64_t n = (uint64_t)near; /* an odd number itself, perhaps: it may wrap */
    const int64_t values[] = {0,
                              1,
                              -1,
                              2,
                              (int64_t)(n + 1),
                              (int64_t)(n - 1),
                              (int64_t)(2 * n),
                              INT64_MAX,
                              INT64_MIN,
                              (int64_t)1 << 40,
                              7,
                              -100};
    return values[below(sizeof values / sizeof *values)];
}

/* ---- mutations of a tensor ---- */

/* The sizes of a case, one of which is another. */
typedef struct otherwise {
    const pb_case *c;
    int64_t left; /* names before that one */
} otherwise;

static int size_otherwise(void *user, const char *name, int64_t *size)
{
    otherwise *o = user;
    *size = (int64_t)pb_case_value(o->c, name);
    if (o->left-- == 0)
        *size = odd_number(*size);
    return 0;
}

/* A shape as the operator's column has it, by sizes that the other tensors have not. */
static void mutate_shape(problem *p, pb_tensor *t)
{
    otherwise o = {p->c, below(p->op->info->nargs + 4)};
    int64_t shape[TG_MAX_NDIM];
    int ndim;
    const char *text = p->op->info->args[t->decl->slot].shape;
    if (tg_shape_of(p->op->id, text, size_otherwise, &o, shape, &ndim) != TG_OK)
        return;
    memcpy(t->shape, shape, (size_t)ndim * sizeof *shape);
    t->view.ndim = ndim;
    t->view.strides = NULL;
}

static void mutate_tensor(problem *p, pb_tensor *t)
{
    const pb_tensor *other = &p->tensor[below(p->op->ntensors)];
    const int ndim = t->view.ndim < TG_MAX_NDIM ? t->view.ndim : TG_MAX_NDIM;
    const int dim = ndim > 0 ? (int)below(ndim) : 0;
    switch (below(11)) {
    case 0:
        p->slot[t->decl->slot].ptr = NULL;
        break;
    case 1:
        t->view.ndim = (int32_t)(below(12) - 1);
        break;
    case 2:
        t->view.dtype =
            (tg_dtype){(uint8_t)below(7), (uint8_t)(8 << below(4)), (uint16_t)(1 + below(8) / 7)};
        break;
    case 3:
        t->shape[dim] = odd_number(t->shape[dim]);
        break;
    case 4:
        t->strides[dim] = odd_number(t->strides[dim]);
        break;
    case 5:
        t->view.strides = t->view.strides ? NULL : t->strides;
        break;
    case 6:
        t->view.data = other->view.data;
        t->view.byte_offset = other->view.byte_offset;
        break;
    case 7:
        t->view.data = NULL;
        break;
    case 8:
        t->view.device.device_type = (int32_t)below(24);
        break;
    case 9:
        mutate_shape(p, t);
        break;
    default:
        t->view.shape = below(8) ? t->shape : NULL;
        break;
    }
}

static void mutate_option(problem *p)
{
    const int i = (int)below(p->op->info->nargs);
    if (p->op->info->args[i].kind == TG_ARG_I64)
        p->slot[i].i64 = odd_number(p->slot[i].i64);
    if (p->op->info->args[i].kind == TG_ARG_F64) {
        const double values[] = {0,      1,      -1,        0.5,       2,   1e300,
                                 -1e300, 1e-300, 1.0 / 0.0, 0.0 / 0.0, 1e-5};
        p->slot[i].f64 = values[below(sizeof values / sizeof *values)];
    }
}

static void mutate_integers(pb_tensor *t)
{
    const tg_tensor *v = &t->view;
    const int type = tg_type_of(v);
    if ((type != TG_I64 && type != TG_I32) || t->written || !v->shape || !v->data || v->ndim < 1 ||
        v->ndim > 2)
        return;
    for (int i = 0; i < v->ndim; i++)
        if (v->shape[i] < 1 || v->shape[i] > 1 << 20)
            return;
    void *first = (char *)v->data + v->byte_offset;
    const int64_t i64 = odd_number(t->limit);
    const int32_t i32 = (int32_t)i64;
    if (type == TG_I64) /* the address may be odd, if a mutation has moved it */
        memcpy(first, &i64, sizeof i64);
    else
        memcpy(first, &i32, sizeof i32);
}

/* ---- what may run: every tensor that is left lies within a buffer of the problem, and is not one
 * element many times (2^40 rows of stride 0 are a valid operand, and hours of work) ---- */

static int is_small(const tg_tensor *t)
{
    const int64_t most = 1 << 20;
    int64_t elements = 1;
    for (int i = 0; i < t->ndim; i++) {
        if (t->shape[i] > most)
            return 0;
        elements *= t->shape[i];
        if (elements > most)
            return 0;
    }
    return 1;
}

static int inside(const problem *p, const tg_tensor *t)
{
    int64_t last = 0;
    for (int i = 0, compact; i < t->ndim; i++) {
        int64_t stride = 1;
        for (compact = t->ndim - 1; compact > i; compact--)
            stride *= t->shape[compact];
        if (t->shape[i] == 0)
            return 1;
        last += (t->shape[i] - 1) * (t->strides ? t->strides[i] : stride);
    }
    const unsigned char *low = (const unsigned char *)t->data + t->byte_offset;
    const unsigned char *high = low + (size_t)(last + 1) * tg_type_size(tg_type_of(t));
    for (int i = 0; i < p->nbuffers; i++)
        if (low >= p->buffer[i].base + p->guard &&
            high <= p->buffer[i].base + p->buffer[i].bytes - p->guard)
            return 1;
    return 0;
}

/* 1 if integers that a check reads (indices, targets) may reach past their buffer: no
 * caller may do that. */
static int integers_outside(const problem *p)
{
    const int64_t most = 1 << 20;
    for (int i = 0; i < p->op->ntensors; i++) {
        const tg_tensor *t = p->slot[p->op->tensor[i].slot].ptr;
        const tg_seen seen = p->op->info->args[p->op->tensor[i].slot].types->seen;
        if (!t || (seen != TG_SEEN_I64 && seen != TG_SEEN_MASK) || !t->data || !t->shape ||
            t->ndim < 0 || t->ndim > TG_MAX_NDIM)
            continue;
        for (int k = 0; k < t->ndim; k++)
            if (t->shape[k] < 0 || t->shape[k] > most ||
                (t->strides && (t->strides[k] < 0 || t->strides[k] > most)))
                return 1;
        if (!inside(p, t))
            return 1;
    }
    return 0;
}

static int may_run(const problem *p)
{
    for (int i = 0; i < p->op->ntensors; i++) {
        const tg_tensor *t = p->slot[p->op->tensor[i].slot].ptr;
        if (t && (!is_small(t) || !inside(p, t)))
            return 0;
    }
    return 1;
}

static int unchanged(const problem *p, unsigned char *const *before)
{
    for (int i = 0; i < p->nbuffers; i++)
        if (memcmp(p->buffer[i].base, before[i], p->buffer[i].bytes) != 0)
            return 0;
    return 1;
}

/* A call of the context, which knows the last form that passed, is refused with the very words of
 * the check by itself. */
static void same_words(tg_ctx *ctx, const problem *p)
{
    char alone[PB_ERROR];
    snprintf(alone, sizeof alone, "%s", tg_last_error());
    const tg_status status = tg_call(ctx, p->op->id, problem_args(p));
    EXPECT(status != TG_OK && strncmp(alone, tg_last_error(), sizeof alone - 1) == 0,
           "the check says \"%s\", the call %s, \"%s\"", alone, tg_status_name(status),
           tg_last_error());
}

static void try_one(tg_ctx *ctx, problem *p, long *refused, long *ran)
{
    if (below(2)) /* the form becomes known */
        tg_call(ctx, p->op->id, problem_args(p));
    for (int64_t k = 1 + below(3); k > 0; k--) {
        pb_tensor *t = &p->tensor[below(p->op->ntensors)];
        if (below(4) == 0)
            mutate_option(p);
        else if (below(4) == 0 && p->slot[t->decl->slot].ptr == &t->view)
            mutate_integers(t);
        else
            mutate_tensor(p, t);
    }
    if (integers_outside(p))
        return;
    unsigned char *before[PB_ARGS];
    for (int i = 0; i < p->nbuffers; i++) {
        before[i] = malloc(p->buffer[i].bytes);
        memcpy(before[i], p->buffer[i].base, p->buffer[i].bytes);
    }
    const char *name = p->op->info->name;
    tg_status status = tg_check(p->op->id, problem_args(p));
    if (status == TG_OK && may_run(p)) {
        status = tg_call(ctx, p->op->id, problem_args(p));
        ++*ran;
    } else if (status != TG_OK)
        same_words(ctx, p);
    if (status != TG_OK) {
        ++*refused;
        EXPECT(status == TG_EINVAL || status == TG_EUNSUPPORTED || status == TG_ENOMEM, "%s: %s",
               name, tg_status_name(status));
        EXPECT(status == TG_ENOMEM || strncmp(tg_last_error(), name, strlen(name)) == 0,
               "%s: the message is \"%s\"", name, tg_last_error());
        EXPECT(unchanged(p, before), "%s: refused (%s), yet something is written", name,
               tg_last_error());
    }
    for (int i = 0; i < p->nbuffers; i++)
        free(before[i]);
}

int main(int argc, char **argv)
{
    enum { TRIES = 20 /* of a problem */, MOST_BYTES = 1 << 18 };
    const long calls = argc > 1 ? atol(argv[1]) : 20000;
    state = argc > 2 ? strtoull(argv[2], NULL, 10) : 20261121;
    printf("seed %llu\n", (unsigned long long)state);
    char error[PB_ERROR];
    const catalogue *cat = catalogue_get(error);
    if (!cat || !cat->nops) {
        printf("no problems: %s\n", cat ? "the catalogue is empty" : error);
        return 1;
    }
    tg_ctx *ctx = new_context();
    long refused = 0, ran = 0;
    while (refused + ran < calls && failures < 20) {
        const pb_op *op = &cat->ops[below(cat->nops)];
        const pb_case *c = &cat->cases[below(cat->ncases)];
        const int types[] = {TG_F32, TG_BF16, TG_F16};
        const int type = types[below(3)];
        if (!pb_same_group(c->group, op->group) || c->bench || !pb_case_takes(c, type))
            continue;
        const pb_options options = {.type = type,
                                    .seed = next(),
                                    .saved = PB_SAVED_CALL,
                                    .ctx = ctx,
                                    .guard = 64,
                                    .most = MOST_BYTES};
        problem *p = problem_create(cat, op, c, &options, error);
        for (int tries = 0; p && tries < TRIES; tries++) {
            const problem valid = *p;
            try_one(ctx, p, &refused, &ran);
            *p = valid;
            problem_reset(p);
        }
        problem_free(p);
    }
    EXPECT(refused > 100 && ran > 10, "%ld refused, %ld ran: too few to mean anything", refused,
           ran);
    printf("%ld refused, %ld ran\n", refused, ran);
    tg_ctx_destroy(ctx);
    return report();
}
