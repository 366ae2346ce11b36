/* tools/tigon/limits/memory.c - memory limit: the best plain loop with given streams.
 *
 * "Best" is found by trying: vector by vector or stream by stream, cached or streaming stores,
 * all threads in two ways of cutting or one thread alone.
 */
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 64 };
static const double NEVER = 1e30; /* seconds */

typedef struct loop_args {
    int reads, writes;
    int64_t bytes; /* of each stream */
    const char *r[MEMORY_STREAMS];
    char *w[MEMORY_STREAMS];
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
#include "loop.inc"

#define LOOP(name) name##_avx2
#define LINE line32
#define STREAM(p, v) _mm256_stream_si256((__m256i *)(p), (__m256i)(v))
#define LOOP_TARGET __attribute__((target("avx2")))
#include "loop.inc"

#define LOOP(name) name##_base
#define LINE line16
#define STREAM(p, v) _mm_stream_si128((__m128i *)(p), (__m128i)(v))
#define LOOP_TARGET
#include "loop.inc"
#else
typedef long long line16 __attribute__((vector_size(16), may_alias));
#define LOOP(name) name##_base
#define LINE line16
#define STREAM(p, v) (*(p) = (v))
#define LOOP_TARGET
#include "loop.inc"
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

typedef struct job {
    const memory_limit *limit;
    way way;
} job;

/* Where part i of `parts` of a stream begins: at a whole line. */
static int64_t cut(int64_t bytes, int64_t i, int64_t parts)
{
    return bytes / LINE_BYTES * i / parts * LINE_BYTES;
}

static void run_part(const group *g, const way *y, int64_t part, int64_t parts)
{
    const int64_t begin = cut(g->bytes, part, parts);
    loop_args a = {
        .reads = g->reads, .writes = g->writes, .bytes = cut(g->bytes, part + 1, parts) - begin};
    for (int j = 0; j < g->reads; j++)
        a.r[j] = g->r[j] + begin;
    for (int j = 0; j < g->writes; j++)
        a.w[j] = g->w[j] + begin;
    move(&a, y->apart, y->stream);
}

static void run_chunks(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const job *j = arg;
    const memory_limit *l = j->limit;
    const way *y = &j->way;
    const int64_t chunk = l->longest / y->chunks;
    const int64_t blocks = y->block && chunk > y->block ? chunk / y->block : 1;
    for (int64_t c = begin * blocks; c < end * blocks; c++)
        for (int g = 0; g < l->ngroups; g++)
            run_part(&l->group[g], y, c, y->chunks * blocks);
#if defined(__x86_64__)
    if (y->stream)
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
    if (is_apart(limit->ctx))
        memory_device_run(limit);
    else
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

typedef struct candidate {
    way way;
    double best; /* seconds */
} candidate;

enum { SHAPES = 6, CANDIDATES = 2 * SHAPES };

/* The fastest of some ways. They run in turns, so that whatever else the machine does meets all of
 * them alike. */
static candidate fastest(const memory_limit *l, candidate *list, int n)
{
    enum { FEWEST = 5, MOST = 50 };
    static const double budget = 0.03; /* seconds a way */
    const double start = seconds();
    for (int turn = 0; turn < MOST; turn++) {
        for (int k = 0; k < n; k++) {
            const double t0 = seconds();
            run_way(l, &list[k].way);
            const double took = seconds() - t0;
            if (turn && took < list[k].best)
                list[k].best = took;
        }
        if (turn >= FEWEST && seconds() - start > budget * n)
            break;
    }
    candidate best = list[0];
    for (int k = 1; k < n; k++)
        if (list[k].best < best.best)
            best = list[k];
    return best;
}

static void choose_way(memory_limit *l)
{
    const int threads = tg_ctx_threads(l->ctx);
    int writes = 0;
    for (int g = 0; g < l->ngroups; g++)
        writes += l->group[g].writes;
    static const struct {
        int apart;
        int64_t block;
    } shapes[SHAPES] = {{0, 0}, {0, 1024}, {0, 8192}, {1, 1024}, {1, 4096}, {1, 16384}};
    const int64_t cuts[] = {1, l->total >> 20};
    candidate list[CANDIDATES];
    int n = 0;
    for (int stream = 0; stream <= (writes > 0); stream++)
        for (int k = 0; k < SHAPES; k++) {
            const int one_group = l->ngroups == 1; /* needs no blocks, others do */
            if (shapes[k].apart || one_group == !shapes[k].block)
                list[n++] = (candidate){{shapes[k].apart, stream, shapes[k].block, threads}, NEVER};
        }
    list[0] = (candidate){fastest(l, list, n).way, NEVER};
    n = 1;
    for (int k = 0; k < 2; k++) {
        way y = list[0].way;
        y.chunks = cuts[k];
        if (y.chunks >= 1 && y.chunks != threads && (y.chunks > 1 || l->total <= (8 << 20)))
            list[n++] = (candidate){y, NEVER};
    }
    l->best = n > 1 ? fastest(l, list, n).way : list[0].way;
    snprintf(l->name, sizeof l->name, "%s stores, %s, %s",
             !writes          ? "no"
             : l->best.stream ? "streaming"
                              : "cached",
             l->best.apart ? "streams in turn" : "streams together",
             threads == 1 || l->best.chunks == 1 ? "1 thread" : "all threads");
}

/* The group of streams of about that length; a new one if there is none. */
static group *group_of(memory_limit *l, int64_t bytes)
{
    for (int i = 0; i < l->ngroups; i++)
        if (llabs(l->group[i].bytes - bytes) <= bytes / 50)
            return &l->group[i];
    group *g = &l->group[l->ngroups++];
    g->bytes = bytes;
    return g;
}

/* The tensor itself, where it suffices: for streams that are read or written alone. */
static char *lent(const memory_limit *l, const memory_stream *s, int64_t bytes)
{
    const int fits = s->data && s->size >= bytes && (uintptr_t)s->data % LINE_BYTES == 0;
    return fits && !is_apart(l->ctx) && s->read != s->write ? s->data : NULL;
}

static int add_stream(memory_limit *l, const memory_stream *s)
{
    int64_t bytes = (int64_t)((double)s->bytes / l->scale);
    bytes = (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    group *g = group_of(l, bytes);
    char *data = lent(l, s, g->bytes);
    if (!data) {
        data = is_apart(l->ctx) ? device_matrix(l->ctx, TG_F32, g->bytes / 4)
                                : touched(l->ctx, g->bytes);
        if (!data)
            return -1;
        l->owned[l->nowned++] = data;
    }
    if (s->read)
        g->r[g->reads++] = data;
    if (s->write)
        g->w[g->writes++] = data;
    l->longest = g->bytes > l->longest ? g->bytes : l->longest;
    l->total += g->bytes * (s->read + s->write);
    return 0;
}

memory_limit *memory_limit_new(tg_ctx *ctx, const memory_work *work, int64_t cap)
{
    memory_limit *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    double total = 0;
    for (int i = 0; i < work->count; i++)
        total += (double)work->stream[i].bytes * (work->stream[i].read + work->stream[i].write);
    l->ctx = ctx;
    l->scale = cap > 0 && total > (double)cap ? total / (double)cap : 1;
    int failed = total <= 0;
    for (int i = 0; !failed && i < work->count; i++)
        failed = add_stream(l, &work->stream[i]);
    if (failed) {
        memory_limit_free(l);
        return NULL;
    }
    l->scale = total / (double)l->total;
    if (!is_apart(ctx)) {
        choose_way(l);
        return l;
    }
    if (memory_device_choose(l))
        return l;
    memory_limit_free(l);
    return NULL;
}

void memory_limit_free(memory_limit *l)
{
    for (int j = 0; l && j < l->nowned; j++)
        if (is_apart(l->ctx))
            tg_free(l->ctx, l->owned[j]);
        else
            free(l->owned[j]);
    free(l);
}
