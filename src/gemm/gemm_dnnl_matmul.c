/* src/gemm/gemm_dnnl_matmul.c - one bf16 product of oneDNN: its matmul primitive.
 *
 * Primitives are costly to make, so a table keeps the last ones used, shared by all threads. They
 * use scratch memory of the caller.
 */
#include "gemm_dnnl.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/parts.h"
#include "gemm_dnnl_describe.h"

enum { CACHE_SIZE = 64 };

struct gemm_matmul {
    call key;
    atomic_int holders, has_run;
    dnnl_primitive_t primitive;
    int64_t scratch_bytes;
};

static struct {
    pthread_mutex_t lock;
    dnnl_engine_t engine; /* created on first use, kept for good */
    gemm_matmul *entry[CACHE_SIZE];
    uint64_t used[CACHE_SIZE], clock;
} cache = {.lock = PTHREAD_MUTEX_INITIALIZER};

void gemm_let_go(const gemm_matmul *m)
{
    gemm_matmul *mine = (gemm_matmul *)m;
    if (!m || atomic_fetch_sub(&mine->holders, 1) > 1)
        return;
    dnnl_primitive_destroy(m->primitive);
    free(mine);
}

static tg_status status_of(dnnl_status_t status)
{
    return status == dnnl_success         ? TG_OK
           : status == dnnl_out_of_memory ? TG_ENOMEM
                                          : TG_EUNSUPPORTED;
}

static tg_status make_matmul(const call *w, gemm_matmul **made)
{
    dnnl_primitive_desc_t pd;
    tg_status status = status_of(gemm_describe(w, cache.engine, &pd));
    if (status != TG_OK)
        return status;
    const char *name = "";
    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&name);
    gemm_matmul *m = calloc(1, sizeof *m);
    /* Plain loops: the portable implementation is faster. no case: oneDNN has kernels for all
     * where it is asked */
    if (!strncmp(name, "ref", 3))
        status = TG_EUNSUPPORTED;
    else
        status = m ? status_of(dnnl_primitive_create(&m->primitive, pd)) : TG_ENOMEM;
    if (status == TG_OK) {
        m->key = *w;
        m->scratch_bytes = gemm_scratch_of(pd);
        *made = m;
    } else {
        free(m); /* no case: oneDNN makes what it has described */
    }
    dnnl_primitive_desc_destroy(pd);
    return status;
}

static int index_of(const call *w)
{
    int i = 0;
    while (i < CACHE_SIZE && !(cache.entry[i] && !memcmp(&cache.entry[i]->key, w, sizeof *w)))
        i++;
    return i;
}

static int oldest(void)
{
    int old = 0;
    for (int i = 1; i < CACHE_SIZE; i++)
        if (cache.used[i] < cache.used[old])
            old = i;
    return old;
}

/* Makes the primitive of a call and puts it into the table, in the place of the one used least
 * recently. */
static tg_status add_matmul(const call *w, int *place)
{
    gemm_matmul *m;
    /* no case: tests/oom has it */
    tg_status status = tg_memory_is_left(GEMM_KERNELS) ? TG_OK : TG_ENOMEM;
    if (status == TG_OK && !cache.engine)
        status = status_of(dnnl_engine_create(&cache.engine, dnnl_cpu, 0));
    if (status == TG_OK)
        status = make_matmul(w, &m);
    if (status != TG_OK)
        return status;
    *place = oldest();
    gemm_let_go(cache.entry[*place]);
    cache.entry[*place] = m;
    atomic_store(&m->holders, 1);
    return TG_OK;
}

static void guard_cache(void)
{
    tg_lock_across_fork(&cache.lock); /* oneDNN holds locks of its own while it makes a primitive */
}

tg_status gemm_find_matmul(const call *w, const gemm_matmul **found)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, guard_cache);
    pthread_mutex_lock(&cache.lock);
    int i = index_of(w);
    const tg_status status = i < CACHE_SIZE ? TG_OK : add_matmul(w, &i);
    if (status == TG_OK) {
        cache.used[i] = ++cache.clock;
        atomic_fetch_add(&cache.entry[i]->holders, 1);
        *found = cache.entry[i];
    }
    pthread_mutex_unlock(&cache.lock);
    return status;
}

/* 0 if the first run might find no memory for kernels. */
static int has_kernels(const gemm_matmul *m)
{
    return atomic_load(&m->has_run) || tg_memory_is_left(GEMM_KERNELS);
}

/* For the objects of each run malloc is asked, which is quick. */
int gemm_can_run(const gemm_matmul *m)
{
    void *volatile memory = malloc(GEMM_OBJECTS); /* volatile: it is not left out */
    free(memory);
    return memory && has_kernels(m);
}

int64_t gemm_scratch_bytes(const gemm_matmul *m)
{
    return m->scratch_bytes;
}

int gemm_run_matmul(const gemm_matmul *m, const call *w, const char *a, const char *b, char *c,
                    char *scratch)
{
    static const int slots[ARGS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST,
                                    DNNL_ARG_SCRATCHPAD};
    void *const data[] = {(void *)a, (void *)b, c};
    dnnl_exec_arg_t args[ARGS];
    int n = 0;
    if (!has_kernels(m)) /* no case: tests/oom has it */
        return 0;        /* no case: as above */
    for (; n < 3; n++) {
        args[n].arg = slots[n];
        if (gemm_describe_memory(w, n, cache.engine, data[n], &args[n].memory) != dnnl_success)
            break;
    }
    int ok = n == 3;
    if (ok && m->scratch_bytes) { /* no case: of ok = 0, for which oneDNN must fail */
        args[n].arg = slots[n];
        ok = gemm_describe_scratch(m->scratch_bytes, cache.engine, scratch, &args[n].memory) ==
             dnnl_success;
        n += ok;
    }
    dnnl_stream_t stream = NULL;
    ok = ok && dnnl_stream_create(&stream, cache.engine, dnnl_stream_default_flags) == dnnl_success;
    ok = ok && dnnl_primitive_execute(m->primitive, stream, n, args) == dnnl_success;
    if (stream) { /* no case: of NULL, likewise */
        dnnl_stream_wait(stream);
        dnnl_stream_destroy(stream);
    }
    while (n > 0)
        dnnl_memory_destroy(args[--n].memory);
    if (ok)
        atomic_store(&((gemm_matmul *)m)->has_run, 1);
    return ok;
}
