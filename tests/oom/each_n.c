/* Every allocation fails once: the n-th one of creating a context and running an operator, for n = 1, 2, ... until all is
 * well. Each failure is TG_ENOMEM with a message, leaks nothing (the sanitizer build tells), and rows of `cpu` have not
 * written any output. The linker wraps the allocators (--wrap). */
#include <errno.h>
#include <stdint.h>

#include "../common/test.h"
#include "problem.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *text);

static long countdown = -1; /* allocations until one fails; negative: none fails */

static int fails(void)
{
    if (countdown < 0 || countdown-- > 0)
        return 0;
    errno = ENOMEM;
    return 1;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    return fails() ? NULL : __real_realloc(p, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : __real_aligned_alloc(alignment, size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

static int unchanged(const problem *p)
{
    for (int i = 0; i < p->nbuffers; i++)
        if (memcmp(p->buffer[i].base, p->buffer[i].initial, p->buffer[i].bytes) != 0)
            return 0;
    return 1;
}

static tg_status run(const problem *p, const char *backend)
{
    tg_ctx *ctx;
    tg_status status = tg_ctx_create(&ctx);
    if (status != TG_OK)
        return status;
    tg_ctx_set_threads(ctx, 2);
    status = tg_ctx_set_impl(ctx, backend);
    if (status == TG_OK)
        status = tg_call(ctx, p->op->id, problem_args(p));
    tg_ctx_destroy(ctx);
    return status;
}

static int fail_each(problem *p, const char *backend)
{
    for (long n = 0; n < 10000; n++) {
        problem_reset(p);
        countdown = n;
        const tg_status status = run(p, backend);
        const int spared = countdown >= 0; /* the n-th allocation never came */
        countdown = -1;
        if (spared) {
            EXPECT(status == TG_OK, "%s/%s: %s", backend, p->op->info->name, tg_last_error());
            return (int)n;
        }
        EXPECT(status == TG_ENOMEM || status == TG_OK,
               "%s/%s: allocation %ld failed: %s, expected TG_ENOMEM", backend, p->op->info->name,
               n, tg_status_name(status));
        EXPECT(status == TG_OK || *tg_last_error(), "%s: no message", p->op->info->name);
        EXPECT(status == TG_OK || strcmp(backend, "cpu") != 0 || unchanged(p),
               "%s/%s: allocation %ld failed, yet outputs are written", backend, p->op->info->name,
               n);
    }
    return -1;
}

int main(void)
{
    static const char *const backends[] = {"cpu", "ref", "unfused"};
    char error[PB_ERROR];
    const catalogue *cat = catalogue_get(error);
    int total = 0;
    for (int i = 0; cat && i < cat->nops * 3; i++) {
        const pb_op *op = &cat->ops[i / 3];
        const char *backend = backends[i % 3];
        tg_ctx *ctx = new_context();
        const pb_case *best = NULL; /* the largest of moderate size: several chunks */
        size_t most = 0;
        for (int k = 0; k < cat->ncases; k++) {
            const pb_case *c = &cat->cases[k];
            if (!pb_case_is_for(op, c) || c->bench || !pb_case_takes(c, TG_BF16))
                continue;
            const pb_options options = {
                .type = TG_BF16, .seed = 1, .saved = PB_SAVED_CALL, .ctx = ctx, .guard = 64};
            problem *p = problem_create(cat, op, c, &options, error);
            if (p && problem_memory(p) >= most && problem_memory(p) < 1u << 20) {
                most = problem_memory(p);
                best = c;
            }
            problem_free(p);
        }
        EXPECT(best, "%s: no case", op->info->name);
        const pb_options options = {
            .type = TG_BF16, .seed = 1, .saved = PB_SAVED_CALL, .ctx = ctx, .guard = 64};
        problem *p = best ? problem_create(cat, op, best, &options, error) : NULL;
        EXPECT(p, "%s: %s", op->info->name, error);
        if (p)
            total += fail_each(p, backend);
        problem_free(p);
        tg_ctx_destroy(ctx);
    }
    EXPECT(total > 0, "no allocation failed: %s", cat ? "the catalogue is empty" : error);
    printf("%d allocations failed\n", total);
    return report();
}
