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
enum { TYPES = 1, BACKENDS = 1, MAX_MEMORY = 1 << 20 };
#elif defined \
    __SANITIZE_ADDRESS__ /* small: every implementation of every case sees its memory guarded */
enum { TYPES = 3, BACKENDS = 3, MAX_MEMORY = 1 << 18 };
#else
enum { TYPES = 3, BACKENDS = 2, MAX_MEMORY = 16 << 20 };
#endif
enum { COUNTS = 2 };
static const int counts[COUNTS] = {1, 7}; /* of threads; the checker tries two */

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
        if (!strncmp(tg_ctx_last_impl(ctx), "ref/", 4)) /* it has no threads */
            break;
    }
    free(first);
    free(again);
}

typedef struct walk {
    const catalogue *cat;
    tg_ctx *ctx;
    size_t most; /* bytes of a problem */
    int step, seen, ran;
} walk;

/* A case in one type, made once for all backends. */
static void walk_case(walk *w, const pb_op *op, const pb_case *c, int type)
{
    static const char *const backends[] = {"cpu", "unfused,ref", "ref"};
    const pb_options options = {.type = type,
                                .seed = 1,
                                .saved = PB_SAVED_CALL,
                                .ctx = w->ctx,
                                .guard = 64,
                                .most = w->most};
    char error[PB_ERROR] = "";
    problem *p = NULL;
    for (int i = 0; i < BACKENDS; i++) {
        if (w->seen++ % w->step != 0)
            continue;
        p = p ? p : problem_create(w->cat, op, c, &options, error);
        EXPECT(p || !*error, "%s %s: %s", op->info->name, c->text, error);
        if (!p)
            continue;
        tg_ctx_set_impl(w->ctx, backends[i]);
        compare(w->ctx, p, backends[i]);
        tg_ctx_set_impl(w->ctx, NULL);
        w->ran++;
    }
    problem_free(p);
}

int main(int argc, char **argv)
{
    static const int types[] = {TG_F32, TG_BF16, TG_F16};
    char error[PB_ERROR] = "the catalogue is empty";
    walk w = {.cat = catalogue_get(error), .ctx = new_context()};
    w.most = argc > 1 ? (size_t)strtoull(argv[1], NULL, 10) : MAX_MEMORY;
    w.step = argc > 2 ? atoi(argv[2]) : 1;
    mode = float_mode();
    tg_ctx_set_executor(w.ctx, run_on_pthreads, NULL);
    for (int i = 0; w.cat && i < w.cat->nops; i++)
        for (int k = 0; k < w.cat->ncases * TYPES; k++) {
            const pb_op *op = &w.cat->ops[i];
            const pb_case *c = &w.cat->cases[k / TYPES];
            const int type = types[k % TYPES];
            if (pb_case_is_for(op, c) && pb_case_takes(c, type) &&
                (!c->bench || !strcmp(c->bench, "small")))
                walk_case(&w, op, c, type);
        }
    EXPECT(w.ran > 0, "no problem ran: %s", error);
    tg_ctx_destroy(w.ctx);
    printf("%d problems\n", w.ran);
    return report();
}
