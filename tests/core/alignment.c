/* Results do not depend on where memory lies: every operator's cases by the CPU's
 * implementations, with a workspace from an allocator that aligns to 16 bytes, and with tensors
 * at other addresses. */
#include <math.h>
#include <stdint.h>

#include "../common/test.h"
#include "problem/problem.h"

enum { MOST = 1 << 14 /* bytes of a problem */, ALIGNED = 64, OFF = 16 };

/* ---- an allocator whose addresses are 16 behind a multiple of 64 ---- */

static long live;

static void *alloc_off(void *user, size_t bytes)
{
    (void)user;
    char *p = aligned_alloc(ALIGNED, (OFF + bytes + ALIGNED - 1) / ALIGNED * ALIGNED);
    live += p != NULL;
    return p ? p + OFF : NULL;
}

static void free_off(void *user, void *p)
{
    (void)user;
    live--;
    EXPECT((uintptr_t)p % ALIGNED == OFF, "%p was not given", p);
    free((char *)p - OFF);
}

/* ---- the comparison ---- */

static int compared, streams;

/* What is written past the caches may be added up in another order, from the first whole
 * line of memory on. */
static int same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b)) || (streams && fabs(a - b) <= 1e-5 * fabs(a));
}

static void compare(const problem *p, const problem *q, const char *impl)
{
    for (int i = 0; i < p->op->ntensors; i++) {
        const pb_tensor *t = &p->tensor[i], *u = &q->tensor[i];
        const int64_t n = t->present && t->written ? tg_numel(&t->view) : 0;
        int64_t k = 0;
        while (k < n && same(pb_get(t, k), pb_get(u, k)))
            k++;
        EXPECT(k == n, "%s %s, \"%s\": %s[%lld] is %.9g, in memory that is aligned less %.9g", impl,
               tg_type_name(p->type), p->c->text, t->decl->name, (long long)k, pb_get(t, k),
               pb_get(u, k));
    }
    compared++;
}

static problem *problem_of(const catalogue *cat, const pb_op *op, const pb_case *c, int type,
                           tg_ctx *ctx, int hollow)
{
    char error[PB_ERROR];
    const pb_options options = {.type = type,
                                .seed = 1,
                                .saved = PB_SAVED_CALL,
                                .ctx = ctx,
                                .guard = ALIGNED,
                                .hollow = hollow};
    problem *p = problem_create(cat, op, c, &options, error);
    EXPECT(p, "%s %s: %s", op->info->name, c->text, error);
    return p;
}

/* What p holds at first. */
static void run(tg_ctx *ctx, int impl, problem *p, problem *q)
{
    problem_reset(p);
    for (int i = 0; p != q && i < p->op->ntensors; i++)
        if (p->tensor[i].present)
            pb_copy(&q->tensor[i], &p->tensor[i]);
    EXPECT(problem_run_impl(ctx, impl, q) == TG_OK, "%s", tg_last_error());
}

static void check_case(const catalogue *cat, const pb_op *op, const pb_case *c, int type,
                       tg_ctx *ctx[2])
{
    problem *q = problem_of(cat, op, c, type, ctx[0], 1);
    problem *p = q && problem_memory(q) <= MOST ? problem_of(cat, op, c, type, ctx[0], 0) : NULL;
    for (int i = 0; p && i < op->ntensors; i++)
        q->tensor[i].view.byte_offset += OFF; /* into the guard behind it */
    for (int i = 0; p && tg_impl_at(i); i++) {
        if (tg_impl_at(i)->op != op->id || strcmp(tg_impl_at(i)->backend, "cpu") ||
            !problem_impl_accepts(ctx[0], i, p))
            continue;
        run(ctx[1], i, p, q);
        run(ctx[0], i, p, p);
        compare(p, q, tg_impl_at(i)->full_name);
    }
    problem_free(p);
    problem_free(q);
}

static void check_cases(const catalogue *cat, tg_ctx *ctx[2])
{
    static const int types[] = {TG_F32, TG_BF16, TG_F16};
    for (int k = 0; k < cat->ncases * cat->nops * 3; k++) {
        const pb_op *op = &cat->ops[k / 3 / cat->ncases];
        const pb_case *c = &cat->cases[k / 3 % cat->ncases];
        if (pb_case_is_for(op, c) && !c->bench && pb_case_takes(c, types[k % 3]))
            check_case(cat, op, c, types[k % 3], ctx);
    }
}

int main(void)
{
    char error[PB_ERROR];
    const catalogue *cat = catalogue_get(error);
    tg_ctx *ctx[] = {new_context(), new_context()};
    for (int i = 0; i < 2; i++)
        tg_ctx_set_threads(ctx[i], 1);
    EXPECT(tg_ctx_set_allocator(ctx[1], alloc_off, free_off, NULL) == TG_OK, "%s", tg_last_error());
    for (streams = 0; cat && streams < 2; streams++) {
        EXPECT(!streams || tg_tune("stream=0") == TG_OK, "%s", tg_last_error());
        check_cases(cat, ctx);
    }
    EXPECT(compared > 0, "no problem ran: %s", cat ? "the catalogue is empty" : error);
    tg_ctx_destroy(ctx[0]);
    tg_ctx_destroy(ctx[1]);
    EXPECT(live == 0, "%ld blocks were not given back", live);
    printf("%d comparisons\n", compared);
    return report();
}
