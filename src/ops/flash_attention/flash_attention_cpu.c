/* flash_attention, fast: tiles of 96 queries by 96 keys, packed, multiplied in registers. */
#include "core/services.h"

#include "flash_attention_backward.h"

/* With products of pairs of bf16 this is a row for bf16 alone; other types have nothing to gain. */
static fa_view view(const tg_tensor *t)
{
    return (fa_view){tg_data(t), tg_stride(t, 0), tg_stride(t, 1), tg_stride(t, 2)};
}

static fa_sizes sizes(const tg_tensor *q, const tg_tensor *k, double scale, int64_t causal)
{
    const int64_t d = q->shape[3];
    fa_sizes n = {.type = (el)tg_el(tg_type_of(q)),
                  .batch = q->shape[0],
                  .queries = q->shape[1],
                  .keys = k->shape[1],
                  .heads = q->shape[2],
                  .key_heads = k->shape[2],
                  .d = d,
                  .causal = (int)causal};
    n.scale = (float)(scale != 0 ? scale : d > 0 ? 1 / sqrt((double)d) : 1);
    return n;
}

/* Tasks that one worker takes at once: about a million products, so that small problems stay on one
 * thread. */
static int64_t grain(int64_t products_per_task)
{
    return ((int64_t)1 << 20) / (products_per_task + 1) + 1;
}

static char *scratch_for_workers(tg_ctx *ctx, int64_t words, int64_t *size)
{
    *size = fa_round_up(words * (int64_t)sizeof(word), 64);
    return tg_workspace(ctx, (size_t)(*size * tg_ctx_threads(ctx)));
}

/* ---- forward ---- */

static tg_status forward(tg_ctx *ctx, const tg_flash_attention_forward_args *a)
{
    fa_forward f = {.n = sizes(a->q, a->k, a->scale, a->causal),
                    .q = view(a->q),
                    .k = view(a->k),
                    .v = view(a->v),
                    .y = view(a->y),
                    .lse = tg_data(a->lse)};
    const int64_t heads = f.n.batch * f.n.heads, blocks = (f.n.queries + FA_QB - 1) / FA_QB;
    if (heads * blocks == 0)
        return TG_OK;
    /* many blocks in a task pack keys less often, few make more tasks */
    f.blocks = FA_FORWARD_BLOCKS;
    while (f.blocks > 1 && heads * ((blocks + f.blocks - 1) / f.blocks) < 32)
        f.blocks /= 2;
    f.chunks = (blocks + f.blocks - 1) / f.blocks;
    f.scratch = scratch_for_workers(ctx, fa_forward_words(f.n.d), &f.scratch_size);
    if (!f.scratch)
        return TG_ENOMEM;
    const int64_t rows = fa_min(f.blocks * FA_QB, f.n.queries);
    tg_parallel_for(ctx, heads * f.chunks, grain(2 * rows * f.n.keys * f.n.d), fa_forward_tasks,
                    &f);
    return TG_OK;
}

/* ---- backward ---- */

enum { LEAST_TASKS = 8 };

/* How the work is cut, by sizes alone. */
static void cut(fa_backward *w)
{
    const fa_sizes *n = &w->n;
    w->group = n->heads / n->key_heads;
    w->shares = n->batch * n->key_heads < LEAST_TASKS ? w->group : 1;
    const int64_t owners = n->batch * n->key_heads * w->shares;
    const int64_t wanted = (LEAST_TASKS + owners - 1) / owners;
    const int64_t tiles = (n->keys + FA_KB - 1) / FA_KB;
    w->tiles = fa_max(1, fa_min(tiles, wanted > 1 ? 2 : 4));
    w->chunks = fa_max(1, fa_min(wanted, (tiles + w->tiles - 1) / w->tiles));
    w->padded = fa_round_up(n->queries, FA_QB);
    w->dq_size = w->group / w->shares * fa_slices(n->d) * w->padded * FA_SLICE;
}

static tg_status allocate(tg_ctx *ctx, fa_backward *w)
{
    const fa_sizes *n = &w->n;
    const int64_t owners = n->batch * n->key_heads * w->shares;
    const int64_t parts = w->chunks == 1 ? tg_ctx_threads(ctx) : owners * w->chunks;
    w->rows = tg_workspace(ctx, (size_t)(n->batch * n->heads * 2 * w->padded) * sizeof(float));
    w->dq_sums = w->rows ? tg_workspace(ctx, (size_t)(parts * w->dq_size) * sizeof(float)) : NULL;
    if (!w->dq_sums)
        return TG_ENOMEM;
    if (w->shares > 1) {
        w->dkv = tg_workspace(ctx, (size_t)(owners * 2 * n->keys * n->d) * sizeof(float));
        if (!w->dkv)
            return TG_ENOMEM;
    }
    w->scratch = scratch_for_workers(ctx, fa_gradients_words(n->d, w->tiles), &w->scratch_size);
    return w->scratch ? TG_OK : TG_ENOMEM;
}

static tg_status backward(tg_ctx *ctx, const tg_flash_attention_backward_args *a)
{
    fa_backward w = {.n = sizes(a->q, a->k, a->scale, a->causal),
                     .q = view(a->q),
                     .k = view(a->k),
                     .v = view(a->v),
                     .y = view(a->y),
                     .dy = view(a->dy),
                     .dq = view(a->dq),
                     .dk = view(a->dk),
                     .dv = view(a->dv),
                     .lse = tg_data(a->lse)};
    const fa_sizes *n = &w.n;
    if (n->batch * n->key_heads == 0)
        return TG_OK;
    cut(&w);
    TG_TRY(allocate(ctx, &w));
    const int64_t owners = n->batch * n->key_heads * w.shares;
    const int64_t heads = n->batch * n->heads, blocks = w.padded / FA_QB;
    const int64_t products = w.group / w.shares * n->queries * n->keys * n->d / w.chunks;
    tg_parallel_for(ctx, heads * blocks, grain(FA_QB * n->d * 8), fa_prepare_tasks, &w);
    tg_parallel_for(ctx, owners * w.chunks, grain(5 * products), fa_backward_tasks, &w);
    if (w.chunks > 1)
        tg_parallel_for(ctx, heads * blocks, grain(FA_QB * n->d * w.chunks * 8), fa_add_dq_tasks,
                        &w);
    if (w.shares > 1)
        tg_parallel_for(ctx, n->batch * n->key_heads * n->keys, grain(n->d * w.shares * 8),
                        fa_add_dkv_tasks, &w);
    return TG_OK;
}

enum { TAKES = FA_PAIRS ? TG_TAKES_BF16 : TG_TAKES_FLOATS };

TG_CPU_IMPLS(flash_attention) = {TG_CPU_IMPL_IF(flash_attention_forward, TAKES, NULL, forward),
                                 TG_CPU_IMPL_IF(flash_attention_backward, TAKES, NULL, backward),
                                 TG_IMPLS_END};
