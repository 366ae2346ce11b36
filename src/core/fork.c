/* fork(): in the child no lock is held by a thread that is not there, and no work waits for one. */
#include <pthread.h>

#include "core/core.h"

enum { MOST_LOCKS = 8 };
static _Atomic(pthread_mutex_t *) locks[MOST_LOCKS];
static atomic_int count;
static pthread_mutex_t *held[MOST_LOCKS]; /* by the thread that forks */

void tg_lock_across_fork(pthread_mutex_t *lock)
{
    const int i = atomic_fetch_add(&count, 1);
    if (i < MOST_LOCKS)
        atomic_store(&locks[i], lock);
}

static void before(void)
{
    for (int i = 0; i < MOST_LOCKS; i++) {
        pthread_mutex_t *const lock = atomic_load(&locks[i]);
        if (lock)
            pthread_mutex_lock(lock);
        held[i] = lock; /* the first lock protects the list */
    }
}

static void in_parent(void)
{
    for (int i = MOST_LOCKS - 1; i >= 0; i--)
        if (held[i])
            pthread_mutex_unlock(held[i]);
}

/* Made anew: the owner that a recursive lock remembers is a thread of the parent. */
static void in_child(void)
{
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    for (int i = 0; i < MOST_LOCKS; i++)
        if (held[i])
            pthread_mutex_init(held[i], &recursive);
    pthread_mutexattr_destroy(&recursive);
    tg_threads_after_fork();
}

void tg_fork_open(void)
{
    pthread_atfork(before, in_parent, in_child);
}
