/* src/gemm/gemm_onednn.c - gemm's default implementation: oneDNN, 2.6 or 3.x.
 *
 * Each block of c is one product of oneDNN (gemm_blocks.h). f32 goes through dnnl_sgemm. It
 * multiplies an operand by alpha as it copies it, which may overflow, and so this takes an alpha of
 * 1 alone. bf16 goes through the matmul primitive, on processors whose bf16 products are faster
 * than f32's; elsewhere the portable one, which converts as it packs, is.
 */
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "core/ceiling.h"
#include "core/parts.h"
#include "gemm_dnnl.h"

typedef struct product product;

/* Computes one block; 0 if oneDNN found no memory. */
typedef int block_fn(const product *g, const call *w, const char *a, const char *b, char *c,
                     int worker);

struct product {
    gemm_blocks blocks;
    block_fn *run_block;
    const gemm_matmul *matmul[4];
    tg_status found; /* of all of them */
    char *scratch;
    int64_t scratch_bytes; /* of a worker */
};

/* ---- without memory ----
 *
 * oneDNN takes memory of its own. If it finds none in the midst of a product it has not touched
 * the block then, but others may be written, so that it is too late for an error: plain loops
 * compute what it does not.
 * no case: oneDNN finds memory where the checker runs; tests/oom has it */
static void plain_block(const product *g, const call *w, const char *a, const char *b, char *c)
{
    const int type = g->blocks.type;
    for (int64_t i = 0; i < w->m; i++)
        for (int64_t j = 0; j < w->n; j++) {
            double sum = 0;
            for (int64_t p = 0; p < w->k; p++)
                sum += tg_get(a, type, w->trans_a ? p * w->ld_a + i : i * w->ld_a + p) *
                       tg_get(b, type, w->trans_b ? j * w->ld_b + p : p * w->ld_b + j);
            const int64_t at = i * w->ld_c + j;
            if (w->beta != 0)
                sum += tg_get(c, w->c_type, at);
            tg_set(c, w->c_type, at, sum);
        }
}

/* oneDNN 2.6 has kernels that move the stack pointer into their own buffer on the heap. A
 * signal that the thread handled meanwhile would be written below it, over somebody's
 * memory; so it waits. */
static void hold_signals(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, before);
}

static void take_signals(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

static void run_blocks(void *arg, int64_t begin, int64_t end, int worker)
{
    const product *g = arg;
    sigset_t before;
    hold_signals(&before);
    for (int64_t n = begin; n < end; n++) {
        const char *a, *b;
        char *c;
        const call w = gemm_block(&g->blocks, n, &a, &b, &c);
        gemm_begin_block(&g->blocks, n, c);
        if (!g->run_block(g, &w, a, b, c, worker)) /* no case: oneDNN finds memory */
            plain_block(g, &w, a, b, c);           /* no case: as above */
    }
    take_signals(&before);
}

/* ---- f32 ---- */

static int multiply(const call *w, const char *a, const char *b, char *c)
{
    return dnnl_sgemm(w->trans_a ? 'T' : 'N', w->trans_b ? 'T' : 'N', w->m, w->n, w->k, 1.0f,
                      (const float *)a, w->ld_a, (const float *)b, w->ld_b, w->beta, (float *)c,
                      w->ld_c) == dnnl_success;
}

/* Without memory for a block its rows are products of their own: those need none.
 * no case: as above */
static int run_sgemm(const product *g, const call *w, const char *a, const char *b, char *c,
                     int worker)
{
    (void)worker;
    if (multiply(w, a, b, c))
        return 1;
    call row = *w; /* no case: as above */
    row.m = 1;     /* no case: as above */
    for (int64_t i = 0; i < w->m; i++) {
        const char *from =
            a + (w->trans_a ? i : i * w->ld_a) * g->blocks.size; /* no case: as above */
        char *to = c + i * w->ld_c * g->blocks.c_size;           /* no case: as above */
        if (!multiply(&row, from, b, to))                        /* no case: as above */
            plain_block(g, &row, from, b, to);                   /* no case: as above */
    }
    return 1; /* no case: as above */
}

/* dnnl_sgemm makes its kernels in a process's first products of two kinds: large ones,
 * and those with few results of many terms. Only from then on it returns an error where
 * there is no memory. */
static struct {
    pthread_mutex_t lock;
    pthread_once_t once;
    atomic_int made;
} kernels = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

static void guard_kernels(void)
{
    tg_lock_across_fork(&kernels.lock);
}

/* Runs as a task, so that oneDNN stays on this thread. */
static void make_kernels(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)begin, (void)end, (void)worker;
    enum { N = 8 };
    static const float zeros[N * N];
    float results[N * N];
    call w = {.m = N, .n = N, .k = N, .ld_a = N, .ld_b = N, .ld_c = N};
    int *made = arg;
    sigset_t before;
    hold_signals(&before);
    for (w.trans_b = 0; w.trans_b < 2; w.trans_b++)
        *made &= multiply(&w, (const char *)zeros, (const char *)zeros, (char *)results);
    take_signals(&before);
}

static tg_status find_kernels(tg_ctx *ctx)
{
    if (atomic_load_explicit(&kernels.made, memory_order_acquire))
        return TG_OK;
    pthread_once(&kernels.once, guard_kernels);
    pthread_mutex_lock(&kernels.lock);
    int made = tg_memory_is_left(GEMM_KERNELS);
    if (made)
        tg_parallel_for(ctx, 1, 1, make_kernels, &made);
    atomic_store_explicit(&kernels.made, made, memory_order_release);
    pthread_mutex_unlock(&kernels.lock);
    /* no case: tests/oom has it */
    return made ? TG_OK : tg_fail(TG_ENOMEM, "oneDNN found no memory for its kernels");
}

