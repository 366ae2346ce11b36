/* tg_parallel_for: each index once, in chunks that begin at multiples of the grain, whatever
 * workers there are and whenever they come; OpenMP has one thread meanwhile, for libraries that use
 * it themselves, and afterwards as many as before. */
#include <dlfcn.h>
#include <stdatomic.h>

#include "../common/test.h"
#include "tigon/backend.h"

enum { MOST = 1000 };

typedef struct record {
    int64_t n, grain;
    int workers;
    atomic_int times[MOST], wrong;
} record;

static void note(void *arg, int64_t begin, int64_t end, int worker)
{
    record *r = arg;
    if (begin % r->grain || (end != begin + r->grain && end != r->n) || begin >= end ||
        end > r->n || worker < 0 || worker >= r->workers)
        r->wrong++;
    for (int64_t i = begin; i < end && i < MOST; i++)
        r->times[i]++;
}

static void backwards(void *user, int tasks, void (*task)(void *, int), void *arg)
{
    (void)user;
    for (int i = tasks - 1; i >= 0; i--)
        task(arg, i);
}

static void first_comes_last(void *user, int tasks, void (*task)(void *, int), void *arg)
{
    (void)user;
    for (int i = 0; i < tasks; i++)
        task(arg, (i + 1) % tasks);
}

static void cover(tg_ctx *ctx, int workers, int64_t n, int64_t grain)
{
    static record r;
    memset(&r, 0, sizeof r);
    r.n = n;
    r.grain = grain;
    r.workers = workers;
    tg_parallel_for(ctx, n, grain, note, &r);
    int wrong = r.wrong;
    for (int64_t i = 0; i < MOST; i++)
        wrong += r.times[i] != (i < n);
    EXPECT(!wrong, "%d threads, %lld indices, grain %lld: %d are wrong", workers, (long long)n,
           (long long)grain, wrong);
}

/* ---- the caller's OpenMP ---- */

static int (*openmp_threads)(void), (*openmp_in_parallel)(void);
static void (*openmp_set_threads)(int);

static void *openmp(const char *name)
{
    void *function = dlsym(RTLD_DEFAULT, name);
    EXPECT(function, "%s", dlerror());
    return function;
}

/* Beside a team of ours libraries get none of their own. */
static void note_openmp(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)begin, (void)end, (void)worker;
    if (!openmp_in_parallel() && openmp_threads() != 1)
        ++*(atomic_int *)arg;
}

static void openmp_stays(tg_ctx *ctx, tg_executor executor, int threads)
{
    atomic_int wrong = 0;
    tg_ctx_set_executor(ctx, executor, NULL);
    tg_ctx_set_threads(ctx, threads);
    for (int before = 1; before < 6; before += 2)
        for (int64_t n = 0; n < 9; n += 4) {
            openmp_set_threads(before);
            tg_parallel_for(ctx, n, 1, note_openmp, &wrong);
            EXPECT(openmp_threads() == before,
                   "OpenMP has %d threads after a call on %d, expected %d", openmp_threads(),
                   threads, before);
        }
    EXPECT(!wrong, "a library that OpenMP runs has several threads in %d tasks", wrong);
}

int main(void)
{
    static const int workers[] = {1, 2, 3, 16, 63, 64, 65, 200};
    static const int64_t sizes[] = {0, 1, 2, 15, 16, 17, 63, 64, 65, 66, 129, 199, 200, 201, MOST};
    const tg_executor executors[] = {NULL, backwards, first_comes_last};
    tg_ctx *ctx;
    if (tg_ctx_create(&ctx))
        return 1;
    for (size_t e = 0; e < sizeof executors / sizeof *executors; e++) {
        tg_ctx_set_executor(ctx, executors[e], NULL);
        for (size_t w = 0; w < sizeof workers / sizeof *workers; w++) {
            tg_ctx_set_threads(ctx, workers[w]);
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
                for (int64_t grain = 1; grain < 20; grain += 6)
                    cover(ctx, workers[w], sizes[s], grain);
        }
    }
    *(void **)&openmp_threads = openmp("omp_get_max_threads");
    *(void **)&openmp_in_parallel = openmp("omp_in_parallel");
    *(void **)&openmp_set_threads = openmp("omp_set_num_threads");
    for (size_t e = 0; !failures && e < sizeof executors / sizeof *executors; e++)
        for (int threads = 1; threads < 4; threads++)
            openmp_stays(ctx, executors[e], threads);
    tg_ctx_destroy(ctx);
    return report();
}
