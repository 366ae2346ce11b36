/* toy_memory.c - the device's memory: one file of pages, mapped for the device's thread. What
 * programs get are addresses of the same size that nobody can read or write. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "toy.h"

enum { UNIT = 256, PAGE = 4096, MOST_BLOCKS = 4096 };
static const size_t room = (size_t)8 << 30; /* of addresses: pages are taken as they are touched */

typedef struct block {
    size_t at, bytes;
} block;

static char *seen, *given; /* by the device's thread; to programs */
static int file;
static block blocks[MOST_BLOCKS]; /* in use, by rising address */
static int count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

tg_status toy_memory_open(void)
{
    file = memfd_create("toy", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)room))
        return toy_host->fail(TG_EDEVICE, "toy: no file for its memory");
    seen = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    given = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (seen == MAP_FAILED || given == MAP_FAILED)
        return toy_host->fail(TG_EDEVICE, "toy: no addresses for its memory");
    return TG_OK;
}

/* The first gap that is large enough. */
static int find_gap(size_t bytes, size_t *at)
{
    int i = 0;
    *at = 0;
    while (i < count && blocks[i].at - *at < bytes) {
        *at = blocks[i].at + blocks[i].bytes;
        i++;
    }
    return i;
}

void *toy_take(size_t bytes)
{
    size_t at;
    bytes = (bytes + UNIT - 1) / UNIT * UNIT;
    pthread_mutex_lock(&lock);
    const int i = find_gap(bytes, &at);
    const int fits = count < MOST_BLOCKS && at + bytes <= room;
    for (int k = count; fits && k > i; k--)
        blocks[k] = blocks[k - 1];
    if (fits) {
        blocks[i] = (block){at, bytes};
        count++;
    }
    pthread_mutex_unlock(&lock);
    return fits ? given + at : NULL;
}

void toy_give(void *device)
{
    const size_t at = (size_t)((char *)device - given);
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < count && blocks[i].at != at)
        i++;
    if (i == count)
        abort(); /* never taken, or given twice */
    const size_t begin =
        (at + PAGE - 1) / PAGE * PAGE; /* the pages that nobody else has a part of */
    const size_t end = (at + blocks[i].bytes) / PAGE * PAGE;
    if (begin < end)
        madvise(seen + begin, end - begin, MADV_REMOVE);
    for (count--; i < count; i++)
        blocks[i] = blocks[i + 1];
    pthread_mutex_unlock(&lock);
}

void *toy_see(const void *device, size_t bytes)
{
    const size_t at = (size_t)((const char *)device - given);
    int inside = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < count; i++)
        inside |= at >= blocks[i].at && at + bytes <= blocks[i].at + blocks[i].bytes;
    pthread_mutex_unlock(&lock);
    return inside ? seen + at : NULL;
}