/* ---- bf16 ---- */

/* Blocks come in up to four shapes: whole, at the right, at the bottom, and in the corner. */
static int shape_of(const product *g, const call *block)
{
    return (block->m < g->blocks.rows) + 2 * (block->n < g->blocks.cols);
}

/* Runs as a task, since primitives are made for the number of threads that they find. */
static void find_matmuls(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)begin, (void)end, (void)worker;
    product *g = arg;
    const int64_t down = g->blocks.down, across = g->blocks.across;
    const int64_t sample[] = {0, down - 1, (across - 1) * down, across * down - 1};
    for (int i = 0; i < 4; i++) {
        const char *a, *b;
        char *c;
        const call w = gemm_block(&g->blocks, sample[i], &a, &b, &c);
        const gemm_matmul **m = &g->matmul[shape_of(g, &w)];
        /* no case: of a failure of oneDNN */
        if (!*m && g->found == TG_OK)
            g->found = gemm_find_matmul(&w, m);
        /* no case: of a failure of oneDNN */
        if (*m && gemm_scratch_bytes(*m) > g->scratch_bytes)
            g->scratch_bytes = gemm_scratch_bytes(*m);
    }
}

static int run_bf16_block(const product *g, const call *w, const char *a, const char *b, char *c,
                          int worker)
{
    char *scratch = g->scratch + worker * g->scratch_bytes;
    return gemm_run_matmul(g->matmul[shape_of(g, w)], w, a, b, c, scratch);
}

static tg_status run_bf16(tg_ctx *ctx, product *g)
{
    tg_parallel_for(ctx, 1, 1, find_matmuls, g);
    tg_status status = g->found;
    if (status == TG_ENOMEM)
        tg_fail(status, "oneDNN found no memory for a product"); /* no case: tests/oom has it */
    if (status == TG_OK) {
        g->scratch_bytes = (g->scratch_bytes + 4095) / 4096 * 4096;
        g->scratch = tg_workspace(ctx, (size_t)(g->scratch_bytes * tg_ctx_threads(ctx)));
        status = g->scratch ? TG_OK : TG_ENOMEM;
    }
    const int may_fail = !tg_is_part(ctx) || tg_reserving(ctx);
    for (int i = 0; i < 4 && status == TG_OK && may_fail; i++)
        if (g->matmul[i] && !gemm_can_run(g->matmul[i])) /* no case: tests/oom has it */
            status = tg_fail(TG_ENOMEM, "oneDNN would find no memory"); /* no case: as above */
    if (status == TG_OK && !tg_reserving(ctx))
        tg_parallel_for(ctx, g->blocks.count, 1, run_blocks, g);
    for (int i = 0; i < 4; i++)
        gemm_let_go(g->matmul[i]);
    return status;
}

/* ---- calls ---- */

static tg_status run(tg_ctx *ctx, const tg_gemm_args *args)
{
    const int type = tg_type_of(args->a);
    product g = {.blocks = gemm_cut(args),
                 .run_block = type == TG_BF16 ? run_bf16_block : run_sgemm};
    if (g.blocks.count > 0 && type == TG_BF16)
        return run_bf16(ctx, &g);
    if (g.blocks.count > 0)
        TG_TRY(find_kernels(ctx));
    if (tg_reserving(ctx))
        return TG_OK;
    if (g.blocks.count == 0)
        gemm_add_alone(args);
    tg_parallel_for(ctx, g.blocks.count, 1, run_blocks, &g);
    return TG_OK;
}

/* On matrix units oneDNN 2.6 ends the process with SIGILL where a block has fewer than 16 rows or
 * columns and 31 terms are left after whole tiles: its tiles do not fit each other. */
static int breaks_tiles(const tg_gemm_args *args)
{
    enum { TILE = 16, TERMS = 32 };
    const gemm_blocks g = gemm_cut(args);
    if (g.type != TG_BF16 || g.whole.k % TERMS != TERMS - 1 || g.count == 0)
        return 0;
    const int64_t last_rows = g.whole.m - (g.down - 1) * g.rows;
    const int64_t last_cols = g.whole.n - (g.across - 1) * g.cols;
    return last_rows < TILE || last_cols < TILE;
}

static int accepts(const tg_gemm_args *args)
{
    if (args->alpha != 1 || !gemm_isa_takes(tg_type_of(args->a)) || !gemm_adds_to_c(args))
        return 0;
    return gemm_plain_strides(args) && !breaks_tiles(args);
}

static tg_status run_batch(tg_ctx *ctx, const tg_batched_gemm_args *args)
{
    const tg_gemm_args all = gemm_of_batch(args);
    /* bf16 is not cut once more: breaks_tiles() */
    return tg_type_of(args->a) == TG_BF16 ? run(ctx, &all) : gemm_run_batch(ctx, args, run);
}

/* A call of oneDNN takes longer than the portable kernel needs for a tiny product, unless that has
 * nothing to fill its registers. */
static int accepts_batch(const tg_batched_gemm_args *args)
{
    enum { TINY = 32 * 32 * 32, FEW = 8 /* rows or columns */ };
    const tg_gemm_args all = gemm_of_batch(args);
    const int64_t m = gemm_rows(args->c), n = gemm_cols(args->c);
    return accepts(&all) && (m < FEW || n < FEW || m * n * gemm_inner(&all) > TINY);
}

const tg_impl tg_impls_gemm_onednn[] = {
    TG_IMPL(gemm, "onednn", TG_CPU_PROCESS, TG_TAKES_FLOATS, accepts, run),
    TG_IMPL(batched_gemm, "onednn", TG_CPU_PROCESS, TG_TAKES_FLOATS, accepts_batch, run_batch),
    TG_IMPLS_END};
