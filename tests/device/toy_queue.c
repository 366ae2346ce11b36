/* toy_queue.c - the device's thread: takes one call after the other, and keeps what went
 * wrong until it is asked.
 *
 * For tests, by dlsym: toy_hold(stream) lets nothing of a stream run until toy_hold(NULL).
 * toy_window() is what the device's thread sees of its memory, when all calls have run. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "toy.h"

enum { MOST_FAULTS = 16, DELAY_NS = 20000 };

typedef struct fault {
    const tg_ctx *ctx; /* NULL: free */
    tg_status status;
    char text[256];
} fault;

static pthread_t thread;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static toy_call *first, *last, *running; /* of all streams, in the order in which they were put */
static const void *held;
static fault faults[MOST_FAULTS];
static int64_t put;   /* serial of the call that was put last */
static int64_t calls; /* that have run: the device's clock, 1 ms each */
static int closing;

/* The oldest call of the stream that was used last, of those that are not held, out of the list;
 * NULL if nothing waits there. */
static toy_call *take(void)
{
    const toy_call *newest = NULL;
    for (const toy_call *c = first; c; c = c->next)
        newest = !held || c->stream != held ? c : newest;
    if (!newest)
        return NULL;
    toy_call **at = &first, *before = NULL;
    while ((*at)->stream != newest->stream) {
        before = *at;
        at = &before->next;
    }
    toy_call *const call = *at;
    *at = call->next;
    if (last == call)
        last = before;
    return call;
}

static void *work(void *arg)
{
    (void)arg;
    prctl(PR_SET_TIMERSLACK, 1); /* a sleep ends in time; by default 50 us late */
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!(running = take()) && !closing)
            pthread_cond_wait(&changed, &lock);
        if (!running)
            break;
        pthread_mutex_unlock(&lock);
        nanosleep(&(struct timespec){.tv_nsec = DELAY_NS},
                  NULL); /* who does not wait shall notice */
        running->run(running);
        pthread_mutex_lock(&lock);
        calls++;
        free(running);
        running = NULL;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

tg_status toy_queue_open(void)
{
    if (pthread_create(&thread, NULL, work, NULL))
        return toy_host->fail(TG_EDEVICE, "toy: no thread");
    return TG_OK;
}

void toy_queue_close(void)
{
    pthread_mutex_lock(&lock);
    closing = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
}

static void append(toy_call *call)
{
    call->serial = ++put;
    call->next = NULL;
    if (first)
        last->next = call;
    else
        first = call;
    last = call;
    pthread_cond_broadcast(&changed);
}

void toy_put(toy_call *call)
{
    call->stream = toy_host->stream(call->ctx);
    if (toy_keep(call))
        return;
    pthread_mutex_lock(&lock);
    append(call);
    pthread_mutex_unlock(&lock);
}

TG_API void toy_hold(const void *stream)
{
    pthread_mutex_lock(&lock);
    held = stream;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

TG_API void *toy_window(const void *device, size_t bytes)
{
    pthread_mutex_lock(&lock);
    while (first || running)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return toy_see(device, bytes);
}

/* ---- waiting ---- */

static int is_busy(const tg_ctx *ctx, int64_t until)
{
    if (running && running->ctx == ctx && running->serial <= until)
        return 1;
    for (const toy_call *c = first; c; c = c->next)
        if (c->ctx == ctx && c->serial <= until)
            return 1;
    return 0;
}

int toy_is_idle(const tg_ctx *ctx)
{
    pthread_mutex_lock(&lock);
    const int idle = !is_busy(ctx, INT64_MAX);
    pthread_mutex_unlock(&lock);
    return idle;
}

int64_t toy_now(void)
{
    pthread_mutex_lock(&lock);
    const int64_t serial = put;
    pthread_mutex_unlock(&lock);
    return serial;
}

tg_status toy_wait(tg_ctx *ctx, int64_t until)
{
    fault mine = {NULL, TG_OK, ""};
    pthread_mutex_lock(&lock);
    while (is_busy(ctx, until))
        pthread_cond_wait(&changed, &lock);
    for (int i = 0; i < MOST_FAULTS; i++)
        if (faults[i].ctx == ctx) {
            mine = faults[i];
            faults[i].ctx = NULL;
        }
    pthread_mutex_unlock(&lock);
    return mine.status == TG_OK ? TG_OK : toy_host->fail(mine.status, "%s", mine.text);
}

void toy_fault(const toy_call *call, tg_status status, const char *format, ...)
{
    fault *room = NULL;
    va_list values;
    pthread_mutex_lock(&lock);
    for (int i = MOST_FAULTS - 1; i >= 0; i--)
        if (!faults[i].ctx)
            room = &faults[i];
    for (int i = 0; i < MOST_FAULTS; i++)
        if (faults[i].ctx == call->ctx)
            room = NULL; /* the first one counts */
    if (room) {
        room->ctx = call->ctx;
        room->status = status;
        va_start(values, format);
        vsnprintf(room->text, sizeof room->text, format, values);
        va_end(values);
    }
    pthread_mutex_unlock(&lock);
}

tg_status toy_time(tg_ctx *ctx, double *seconds)
{
    static int64_t begun;
    const tg_status status = toy_wait(ctx, INT64_MAX);
    pthread_mutex_lock(&lock);
    if (seconds)
        *seconds = 1e-3 * (double)(calls - begun);
    begun = calls;
    pthread_mutex_unlock(&lock);
    return status;
}
