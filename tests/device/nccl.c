/* nccl.c - a stand-in for NCCL and for what cards.c calls of CUDA's driver, between processes whose
 * devices are toys: messages go through shared memory. A group runs as a whole when it ends, behind
 * all that the toy has been given; so moments have nothing to wait for. */
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ranks/nccl.h"

enum { RANKS = 8, BOX = 8 << 20 };

/* A message, or a piece of one, from a rank to another; `full` tells whose turn it is. */
typedef struct box {
    _Atomic int full;
    size_t bytes;
    char data[BOX];
} box;

static struct {
    _Atomic int joined;
    box boxes[RANKS][RANKS];
} * all;
static int ranks, here;

/* A message of a group, and a sum that is due when all have come. */
typedef struct message {
    int sends, peer, done;
    char *at;
    size_t bytes;
} message;
typedef struct sum {
    float *to, *parts; /* [ranks, count] */
    size_t count;
} sum;
static message messages[4096];
static sum sums[256];
static int message_count, sum_count, depth;

static void fail(const char *what)
{
    fprintf(stderr, "NCCL's stand-in: %s\n", what);
    abort();
}

/* What the device's thread sees there, when all its calls have run. */
static void *seen(const void *device, size_t bytes)
{
    static void *(*window)(const void *device, size_t bytes);
    if (!window) {
        void *toy = dlopen(getenv("TIGON_BACKEND_PATH"), RTLD_NOW | RTLD_NOLOAD);
        *(void **)&window = toy ? dlsym(toy, "toy_window") : NULL;
    }
    void *at = window ? window(device, bytes) : NULL;
    if (!at)
        fail("that is not the toy's memory");
    return at;
}

/* ---- groups ---- */

/* Whether the k-th message has gone or come; those of a pair of ranks in their order. */
static int try_message(int k)
{
    message *m = &messages[k];
    box *b = m->sends ? &all->boxes[here][m->peer] : &all->boxes[m->peer][here];
    for (int i = 0; i < k; i++)
        if (!messages[i].done && messages[i].peer == m->peer && messages[i].sends == m->sends)
            return 0;
    if (atomic_load(&b->full) == m->sends)
        return 0;
    if (m->sends) {
        memcpy(b->data, m->at, m->bytes);
        b->bytes = m->bytes;
    } else {
        if (b->bytes != m->bytes)
            fail("a message of another length");
        memcpy(m->at, b->data, m->bytes);
    }
    atomic_store(&b->full, m->sends);
    return m->done = 1;
}

static int run(void)
{
    for (int left = message_count; left > 0; sched_yield())
        for (int k = 0; k < message_count; k++)
            left -= !messages[k].done && try_message(k);
    for (sum *s = sums; s < sums + sum_count; s++) {
        for (size_t i = 0; i < s->count; i++) {
            float total = 0;
            for (int r = 0; r < ranks; r++)
                total += s->parts[(size_t)r * s->count + i];
            s->to[i] = total;
        }
        free(s->parts);
    }
    message_count = sum_count = 0;
    return 0;
}

static int done(void)
{
    return depth ? 0 : run();
}

/* In pieces that a box holds. */
static void put(int sends, int peer, void *at, size_t bytes)
{
    for (size_t done = 0, n; done < bytes; done += n) {
        n = bytes - done < BOX ? bytes - done : BOX;
        if (message_count == sizeof(messages) / sizeof(messages[0]))
            fail("too many messages");
        messages[message_count++] = (message){sends, peer, 0, (char *)at + done, n};
    }
}

/* Sums of what all ranks have, to one rank, or to all, -1. */
static void put_sum(const float *from, float *to, size_t count, int root)
{
    for (int r = 0; r < ranks; r++)
        if (r != here && (root < 0 || r == root))
            put(1, r, (void *)from, count * sizeof(float));
    if (root >= 0 && root != here)
        return;
    float *parts = malloc((size_t)ranks * count * sizeof(float));
    if (!parts || sum_count == sizeof(sums) / sizeof(sums[0]))
        fail("too many sums");
    for (int r = 0; r < ranks; r++)
        if (r != here)
            put(0, r, parts + (size_t)r * count, count * sizeof(float));
    memcpy(parts + (size_t)here * count, from, count * sizeof(float));
    sums[sum_count++] = (sum){to, parts, count};
}

/* ---- NCCL ---- */

int ncclGetUniqueId(nccl_id *id)
{
    *id = (nccl_id){{0}};
    snprintf(id->bytes, sizeof(id->bytes), "/tigon-nccl-%d", (int)getpid());
    return 0;
}

int ncclCommInitRank(nccl_comm *comm, int count, nccl_id id, int rank)
{
    const int file = shm_open(id.bytes, O_RDWR | O_CREAT, 0600);
    if (count > RANKS || file < 0 || ftruncate(file, sizeof(*all)))
        fail("no shared memory");
    all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    ranks = count;
    here = rank;
    *comm = NULL;
    for (atomic_fetch_add(&all->joined, 1); atomic_load(&all->joined) < count;)
        sched_yield();
    shm_unlink(id.bytes);
    return 0;
}

int ncclGroupStart(void)
{
    depth++;
    return 0;
}

int ncclGroupEnd(void)
{
    depth--;
    return done();
}

int ncclSend(const void *from, size_t count, int type, int to, nccl_comm comm, void *stream)
{
    (void)comm, (void)stream;
    const size_t bytes = count * (type == NCCL_F32 ? 4 : 1);
    put(1, to, seen(from, bytes), bytes);
    return done();
}

int ncclRecv(void *data, size_t count, int type, int from, nccl_comm comm, void *stream)
{
    (void)comm, (void)stream;
    const size_t bytes = count * (type == NCCL_F32 ? 4 : 1);
    put(0, from, seen(data, bytes), bytes);
    return done();
}

int ncclReduce(const void *from, void *to, size_t count, int type, int how, int root,
               nccl_comm comm, void *stream)
{
    (void)comm, (void)stream, (void)type, (void)how;
    put_sum(seen(from, count * 4), root == here ? seen(to, count * 4) : NULL, count, root);
    return done();
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int how, nccl_comm comm,
                  void *stream)
{
    (void)comm, (void)stream, (void)type, (void)how;
    put_sum(seen(from, count * 4), seen(to, count * 4), count, -1);
    return done();
}

int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, nccl_comm comm,
                  void *stream)
{
    (void)comm, (void)stream, (void)from;
    const size_t bytes = count * (type == NCCL_F32 ? 4 : 1);
    for (int r = 0; r < ranks; r++)
        if (here == root && r != here)
            put(1, r, seen(to, bytes), bytes);
    if (here != root)
        put(0, root, seen(to, bytes), bytes);
    return done();
}

const char *ncclGetErrorString(int error)
{
    (void)error;
    return "none";
}

/* ---- the driver ---- */

int cuInit(unsigned flags)
{
    (void)flags;
    return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int card)
{
    (void)card;
    *context = NULL;
    return 0;
}

int cuCtxSetCurrent(void *context)
{
    (void)context;
    return 0;
}

int cuStreamCreate(void **stream, unsigned flags)
{
    (void)flags;
    *stream = NULL;
    return 0;
}

int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    (void)stream, (void)event, (void)flags;
    return 0;
}

int cuEventCreate(void **event, unsigned flags)
{
    (void)flags;
    *event = event;
    return 0;
}

int cuEventRecord(void *event, void *stream)
{
    (void)event, (void)stream;
    return 0;
}
