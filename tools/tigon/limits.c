/* tools/tigon/limits.c - memory limit: the best plain loop with given streams; eviction of caches.
 *
 * "Best" is found by trying: vector by vector or stream by stream, cached or streaming stores,
 * all threads in two ways of cutting or one thread alone.
 */
#include "limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LOOP_STREAMS = 8, LINE_BYTES = 64, PAGE = 4096 };

typedef struct loop_args {
    int reads, writes;
    int64_t read_step, write_step; /* bytes of each stream to move */
    const char *r[LOOP_STREAMS];
    char *w[LOOP_STREAMS];
} loop_args;

#if defined(__x86_64__)
#include <immintrin.h>
typedef long long line64 __attribute__((vector_size(64), may_alias));
typedef long long line32 __attribute__((vector_size(32), may_alias));
typedef long long line16 __attribute__((vector_size(16), may_alias));

#define LOOP(name) name##_avx512
#define LINE line64
#define STREAM(p, v) _mm512_stream_si512((__m512i *)(p), (__m512i)(v))
#define LOOP_TARGET __attribute__((target("avx512f")))
#include "limits_loop.h"

#define LOOP(name) name##_avx2
#define LINE line32
#define STREAM(p, v) _mm256_stream_si256((__m256i *)(p), (__m256i)(v))
#define LOOP_TARGET __attribute__((target("avx2")))
#include "limits_loop.h"

#define LOOP(name) name##_base
#define LINE line16
#define STREAM(p, v) _mm_stream_si128((__m128i *)(p), (__m128i)(v))
#define LOOP_TARGET
#include "limits_loop.h"
#else
typedef long long line16 __attribute__((vector_size(16), may_alias));
#define LOOP(name) name##_base
#define LINE line16
#define STREAM(p, v) (*(p) = (v))
#define LOOP_TARGET
#include "limits_loop.h"
#endif

static void move(const loop_args *a, int apart, int stream)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        move_avx512(a, apart, stream);
    else if (__builtin_cpu_supports("avx2"))
        move_avx2(a, apart, stream);
    else
        move_base(a, apart, stream);
#else
    move_base(a, apart, stream);
#endif
}

double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One way to run the loop. */
typedef struct way {
    int apart, stream;
    int64_t
        block; /* bytes of the longer streams between two switches of stream; 0: a whole chunk */
    int64_t chunks; /* pieces of work: 1, one a thread, or more */
} way;

struct memory_limit {
    tg_ctx *ctx;
    int reads, writes;
    int64_t read_len, write_len; /* of one stream */
    char *r[LOOP_STREAMS], *w[LOOP_STREAMS];
    char *owned[2 * LOOP_STREAMS];
    int nowned;
    double scale;
    way best;
    char name[80];
};

/* The part [begin, end) of `total` units of a stream of len bytes, cut at whole lines. */
static int64_t cut(int64_t len, int64_t i, int64_t total)
{
    const int64_t lines = len / LINE_BYTES;
    return (lines * i / total) * LINE_BYTES;
}

typedef struct job {
    const memory_limit *limit;
    way way;
} job;

static void run_part(const memory_limit *l, const way *y, int64_t r0, int64_t r1, int64_t w0,
                     int64_t w1)
{
    loop_args a = {l->reads, l->writes, r1 - r0, w1 - w0, {0}, {0}};
    for (int j = 0; j < l->reads; j++)
        a.r[j] = l->r[j] + r0;
    for (int j = 0; j < l->writes; j++)
        a.w[j] = l->w[j] + w0;
    if (!l->reads)
        a.read_step = a.write_step; /* counts the lines of the loop */
    move(&a, y->apart, y->stream);
}

static void run_chunks(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const job *j = arg;
    const memory_limit *l = j->limit;
    const int64_t total = j->way.chunks;
    for (int64_t c = begin; c < end; c++) {
        const int64_t r0 = cut(l->read_len, c, total), r1 = cut(l->read_len, c + 1, total);
        const int64_t w0 = cut(l->write_len, c, total), w1 = cut(l->write_len, c + 1, total);
        const int64_t longer = r1 - r0 > w1 - w0 ? r1 - r0 : w1 - w0;
        const int64_t blocks = j->way.block ? (longer + j->way.block - 1) / j->way.block : 1;
        for (int64_t b = 0; b < blocks; b++)
            run_part(l, &j->way, r0 + cut(r1 - r0, b, blocks), r0 + cut(r1 - r0, b + 1, blocks),
                     w0 + cut(w1 - w0, b, blocks), w0 + cut(w1 - w0, b + 1, blocks));
    }
#if defined(__x86_64__)
    if (j->way.stream)
        _mm_sfence();
#endif
}

static void run_way(const memory_limit *limit, const way *way)
{
    job j = {limit, *way};
    if (way->chunks == 1)
        run_chunks(&j, 0, 1, 0);
    else
        tg_parallel_for(limit->ctx, way->chunks, 1, run_chunks, &j);
}

void memory_limit_run(memory_limit *limit)
{
    run_way(limit, &limit->best);
}

double memory_limit_scale(const memory_limit *limit)
{
    return limit->scale;
}

const char *memory_limit_name(const memory_limit *limit)
{
    return limit->name;
}

