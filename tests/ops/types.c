/* An argument means the same in every type that it may have. Of every operator's cases, in f32:
 *   `ref` gives, rounded, what it gives where all floating tensors are f64, which holds the same
 *   numbers; `cpu` and `ref` give the same bits where an input that may have another type than T
 *   has it, and the same numbers. */
#include <math.h>

#include "../common/test.h"
#include "problem/problem.h"

enum { MOST = 1 << 14 /* bytes of a problem */ };

static int compared;

static problem *problem_of(const catalogue *cat, const pb_op *op, const pb_case *c, tg_ctx *ctx)
{
    char error[PB_ERROR];
    const pb_options options = {.type = TG_F32, .seed = 1, .saved = PB_SAVED_CALL, .ctx = ctx};
    problem *p = problem_create(cat, op, c, &options, error);
    EXPECT(p, "%s %s: %s", op->info->name, c->text, error);
    return p;
}

/* Some roundings to f32 that a definition may ask for on the way, and the last one. */
static double allowed(int type, const pb_tensor *wide)
{
    const double unit = type == TG_BF16 ? 0x1p-8 : type == TG_F16 ? 0x1p-11 : 0x1p-24;
    double most = 0;
    for (int64_t i = 0; i < tg_numel(&wide->view); i++)
        most = fmax(most, isfinite(pb_get(wide, i)) ? fabs(pb_get(wide, i)) : 0);
    return 2 * unit * most + 16 * 0x1p-24 * most;
}

static int near(int type, double narrow, double wide, double within)
{
    const double rounded = pb_round(type, wide);
    return narrow == rounded || (isnan(narrow) && isnan(rounded)) ||
           fabs(narrow - rounded) <= within;
}

static void compare_wide(tg_ctx *ctx, problem *p)
{
    char error[PB_ERROR];
    const char *op = p->op->info->name;
    problem *wide = problem_convert(p, TG_F64, error);
    EXPECT(wide, "%s %s: %s", op, p->c->text, error);
    EXPECT(problem_call(ctx, p) == TG_OK && problem_call(ctx, wide) == TG_OK, "%s %s: %s", op,
           p->c->text, tg_last_error());
    for (int i = 0; i < p->op->ntensors; i++) {
        const pb_tensor *t = &p->tensor[i], *w = &wide->tensor[i];
        const int64_t n = t->present && t->written ? tg_numel(&t->view) : 0;
        const double within = n ? allowed(tg_type_of(&t->view), w) : 0;
        int64_t k = 0;
        while (k < n && near(tg_type_of(&t->view), pb_get(t, k), pb_get(w, k), within))
            k++;
        EXPECT(k == n, "ref/%s, \"%s\": %s[%lld] is %g, in f64 %g", op, p->c->text, t->decl->name,
               (long long)k, pb_get(t, k), pb_get(w, k));
    }
    compared++;
    problem_free(wide);
}

/* Both have the numbers of `narrow`, which has an input in 16 bits. */
static void compare_bits(tg_ctx *ctx, problem *p, problem *narrow, const char *backend,
                         const char *name)
{
    tg_ctx_set_impl(ctx, backend);
    problem_reset(p);
    problem_reset(narrow);
    for (int i = 0; i < p->op->ntensors; i++)
        if (p->tensor[i].present && p->tensor[i].read)
            pb_copy(&p->tensor[i], &narrow->tensor[i]);
    if (problem_call(ctx, narrow) == TG_OK) {
        EXPECT(problem_call(ctx, p) == TG_OK, "%s", tg_last_error());
        for (int i = 0; i < p->op->ntensors; i++) {
            const pb_tensor *t = &p->tensor[i], *w = &narrow->tensor[i];
            const int64_t n = t->present && t->written ? tg_numel(&t->view) : 0;
            int64_t k = 0;
            while (k < n && (pb_get(t, k) == pb_get(w, k) || isnan(pb_get(w, k))))
                k++;
            EXPECT(k == n, "%s/%s, \"%s\": %s[%lld] is %g, with %s in 16 bits %g", backend,
                   p->op->info->name, p->c->text, t->decl->name, (long long)k, pb_get(t, k), name,
                   pb_get(w, k));
        }
        compared++;
    }
    tg_ctx_set_impl(ctx, NULL);
}

static int has_own_type(const tg_type_rule *rule)
{
    const int *type = rule->types;
    while (*type && *type != TG_BF16)
        type++;
    return *type && rule->with != TG_WITH_T;
}

/* Each input that may have a type of its own. */
static void vary_types(const catalogue *cat, tg_ctx *ctx, problem *p)
{
    static const char *const types[] = {"bf16", "f16"}, *const backends[] = {"cpu", "ref"};
    for (int i = 0; i < 2 * p->op->ntensors; i++) {
        const pb_tensor *t = &p->tensor[i / 2];
        if (!t->present || t->written || tg_type_of(&t->view) != TG_F32 ||
            !has_own_type(p->op->info->args[t->decl->slot].types))
            continue;
        pb_case c = *p->c;
        pb_case_add(&c, PB_TYPE, t->decl->name, types[i % 2]);
        problem *narrow = problem_of(cat, p->op, &c, ctx);
        if (narrow && tg_check(p->op->id, problem_args(narrow)) == TG_OK)
            for (int k = 0; k < 2; k++)
                compare_bits(ctx, p, narrow, backends[k], t->decl->name);
        problem_free(narrow);
    }
}

int main(void)
{
    char error[PB_ERROR];
    const catalogue *cat = catalogue_get(error);
    tg_ctx *ctx = new_context();
    for (int k = 0; cat && k < cat->ncases * cat->nops; k++) {
        const pb_op *op = &cat->ops[k / cat->ncases];
        const pb_case *c = &cat->cases[k % cat->ncases];
        if (!pb_case_is_for(op, c) || c->bench || !pb_case_takes(c, TG_F32))
            continue;
        problem *p = problem_of(cat, op, c, ctx);
        if (p && problem_memory(p) <= MOST) {
            vary_types(cat, ctx, p);
            tg_ctx_set_impl(ctx, "ref");
            problem_reset(p);
            compare_wide(ctx, p);
            tg_ctx_set_impl(ctx, NULL);
        }
        problem_free(p);
    }
    EXPECT(compared > 0, "no problem ran: %s", cat ? "the catalogue is empty" : error);
    tg_ctx_destroy(ctx);
    printf("%d comparisons\n", compared);
    return report();
}
