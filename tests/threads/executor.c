/* tests/threads/executor.c - see executor.h. */
#include "executor.h"

#include <pthread.h>

enum { MAX_TASKS = 64 };

typedef struct call {
    void (*task)(void *arg, int index);
    void *arg;
    int index;
} call;

static void *run(void *arg)
{
    const call *c = arg;
    c->task(c->arg, c->index);
    return NULL;
}

void run_on_pthreads(void *user, int tasks, void (*task)(void *arg, int index), void *arg)
{
    (void)user;
    pthread_t threads[MAX_TASKS];
    call calls[MAX_TASKS];
    char started[MAX_TASKS] = {0};
    for (int i = 1; i < tasks; i++) {
        if (i >= MAX_TASKS) {
            task(arg, i);
            continue;
        }
        calls[i] = (call){task, arg, i};
        started[i] = !pthread_create(&threads[i], NULL, run, &calls[i]);
        if (!started[i])
            task(arg, i);
    }
    task(arg, 0);
    for (int i = 1; i < tasks && i < MAX_TASKS; i++)
        if (started[i])
            pthread_join(threads[i], NULL);
}
