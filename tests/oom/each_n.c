/* Every allocation fails once: the n-th one of creating a context and running an operator, for n =
 * 1, 2, ... until all is well. Each failure is TG_ENOMEM with a message that names the operator,
 * leaks nothing (the sanitizer build tells), and implementations of `cpu` have not written any
 * output. A call that succeeds all the same has the bits of one that missed nothing. Operators that
 * work in chunks are run in all their cases of several chunks, in f32 and bf16, with memory that
 * ends at the n-th allocation, too. The linker wraps the allocators (--wrap). */
#include <errno.h>
#include <stdint.h>

#include "../common/test.h"
#include "problem/problem.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *text);

static long countdown = -1; /* allocations until one fails; negative: none fails */
static int for_good;        /* all that follow fail, too */
static int failed;          /* one has */

static int fails(void)
{
    if (countdown < 0 || (countdown > 0 && countdown--))
        return 0;
    countdown = for_good ? 0 : -1;
    failed = 1;
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

static tg_status run(const problem *p, const char *backend, int *created)
{
    tg_ctx *ctx;
    *created = 0;
    tg_status status = tg_ctx_create(&ctx);
    if (status != TG_OK)
        return status;
    tg_ctx_set_threads(ctx, 2);
    status = tg_ctx_set_impl(ctx, backend);
    if (status == TG_OK) {
        *created = 1;
        status = tg_call(ctx, p->op->id, problem_args(p));
    }
    tg_ctx_destroy(ctx);
    return status;
}

/* What the buffers hold after a run in which nothing fails, one behind the other. */
static unsigned char *results_of(problem *p, const char *backend)
{
    size_t bytes = 1;
    int created;
    for (int i = 0; i < p->nbuffers; i++)
        bytes += p->buffer[i].bytes;
    unsigned char *results = malloc(bytes), *at = results;
    problem_reset(p);
    EXPECT(run(p, backend, &created) == TG_OK, "%s/%s: %s", backend, p->op->info->name,
           tg_last_error());
    for (int i = 0; i < p->nbuffers; at += p->buffer[i++].bytes)
        memcpy(at, p->buffer[i].base, p->buffer[i].bytes);
    return results;
}

static int same_bits(const problem *p, const unsigned char *results)
{
    for (int i = 0; i < p->nbuffers; results += p->buffer[i++].bytes)
        if (memcmp(p->buffer[i].base, results, p->buffer[i].bytes) != 0)
            return 0;
    return 1;
}

static int names(const char *message, const char *op)
{
    const size_t n = strlen(op);
    return strncmp(message, op, n) == 0 && message[n] == ':';
}

static int fail_each(problem *p, const char *backend)
{
    const char *op = p->op->info->name;
    const int cpu = strcmp(backend, "cpu") == 0;
    unsigned char *results = results_of(p, backend);
    int created, n = -1;
    do {
        problem_reset(p);
        failed = 0;
        countdown = ++n;
        const tg_status status = run(p, backend, &created);
        countdown = -1;
        EXPECT(status == TG_OK || (failed && status == TG_ENOMEM),
               "%s/%s: allocation %d failed: %s, expected TG_ENOMEM", backend, op, n,
               tg_status_name(status));
        EXPECT(status == TG_OK || (created ? names(tg_last_error(), op) : *tg_last_error()),
               "%s/%s: the message is '%s'", backend, op, tg_last_error());
        EXPECT(status == TG_OK || !cpu || unchanged(p),
               "%s/%s \"%s\": allocation %d failed, yet outputs are written", backend, op,
               p->c->text, n);
        EXPECT(status != TG_OK || same_bits(p, results),
               "%s/%s \"%s\": allocation %d failed, the call succeeded with other bits", backend,
               op, p->c->text, n);
    } while (failed && n < 10000);
    free(results);
    return n;
}

static int fail_case(const catalogue *cat, const pb_op *op, const pb_case *c, int type,
                     const char *backend)
{
    char error[PB_ERROR];
    tg_ctx *ctx = new_context();
    const pb_options options = {
        .type = type, .seed = 1, .saved = PB_SAVED_CALL, .ctx = ctx, .guard = 64};
    problem *p = problem_create(cat, op, c, &options, error);
    EXPECT(p, "%s: %s", op->info->name, error);
    const int n = p ? fail_each(p, backend) : 0;
    problem_free(p);
    tg_ctx_destroy(ctx);
    return n;
}

/* All of the backends run it: unfused leaves some options to others. */
static int is_for_all(tg_ctx *ctx, const problem *p)
{
    char name[128];
    snprintf(name, sizeof name, "unfused/%s", p->op->info->name);
    const int impl = tg_find(ctx, name);
    return impl < 0 || tg_impl_accepts(ctx, impl, problem_args(p));
}

/* The largest case of moderate size. */
static const pb_case *large_case(const catalogue *cat, const pb_op *op)
{
    char error[PB_ERROR];
    const pb_case *best = NULL;
    size_t most = 0;
    tg_ctx *ctx = new_context();
    const pb_options options = {.type = TG_BF16,
                                .seed = 1,
                                .saved = PB_SAVED_CALL,
                                .ctx = ctx,
                                .guard = 64,
                                .most = 1 << 20};
    for (int k = 0; k < cat->ncases; k++) {
        const pb_case *c = &cat->cases[k];
        if (!pb_case_is_for(op, c) || c->bench || !pb_case_takes(c, TG_BF16))
            continue;
        problem *p = problem_create(cat, op, c, &options, error);
        if (p && is_for_all(ctx, p) && problem_memory(p) >= most) {
            most = problem_memory(p);
            best = c;
        }
        problem_free(p);
    }
    tg_ctx_destroy(ctx);
    EXPECT(best, "%s: no case", op->info->name);
    return best;
}

static int fail_in_chunks(const catalogue *cat, const pb_op *op)
{
    static const int types[] = {TG_F32, TG_BF16};
    int total = 0;
    for (int k = 0; k < cat->ncases * 4; k++) {
        const pb_case *c = &cat->cases[k / 4];
        const int type = types[k % 2];
        if (!pb_case_is_for(op, c) || c->bench || !pb_case_takes(c, type) ||
            pb_case_value(c, "chunk_bytes") == 0)
            continue;
        for_good = k / 2 % 2;
        total += fail_case(cat, op, c, type, "cpu");
    }
    for_good = 0;
    return total;
}

int main(void)
{
    static const char *const backends[] = {"cpu", "ref", "unfused"};
    char error[PB_ERROR];
    const catalogue *cat = catalogue_get(error);
    int total = 0, chunks = 0;
    for (int i = 0; cat && i < cat->nops; i++) {
        const pb_op *op = &cat->ops[i];
        const pb_case *large = large_case(cat, op);
        for (int k = 0; large && k < 3; k++)
            total += fail_case(cat, op, large, TG_BF16, backends[k]);
        chunks += fail_in_chunks(cat, op);
    }
    EXPECT(total > 0 && chunks > 0, "no allocation failed: %s",
           cat ? "the catalogue is empty" : error);
    printf("%d allocations failed, %d of them in calls of several chunks\n", total + chunks,
           chunks);
    return report();
}
