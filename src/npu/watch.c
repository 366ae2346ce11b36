/* watch.c - who watches the launches of NPU kernels, or their records: backends tell, one program
 * at a time listens to each. */
#include <pthread.h>

#include "tigon/npu.h"

static struct {
    tg_npu_watch_fn launches;
    tg_npu_record_fn records;
    void *of_launches, *of_records; /* what they are called with */
} watch;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void tg_npu_watch(tg_npu_watch_fn tell, void *user)
{
    pthread_mutex_lock(&lock);
    watch.launches = tell;
    watch.of_launches = user;
    pthread_mutex_unlock(&lock);
}

void tg_npu_watch_records(tg_npu_record_fn tell, void *user)
{
    pthread_mutex_lock(&lock);
    watch.records = tell;
    watch.of_records = user;
    pthread_mutex_unlock(&lock);
}

int tg_npu_is_watched(void)
{
    pthread_mutex_lock(&lock);
    const int watched = watch.launches != NULL;
    pthread_mutex_unlock(&lock);
    return watched;
}

int tg_npu_is_recorded(void)
{
    pthread_mutex_lock(&lock);
    const int recorded = watch.records != NULL;
    pthread_mutex_unlock(&lock);
    return recorded;
}

void tg_npu_launched(const tg_npu_launch *launch)
{
    pthread_mutex_lock(&lock);
    if (watch.launches)
        watch.launches(watch.of_launches, launch);
    pthread_mutex_unlock(&lock);
}

void tg_npu_recorded(const tg_npu_record *record)
{
    pthread_mutex_lock(&lock);
    if (watch.records)
        watch.records(watch.of_records, record);
    pthread_mutex_unlock(&lock);
}
