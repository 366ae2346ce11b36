/* The same bits for any number of threads, on an executor of pthreads: every operator, every case
 * of its family. And what each call leaves behind: no workspace in use, the caller's signals,
 * floating-point mode and matrix units as they were.
 *   threads_same_bits [BYTES [STEP]]    each STEP-th of the problems that take less memory than
 *                                       that */
#include <pthread.h>
#include <signal.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "../common/test.h"
#include "executor.h"
#include "problem/problem.h"

/* A race depends on how work is cut, not on the type of elements, and ThreadSanitizer is slow. */
#ifdef __SANITIZE_THREAD__
enum { TYPES = 1, BACKENDS = 1, COUNTS = 2, MAX_MEMORY = 1 << 20 };
#elif defined \
    __SANITIZE_ADDRESS__ /* small: every implementation of every case sees its memory guarded */
enum { TYPES = 3, BACKENDS = 3, COUNTS = 2, MAX_MEMORY = 1 << 18 };
#else
enum { TYPES = 3, BACKENDS = 2, COUNTS = 3, MAX_MEMORY = 16 << 20 };
#endif
static const int counts[] = {1, 7, 2}; /* of threads; the first COUNTS are tried */

/* ---- what a call leaves behind ---- */

/* What instructions on floats do, of the thread. */
static unsigned float_mode(void)
{
#if defined(__x86_64__)
    unsigned mode;
    __asm__("stmxcsr %0" : "=m"(mode));
    return mode & 0xffc0u; /* without the flags of what has happened */
#else
    return 0;
#endif
}

/* 1 if tiles of a matrix unit hold data: each switch of threads would save them. */
static unsigned tiles_in_use(void)
{
#if defined(__x86_64__)
    enum { KNOWS_WHAT_IS_IN_USE = 4, TILE_DATA = 1 << 18 };
    unsigned a = 0, b, c, d;
    if (!__get_cpuid_count(13, 1, &a, &b, &c, &d) || !(a & KNOWS_WHAT_IS_IN_USE))
        return 0;
    __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(1));
    return (a & TILE_DATA) != 0;
#else
    return 0;
#endif
}

static int signals_held(void)
{
    sigset_t held;
    int count = 0;
    pthread_sigmask(SIG_SETMASK, NULL, &held);
    for (int number = 1; number < 32; number++)
        count += sigismember(&held, number) > 0;
    return count;
}

static unsigned mode; /* before all calls */

static void expect_nothing_left(tg_ctx *ctx, const problem *p, const char *backend)
{
    tg_ctx_workspace_reset_peak(ctx);
    EXPECT(tg_ctx_workspace_peak(ctx) == 0, "%s/%s, %s: %zu bytes of workspace stay in use",
           backend, p->op->info->name, p->c->text, tg_ctx_workspace_peak(ctx));
    EXPECT(float_mode() == mode && !tiles_in_use() && !signals_held(),
           "%s/%s, %s: mode %x instead of %x, tiles %u, %d signals held", backend,
           p->op->info->name, p->c->text, float_mode(), mode, tiles_in_use(), signals_held());
}

/* ---- the comparison ---- */

static size_t total_bytes(const problem *p)
{
    size_t bytes = 0;
    for (int i = 0; i < p->nbuffers; i++)
        bytes += p->buffer[i].bytes;
    return bytes;
}

static void copy_buffers(const problem *p, unsigned char *out)
{
    for (int i = 0; i < p->nbuffers; out += p->buffer[i].bytes, i++)
        memcpy(out, p->buffer[i].base, p->buffer[i].bytes);
}

static void compare(tg_ctx *ctx, problem *p, const char *backend)
{
    const size_t bytes = total_bytes(p);
    unsigned char *first = malloc(bytes), *again = malloc(bytes);
    for (int i = 0; i < COUNTS; i++) {
        const int threads = counts[i];
        tg_ctx_set_threads(ctx, threads);
        problem_reset(p);
        const tg_status status = tg_call(ctx, p->op->id, problem_args(p));
        EXPECT(status == TG_OK, "%s %s: %s", p->op->info->name, p->c->text, tg_last_error());
        expect_nothing_left(ctx, p, backend);
        copy_buffers(p, i ? again : first);
        EXPECT(!i || memcmp(first, again, bytes) == 0,
               "%s/%s, %s: other bits on %d threads than on 1", backend, p->op->info->name,
               p->c->text, threads);
    }
    free(first);
    free(again);
}

int main(int argc, char **argv)
{
    const size_t most = argc > 1 ? (size_t)strtoull(argv[1], NULL, 10) : MAX_MEMORY;
    const int step = argc > 2 ? atoi(argv[2]) : 1;
    static const int types[] = {TG_F32, TG_BF16, TG_F16};
    static const char *const backends[] = {"cpu", "unfused,ref", "ref"};
    enum { RUNS = BACKENDS * TYPES }; /* of a case */
    char error[PB_ERROR];
    mode = float_mode();
    const catalogue *cat = catalogue_get(error);
    tg_ctx *ctx = new_context();
    tg_ctx_set_executor(ctx, run_on_pthreads, NULL);
    int count = 0, seen = 0;
    for (int i = 0; cat && i < cat->nops; i++)
        for (int k = 0; k < cat->ncases * RUNS; k++) {
            const pb_case *c = &cat->cases[k / RUNS];
            const int type = types[k % TYPES];
            const char *backend = backends[k / TYPES % BACKENDS];
            if (!pb_case_is_for(&cat->ops[i], c) || !pb_case_takes(c, type) ||
                (c->bench && strcmp(c->bench, "small") != 0))
                continue;
            if (seen++ % step != 0)
                continue;
            const pb_options options = {
                .type = type, .seed = 1, .saved = PB_SAVED_CALL, .ctx = ctx, .guard = 64};
            problem *p = problem_create(cat, &cat->ops[i], c, &options, error);
            EXPECT(p, "%s %s: %s", cat->ops[i].info->name, c->text, error);
            if (p && problem_memory(p) < most) {
                tg_ctx_set_impl(ctx, backend);
                compare(ctx, p, backend);
                tg_ctx_set_impl(ctx, NULL);
                count++;
            }
            problem_free(p);
        }
    EXPECT(count > 0, "no problem ran: %s", cat ? "the catalogue is empty" : error);
    tg_ctx_destroy(ctx);
    printf("%d problems\n", count);
    return report();
}
