/* parallel_for. The only file that knows OpenMP. */
#include <omp.h>
#include <pthread.h>
#include <unistd.h>

#include "core/core.h"
#include "core/parts.h"

/* This thread called fork() and is the child's first: its team of OpenMP's
 * threads stayed behind. */
static _Thread_local int team_is_lost;

void tg_threads_after_fork(void)
{
    team_is_lost = 1;
    omp_set_num_threads(1); /* for libraries with OpenMP of their own, and for new contexts */
}

enum { MOST_SHARES = 64, LINE = 64 /* bytes of the cache's lines */ };

/* Chunks that are one worker's first of all. */
typedef struct share {
    _Alignas(LINE) atomic_llong next;
    int64_t end;
} share;

typedef struct job {
    tg_range_fn fn;
    void *arg;
    int64_t n, grain;
    int shares;
    share share[MOST_SHARES];
} job;

static void take_chunks(const job *j, share *s, int worker)
{
    while (atomic_load_explicit(&s->next, memory_order_relaxed) < s->end) {
        const int64_t chunk = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed);
        const int64_t begin = chunk * j->grain;
        if (chunk < s->end)
            j->fn(j->arg, begin, j->n - begin < j->grain ? j->n : begin + j->grain, worker);
    }
}

/* Takes chunks until none is left: first the worker's own, which follow each other, so that what
 * one chunk has read is in its cache for the next, then what others have left. Libraries that use
 * OpenMP by themselves (oneDNN) stay on this thread. */
static void work(void *arg, int worker)
{
    job *j = arg;
    const int outside = !omp_in_parallel();
    const int threads = outside ? omp_get_max_threads() : 1;
    if (outside && threads != 1)
        omp_set_num_threads(1);
    for (int i = 0; i < j->shares; i++)
        take_chunks(j, &j->share[(worker + i) % j->shares], worker);
    if (outside && threads != 1)
        omp_set_num_threads(threads);
}

/* Threads of this thread's last team: its next one needs no memory for them. */
static _Thread_local int team;

/* 0 if there may be no memory for a larger team. OpenMP's library takes it when a thread first
 * needs a team of so many, and ends the process if there is none. */
static int team_fits(int threads)
{
    enum { BESIDE = 1 << 20 /* bytes of a thread beside its stack */ };
    size_t stack = (size_t)8 << 20;
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) == 0) {
        pthread_attr_getstacksize(&attr, &stack);
        pthread_attr_destroy(&attr);
    }
    return tg_memory_is_left((size_t)threads * (stack + BESIDE));
}

/* The team is always the whole one: libgomp ends the threads that a smaller one leaves over, and
 * makes them anew for the next that is larger. */
static void run_openmp(int threads, job *j)
{
    team = threads;
#pragma omp parallel for schedule(static, 1) num_threads(threads)
    for (int i = 0; i < threads; i++)
        work(j, i);
}

void tg_parallel_for(tg_ctx *ctx, int64_t n, int64_t grain, tg_range_fn fn, void *arg)
{
    if (n <= 0)
        return;
    if (grain < 1)
        grain = 1;
    const int64_t chunks = (n - 1) / grain + 1;
    const int workers = chunks < ctx->threads ? (int)chunks : ctx->threads;
    job j;
    j.fn = fn;
    j.arg = arg;
    j.n = n;
    j.grain = grain;
    j.shares = workers < MOST_SHARES ? workers : MOST_SHARES;
    for (int i = 0; i < j.shares; i++) {
        atomic_init(&j.share[i].next, chunks * i / j.shares);
        j.share[i].end = chunks * (i + 1) / j.shares;
    }
    if (workers <= 1 || (team_is_lost && !ctx->executor))
        work(&j, 0);
    else if (ctx->executor)
        ctx->executor(ctx->executor_user, workers, work, &j);
    else if (TG_LIKELY(ctx->threads <= team) || team_fits(ctx->threads))
        run_openmp(ctx->threads, &j);
    else
        work(&j, 0); /* which takes the shares of all; the results are the same */
}

int tg_processors(void)
{
    static atomic_int known;
    int n = atomic_load_explicit(&known, memory_order_relaxed);
    if (n == 0) {
        const long online = sysconf(_SC_NPROCESSORS_ONLN);
        n = online > 0 ? (int)online : 1;
        atomic_store_explicit(&known, n, memory_order_relaxed);
    }
    return n;
}

int tg_default_threads(void)
{
    return omp_get_max_threads();
}