static double time_way(const memory_limit *l, const way *y)
{
    double best = 1e30;
    const double start = seconds();
    run_way(l, y);
    for (int i = 0; i < 50; i++) {
        const double t0 = seconds();
        run_way(l, y);
        const double t1 = seconds();
        best = t1 - t0 < best ? t1 - t0 : best;
        if (i >= 2 && t1 - start > 0.03)
            break;
    }
    return best;
}

static void choose_way(memory_limit *l)
{
    const int threads = tg_ctx_threads(l->ctx);
    const int64_t bytes = l->reads * l->read_len + l->writes * l->write_len;
    const int equal = !l->reads || !l->writes || l->read_len == l->write_len;
    const int64_t cuts[] = {threads, 1, bytes / (1 << 20)};
    static const int64_t blocks[] = {0, 1024, 4096, 16384};
    double best = 1e30;
    for (int stream = 0; stream <= (l->writes > 0); stream++)
        for (int k = 0; k < 4; k++) {
            const int apart = k > 0;
            if (!apart && !equal)
                continue;
            const way y = {apart, stream, blocks[k], threads};
            const double t = time_way(l, &y);
            if (t < best) {
                best = t;
                l->best = y;
            }
        }
    for (int k = 1; k < 3; k++) {
        way y = l->best;
        y.chunks = cuts[k];
        if (y.chunks < 1 || y.chunks == l->best.chunks || (y.chunks == 1 && bytes > (8 << 20)))
            continue;
        const double t = time_way(l, &y);
        if (t < best) {
            best = t;
            l->best = y;
        }
    }
    snprintf(l->name, sizeof l->name, "%s stores, %s, %s",
             !l->writes       ? "no"
             : l->best.stream ? "streaming"
                              : "cached",
             l->best.apart ? "streams in turn" : "streams together",
             l->best.chunks == 1 ? "1 thread" : "all threads");
}

typedef struct touch_args {
    char *data;
} touch_args;

static void touch(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    memset(((touch_args *)arg)->data + begin, 1, (size_t)(end - begin));
}

/* Page-aligned and touched by the threads that will use it. */
static char *touched(tg_ctx *ctx, int64_t bytes)
{
    const int64_t size = (bytes + PAGE - 1) / PAGE * PAGE + PAGE;
    touch_args a = {aligned_alloc(PAGE, (size_t)size)};
    if (a.data) {
        const int64_t threads = tg_ctx_threads(ctx);
        tg_parallel_for(ctx, size, (size + threads - 1) / threads, touch, &a);
    }
    return a.data;
}

memory_limit *memory_limit_new(tg_ctx *ctx, const memory_work *work, int64_t cap)
{
    memory_limit *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->ctx = ctx;
    l->reads = work->reads < LOOP_STREAMS ? work->reads : LOOP_STREAMS;
    l->writes = work->writes < LOOP_STREAMS ? work->writes : LOOP_STREAMS;
    const int over = work->over < l->reads ? work->over : l->reads;
    const int64_t total = work->read_bytes + work->write_bytes;
    l->scale = cap > 0 && total > cap ? (double)total / (double)cap : 1;
    if (l->reads)
        l->read_len = (int64_t)((double)work->read_bytes / l->reads / l->scale);
    if (l->writes)
        l->write_len = (int64_t)((double)work->write_bytes / l->writes / l->scale);
    if (l->reads && l->writes && llabs(l->read_len - l->write_len) < l->read_len / 50)
        l->read_len = l->write_len = (l->read_len + l->write_len) / 2;
    l->read_len = (l->read_len + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    l->write_len = (l->write_len + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    for (int j = 0; j < l->reads + l->writes; j++) {
        const int write = j >= l->reads;
        char **slot = write ? &l->w[j - l->reads] : &l->r[j];
        if (write && j - l->reads < over && l->write_len <= l->read_len) {
            *slot = l->r[j - l->reads];
            continue;
        }
        *slot = touched(ctx, write ? l->write_len : l->read_len);
        if (!*slot) {
            memory_limit_free(l);
            return NULL;
        }
        l->owned[l->nowned++] = *slot;
    }
    choose_way(l);
    return l;
}

void memory_limit_free(memory_limit *l)
{
    for (int j = 0; l && j < l->nowned; j++)
        free(l->owned[j]);
    free(l);
}

/* ---- caches ---- */

int64_t cache_bytes(void)
{
    static const int names[] = {
#ifdef _SC_LEVEL3_CACHE_SIZE
        _SC_LEVEL3_CACHE_SIZE,
        _SC_LEVEL2_CACHE_SIZE,
#endif
    };
    int64_t most = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const int64_t size = sysconf(names[i]);
        most = size > most ? size : most;
    }
    return most > 0 ? most : 32 << 20;
}

struct evictor {
    tg_ctx *ctx;
    char *data;
    int64_t bytes;
};

evictor *evictor_new(tg_ctx *ctx)
{
    evictor *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->ctx = ctx;
    e->bytes = cache_bytes() * 5 / 4 + (16 << 20);
    e->data = touched(ctx, e->bytes);
    if (!e->data) {
        free(e);
        return NULL;
    }
    return e;
}

static void rewrite(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const evictor *e = arg;
    for (int64_t i = begin; i < end; i++)
        e->data[i]++;
}

void evictor_run(evictor *e)
{
    const int64_t threads = tg_ctx_threads(e->ctx);
    tg_parallel_for(e->ctx, e->bytes, (e->bytes + threads - 1) / threads, rewrite, e);
}

void evictor_free(evictor *e)
{
    if (e)
        free(e->data);
    free(e);
}
