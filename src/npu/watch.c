/* watch.c - who watches the launches of NPU kernels: backends tell, one program at a time listens. */
#include <pthread.h>

#include "tigon/npu.h"

static struct {
    tg_npu_watch_fn tell;
    void *user;
} watch;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void tg_npu_watch(tg_npu_watch_fn tell, void *user)
{
    pthread_mutex_lock(&lock);
    watch.tell = tell;
    watch.user = user;
    pthread_mutex_unlock(&lock);
}

int tg_npu_is_watched(void)
{
    pthread_mutex_lock(&lock);
    const int watched = watch.tell != NULL;
    pthread_mutex_unlock(&lock);
    return watched;
}

void tg_npu_launched(const tg_npu_launch *launch)
{
    pthread_mutex_lock(&lock);
    if (watch.tell)
        watch.tell(watch.user, launch);
    pthread_mutex_unlock(&lock);
}
