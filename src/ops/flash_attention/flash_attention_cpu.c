/* flash_attention on the CPU: forward. Tiles of 96 queries by 96 keys, packed, multiplied in
 * registers; online softmax. */
#include "flash_attention_cpu.h"

/* ---- a task: up to FA_FORWARD_BLOCKS blocks of queries of one head over all keys ---- */

enum { FA_FORWARD_BLOCKS = 4 };

typedef struct fa_forward {
    fa_sizes n;
    fa_view q, k, v, y;
    float *lse;             /* [B,Hq,S] or NULL */
    int64_t blocks, chunks; /* blocks of queries in a task; tasks of a head */
    char *scratch;          /* one piece of scratch_size for each worker */
    int64_t scratch_size;
} fa_forward;

/* What a block of queries keeps from tile to tile. */
typedef struct fa_queries {
    float max[FA_QB], sum[FA_QB];
    word *q;     /* layout lanes */
    float *sums; /* [slice][FA_QB][64] */
} fa_queries;

SIMD_INLINE int64_t fa_forward_words(int64_t d)
{
    const int64_t tile = fa_slices(d) * FA_ROWS_TILE, stack = fa_slices(d) * FA_STACK_TILE;
    return 2 * tile + stack + FA_KB * FA_QB +
           FA_FORWARD_BLOCKS * fa_slices(d) * (FA_ROWS_TILE + FA_SUM_TILE);
}

static void fa_forward_tile(const fa_tile *t, const fa_sizes *n, const word *k, const word *v,
                            fa_queries *block, float *scores)
{
    float factor[FA_QB] __attribute__((aligned(64)));
    fa_scores(t, n->d, k, FA_KB, block->q, n->scale, scores);
    const int filled = fa_filled(t);
    for (int i = 0; i < t->nq; i += FA_NR)
        fa_softmax(t, i, filled, scores + i, block->max + i, block->sum + i, factor + i);
    for (int i = 0; i < t->nq; i++) {
        if (factor[i] == 1.0f)
            continue;
        for (int64_t c = 0; c < n->d; c += VL) {
            float *sums = block->sums + (c / FA_SLICE * FA_QB + i) * FA_SLICE + c % FA_SLICE;
            *(vf_mem *)sums = *(vf_mem *)sums * v_set(factor[i]);
        }
    }
    fa_sum_keys(t, n->d, (const word *)scores, v, FA_KB, block->sums, FA_QB);
}

static void fa_forward_finish(const fa_forward *f, const fa_queries *block, int64_t b, int64_t h,
                              int64_t q0, int64_t nq)
{
    float *lse = f->lse ? f->lse + (b * f->n.heads + h) * f->n.queries + q0 : NULL;
    for (int64_t i = 0; i < nq; i++) {
        const float sum = block->sum[i];
        const float factor = sum == 0.0f ? 0.0f : 1.0f / sum;
        fa_store_row(f->n.type, fa_at(&f->y, f->n.type, b, q0 + i, h), f->n.d,
                     block->sums + i * FA_SLICE, FA_QB * FA_SLICE, factor);
        if (lse)
            lse[i] = sum == 0.0f ? -INFINITY : block->max[i] + logf(sum);
    }
}

