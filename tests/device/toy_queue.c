/* toy_queue.c - the device's thread: takes one call after the other, and keeps what went wrong until it is asked. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
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
static toy_call *first, *last, *running;
static fault faults[MOST_FAULTS];
static int closing;

static void *work(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!first && !closing)
            pthread_cond_wait(&changed, &lock);
        if (!first)
            break;
        running = first;
        first = first->next;
        pthread_mutex_unlock(&lock);
        nanosleep(&(struct timespec){.tv_nsec = DELAY_NS},
                  NULL); /* who does not wait shall notice */
        running->run(running);
        pthread_mutex_lock(&lock);
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

void toy_put(toy_call *call)
{
    pthread_mutex_lock(&lock);
    call->next = NULL;
    if (first)
        last->next = call;
    else
        first = call;
    last = call;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static int is_busy(const tg_ctx *ctx)
{
    if (running && running->ctx == ctx)
        return 1;
    for (const toy_call *c = first; c; c = c->next)
        if (c->ctx == ctx)
            return 1;
    return 0;
}

tg_status toy_wait(tg_ctx *ctx)
{
    fault mine = {NULL, TG_OK, ""};
    pthread_mutex_lock(&lock);
    while (is_busy(ctx))
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
