/* The bits of all results, so that two builds can be compared: a line for each of the library's own
 * implementations on the CPU, type and case, that begins with a hash of every byte of the problem's
 * memory after the call.
 *   check_hashes [OPERATOR...]    names may be beginnings: rms_norm
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "problem/problem.h"

enum { GUARD = 64, PAGE = 4096 };

/* Every block at the beginning of a page: which elements a kernel that streams takes together
 * depends on addresses, and with that the last bits of sums. */
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    (void)alignment;
    return __real_aligned_alloc(PAGE, (size + PAGE - 1) / PAGE * PAGE);
}

/* One NaN for all: which of two NaN a sum of them gets depends on the order in which
 * the compiler adds. */
static void canonical(char *at, int type)
{
    if (pb_load(type, at) != pb_load(type, at))
        pb_store(type, at, (double)NAN);
}

static void canonical_row(void *arg, char *row, int64_t first, int64_t cols)
{
    const int type = *(const int *)arg;
    (void)first;
    for (int64_t i = 0; i < cols; i++)
        canonical(row + i * (int64_t)tg_type_size(type), type);
}

static void canonical_outputs(problem *p)
{
    for (int i = 0; i < p->op->ntensors; i++) {
        pb_tensor *t = &p->tensor[i];
        int type = t->present ? tg_type_of(&t->view) : TG_I64;
        if (t->present && t->written && type != TG_I64)
            pb_each_row(t, canonical_row, &type);
    }
}

/* FNV-1a */
static uint64_t hash_of(const problem *p)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = 0; i < p->nbuffers; i++)
        for (size_t k = 0; k < p->buffer[i].bytes; k++)
            hash = (hash ^ p->buffer[i].base[k]) * 0x100000001b3u;
    return hash;
}

static int is_wanted(const char *op, char **names)
{
    for (char **name = names; *name; name++)
        if (!strncmp(op, *name, strlen(*name)))
            return 1;
    return !*names;
}

/* An implementation of a level runs as on a processor of that level, and so does what it calls. */
static void hash_impl(tg_ctx *ctx, int number, problem *p, const char *type)
{
    const tg_impl_info *impl = tg_impl_at(number);
    const int is_cpu = !strcmp(impl->backend, "cpu") || !strcmp(impl->backend, "ref");
    if (impl->op != p->op->id || !is_cpu || !tg_impl_supported(ctx, number))
        return;
    if (tg_ctx_set_cpu_max(ctx, impl->variant))
        tg_ctx_set_cpu_max(ctx, NULL);
    problem_reset(p);
    if (problem_impl_accepts(ctx, number, p)) {
        const tg_status status = problem_run_impl(ctx, number, p);
        canonical_outputs(p);
        printf("%016llx %s %s \"%s\"%s%s\n", (unsigned long long)hash_of(p), impl->full_name, type,
               p->c->text, status ? " " : "", status ? tg_last_error() : "");
    }
    tg_ctx_set_cpu_max(ctx, NULL);
}

static int hash_case(tg_ctx *ctx, const catalogue *cat, const pb_op *op, const pb_case *c, int type)
{
    char error[PB_ERROR];
    const pb_options options = {
        .type = type, .seed = 1, .saved = PB_SAVED_REF, .ctx = ctx, .guard = GUARD};
    problem *p = problem_create(cat, op, c, &options, error);
    if (!p)
        return fprintf(stderr, "%s \"%s\": %s\n", op->info->name, c->text, error), 1;
    for (int i = 0; i < tg_impl_count(); i++)
        hash_impl(ctx, i, p, tg_type_name(type));
    problem_free(p);
    return 0;
}

int main(int argc, char **argv)
{
    static const int types[] = {TG_F32, TG_BF16, TG_F16};
    char error[PB_ERROR];
    const catalogue *cat = catalogue_get(error);
    tg_ctx *ctx;
    if (!cat || argc < 1 || tg_ctx_create(&ctx))
        return fprintf(stderr, "%s\n", cat ? tg_last_error() : error), 1;
    int failed = 0;
    for (int i = 0; i < cat->nops; i++)
        for (int k = 0; k < cat->ncases; k++) {
            const pb_op *op = &cat->ops[i];
            const pb_case *c = &cat->cases[k];
            if (!is_wanted(op->info->name, argv + 1) || !pb_case_is_for(op, c) || c->bench)
                continue;
            for (int t = 0; t < 3; t++)
                failed |= pb_case_takes(c, types[t]) && hash_case(ctx, cat, op, c, types[t]);
        }
    tg_ctx_destroy(ctx);
    return failed;
}