static void fa_forward_task(const fa_forward *f, int64_t b, int64_t h, int64_t chunk, int worker)
{
    const fa_sizes *n = &f->n;
    const int64_t slices = fa_slices(n->d), offset = n->keys - n->queries;
    const int64_t hk = h / (n->heads / n->key_heads);
    word *k = (word *)(f->scratch + worker * f->scratch_size);
    word *v = k + slices * FA_ROWS_TILE, *v_stack = v + slices * FA_ROWS_TILE;
    float *scores = (float *)(v_stack + slices * FA_STACK_TILE);
    word *rest = (word *)(scores + FA_KB * FA_QB);
    fa_queries blocks[FA_FORWARD_BLOCKS] __attribute__((aligned(64)));

    const int64_t begin = chunk * f->blocks * FA_QB;
    const int64_t end = fa_min(n->queries, begin + f->blocks * FA_QB);
    for (int64_t q0 = begin, i = 0; q0 < end; q0 += FA_QB, i++) {
        const int64_t nq = fa_min(end - q0, FA_QB);
        fa_queries *block = &blocks[i];
        block->q = rest;
        block->sums = (float *)(rest + slices * FA_ROWS_TILE);
        rest += slices * (FA_ROWS_TILE + FA_SUM_TILE);
        fa_pack_rows(n->type, fa_at(&f->q, n->type, b, q0, h), f->q.row, nq, fa_round_up(nq, FA_NR),
                     n->d, k, FA_QB);
        fa_lanes(k, nq, n->d, block->q);
        memset(block->sums, 0, (size_t)(slices * FA_SUM_TILE) * sizeof(float));
        for (int64_t j = 0; j < FA_QB; j++)
            block->max[j] = -INFINITY, block->sum[j] = 0.0f;
    }
    const int64_t seen = n->causal ? fa_min(n->keys, end + offset) : n->keys;
    for (int64_t k0 = 0; k0 < seen; k0 += FA_KB) {
        const int64_t nk = fa_min(n->keys - k0, FA_KB), padded = fa_round_up(nk, FA_MR);
        fa_pack_rows(n->type, fa_at(&f->k, n->type, b, k0, hk), f->k.row, nk, padded, n->d, k,
                     FA_KB);
        fa_pack_rows(n->type, fa_at(&f->v, n->type, b, k0, hk), f->v.row, nk, padded, n->d, v,
                     FA_KB);
        const word *stack = fa_stack(v, v_stack, padded, n->d, FA_KB);
        for (int64_t q0 = begin, i = 0; q0 < end; q0 += FA_QB, i++) {
            const fa_tile t = fa_tile_of(q0, fa_min(end - q0, FA_QB), k0, nk, n->causal, offset);
            if (fa_keys(&t, t.nq - 1) > 0)
                fa_forward_tile(&t, n, k, stack, &blocks[i], scores);
        }
    }
    for (int64_t q0 = begin, i = 0; q0 < end; q0 += FA_QB, i++)
        fa_forward_finish(f, &blocks[i], b, h, q0, fa_min(end - q0, FA_QB));
}

/* The last chunk of a head first: under a causal mask it costs most. */
static void fa_forward_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    const fa_forward *f = arg;
    tiles_open();
    for (int64_t task = begin; task < end; task++) {
        const int64_t head = task / f->chunks, chunk = f->chunks - 1 - task % f->chunks;
        fa_forward_task(f, head / f->n.heads, head % f->n.heads, chunk, worker);
    }
    tiles_close();
}

/* ---- calls ---- */

static tg_status forward(tg_ctx *ctx, const tg_flash_attention_forward_args *a)
{
    fa_forward f = {.n = fa_sizes_of(a->q, a->k, a->scale, a->causal),
                    .q = fa_view_of(a->q),
                    .k = fa_view_of(a->k),
                    .v = fa_view_of(a->v),
                    .y = fa_view_of(a->y),
                    .lse = tg_data(a->lse)};
    const int64_t heads = f.n.batch * f.n.heads, blocks = (f.n.queries + FA_QB - 1) / FA_QB;
    if (heads * blocks == 0)
        return TG_OK;
    /* many blocks in a task pack keys less often, few make more tasks */
    f.blocks = FA_FORWARD_BLOCKS;
    while (f.blocks > 1 && heads * ((blocks + f.blocks - 1) / f.blocks) < 32)
        f.blocks /= 2;
    f.chunks = (blocks + f.blocks - 1) / f.blocks;
    f.scratch = fa_scratch(ctx, fa_forward_words(f.n.d), &f.scratch_size);
    if (!f.scratch)
        return TG_ENOMEM;
    const int64_t rows = fa_min(f.blocks * FA_QB, f.n.queries);
    tg_parallel_for(ctx, heads * f.chunks, fa_grain(2 * rows * f.n.keys * f.n.d), fa_forward_tasks,
                    &f);
    return TG_OK;
}

TG_CPU_IMPLS(flash_attention) = {TG_CPU_IMPL_IF(flash_attention_forward, FA_TAKES, NULL, forward),
                                 TG_IMPLS_END};
