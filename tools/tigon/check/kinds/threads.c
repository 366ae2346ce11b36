/* tools/tigon/check/kinds/threads.c - calls in several contexts at once, each on a thread of its
 * own: by chance, many calls long, and made to happen: one call is stopped at its first access to a
 * tensor until another has run as a whole. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "kinds.h"
#include "share/impl_device.h"

enum { THREADS = 4, BASES = 3 };

/* One thread's call. */
typedef struct job {
    trier *t;
    tg_ctx *ctx;
    const base *b;
    problem *p;
    unsigned char *bits; /* of the call by itself */
    atomic_int *stop;
    tg_status status;
    const char *differs; /* the tensor that once had other bits */
} job;

static void job_end(job *j)
{
    free(j->bits);
    problem_free(j->p);
    tg_ctx_destroy(j->ctx);
}

static int job_begin(job *j, trier *t, const base *b, int number, int threads)
{
    *j = (job){.t = t, .b = b, .ctx = kinds_context(t, threads)};
    j->p = kinds_problem(t, &b->c, b->type, (uint64_t)(t->ck->s.seed + number));
    if (j->ctx && j->p && !kinds_run(t, j->ctx, j->p))
        j->bits = bits_copy(j->p);
    return j->bits != NULL;
}

static void job_run(job *j)
{
    problem_reset(j->p);
    const tg_status status = problem_run_impl(j->ctx, j->t->impl, j->p);
    j->status = j->status ? j->status : status;
    if (!status && !j->differs && bits_differ(j->p, j->bits) >= 0)
        j->differs = bits_tensor(j->p, j->bits);
}

static int job_judge(const job *j, const char *when)
{
    if (!j->status && !j->differs)
        return 0;
    if (j->status)
        kinds_failed(j->t, &j->b->c, j->b->type, "%s a call fails: %s", when,
                     tg_status_name(j->status));
    else
        kinds_failed(j->t, &j->b->c, j->b->type, "%s %s has other bits than by itself", when,
                     j->differs);
    return -1;
}

/* ---- by chance ---- */

static void *loop(void *arg)
{
    job *j = arg;
    while (!atomic_load(j->stop))
        job_run(j);
    return NULL;
}

static void run_at_once(job *jobs, int n)
{
    pthread_t thread[THREADS];
    atomic_int stop = 0;
    int started = 0;
    for (int i = 0; i < n; i++)
        jobs[i].stop = &stop;
    while (started < n && !pthread_create(&thread[started], NULL, loop, &jobs[started]))
        started++;
    nanosleep(&(struct timespec){.tv_nsec = 60 * 1000 * 1000}, NULL);
    atomic_store(&stop, 1);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
}

/* One case with other values on each thread, or several cases. */
static void try_at_once(trier *t, const base **from, int n, int threads)
{
    job jobs[THREADS];
    int ready = 0, bad = 0;
    for (int i = 0; i < THREADS; i++)
        ready += job_begin(&jobs[i], t, from[i % n], i, threads);
    if (ready == THREADS) {
        run_at_once(jobs, THREADS);
        for (int i = 0; i < THREADS && !bad; i++)
            bad = job_judge(&jobs[i], "while others run in contexts of their own");
        if (!bad)
            kinds_passed(t);
    }
    for (int i = 0; i < THREADS; i++)
        job_end(&jobs[i]);
}

/* ---- made to happen ---- */

typedef struct meeting {
    job other;
    sem_t begin, done;
    int met;
} meeting;

static void *run_when_told(void *arg)
{
    meeting *m = arg;
    while (sem_wait(&m->begin))
        ;
    job_run(&m->other);
    sem_post(&m->done);
    return NULL;
}

/* In the stopped call. An implementation may hold a lock: then the other call waits for this
 * one, and both go on. */
static void let_other_run(void *arg)
{
    meeting *m = arg;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 200 * 1000 * 1000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    m->met = 1;
    sem_post(&m->begin);
    while (sem_timedwait(&m->done, &until) && errno == EINTR)
        ;
}

static void stop_at(job *j, int tensor, meeting *m)
{
    pthread_t thread;
    problem_reset(j->p);
    pages *g = pages_place(j->p, 0);
    if (g && !pthread_create(&thread, NULL, run_when_told, m)) {
        pages_trip(g, tensor, let_other_run, m);
        j->status = problem_run_args(j->ctx, j->t->impl, pages_args(g));
        if (!m->met)
            sem_post(&m->begin);
        pthread_join(thread, NULL);
        pages_fetch(g);
        if (!j->status && bits_differ(j->p, j->bits) >= 0)
            j->differs = bits_tensor(j->p, j->bits);
    }
    pages_free(g);
}

static void try_meeting(trier *t, const base *a, const base *b, int tensor)
{
    job j = {0};
    meeting m = {.met = 0};
    sem_init(&m.begin, 0, 0);
    sem_init(&m.done, 0, 0);
    if (job_begin(&j, t, a, 0, 1) && job_begin(&m.other, t, b, 1, 1)) {
        stop_at(&j, tensor, &m);
        if (!job_judge(&j, "while another call ran in the midst of it") &&
            !job_judge(&m.other, "in the midst of another call"))
            kinds_passed(t);
    }
    job_end(&j);
    job_end(&m.other);
    sem_destroy(&m.begin);
    sem_destroy(&m.done);
}

static void try_meetings(trier *t, const base *a, const base *b)
{
    for (int i = 0; i < t->op->ntensors; i++)
        if (!pb_case_drops(&a->c, t->op->tensor[i].name))
            try_meeting(t, a, b, i);
}

/* ---- all ---- */

/* In host memory. Not of products: libraries of them move the stack, and hold signals back
 * meanwhile (gemm_onednn.c). */
static int can_be_stopped(const trier *t)
{
    return impl_memory(t->ck->ctx, t->impl) == TG_DEVICE_CPU && !t->op->gemm;
}

void kind_threads(trier *t)
{
    const int stops = can_be_stopped(t);
    for (int k = 0; k < DATA_TYPES; k++) {
        const base *from[BASES];
        const int n = bases_of(t, data_types[k], from, BASES);
        if (!n)
            continue;
        try_at_once(t, from, n, 1);
        try_at_once(t, &from[n - 1], 1, 1);
        try_at_once(t, &from[n - 1], 1, 2);
        for (int i = 0; stops && i < n; i += 2) {
            try_meetings(t, from[i], from[n - 1]);
            try_meetings(t, from[n - 1], from[i]);
        }
    }
}
