/* flash_attention on the CPU: backward, and how its tiles are cut into tasks.
 *
 * A task owns some blocks of keys of one key head and a share of the query heads that read it. Its
 * sums over queries (dk, dv) are complete for those heads; its sums over keys (dq) are partial if
 * the keys of a head are shared among tasks. All partial sums are added in the order of the tasks.
 */
#include "flash_attention_cpu_backward.h"

/* ---- tasks ---- */

/* Rows of dq of one head: the sum of the chunks' parts, dq_size floats apart. */
static void fa_store_queries(const fa_backward *w, const fa_cut *cut, int64_t h, int64_t q0,
                             int64_t q1, float *dq)
{
    const fa_sizes *n = &w->n;
    const attention_sequence *at = &cut->of.at;
    for (int64_t s = 0; s < fa_slices(n->d); s++)
        for (int64_t c = 1; c < cut->chunks; c++) {
            float *sum = dq + s * cut->padded * FA_SLICE, *part = sum + c * cut->dq_size;
            for (int64_t i = q0 * FA_SLICE; i < q1 * FA_SLICE; i += VL)
                *(vf_mem *)(sum + i) += *(const vf_mem *)(part + i);
        }
    for (int64_t q = q0; q < q1; q++)
        fa_store_row(n->type, fa_at(&w->dq, n->type, at->batch, at->query + q, h), n->d,
                     dq + q * FA_SLICE, cut->padded * FA_SLICE, n->scale);
}

/* Keys that no query sees have no gradient. */
static void fa_clear_keys(const fa_backward *w, fa_owner owner, int64_t end)
{
    const fa_sizes *n = &w->n;
    const fa_cut *cut = &w->cut[owner.sequence];
    const attention_sequence *s = &cut->of.at;
    const size_t size = (size_t)el_size(n->type);
    for (int64_t k = 0; k < end && cut->shares == 1; k++) {
        memset(fa_at(&w->dk, n->type, s->batch, s->key + k, owner.key_head), 0, n->d * size);
        memset(fa_at(&w->dv, n->type, s->batch, s->key + k, owner.key_head), 0, n->e * size);
    }
    float *part =
        w->dkv + cut->dkv + (owner.key_head * cut->shares + owner.share) * s->keys * (n->d + n->e);
    if (cut->shares > 1) {
        memset(part, 0, (size_t)(end * n->d) * sizeof *part);
        memset(part + s->keys * n->d, 0, (size_t)(end * n->e) * sizeof *part);
    }
}

static void fa_backward_task(const fa_backward *w, int64_t task, int worker)
{
    const int64_t sequence = fa_find(w->tasks, w->n.mask.sequences, task);
    const fa_cut *cut = &w->cut[sequence];
    const int64_t at = task - w->tasks[sequence], chunk = at % cut->chunks;
    const fa_owner owner = {sequence, at / cut->chunks / cut->shares,
                            at / cut->chunks % cut->shares};
    const int64_t heads = w->group / cut->shares, rows = cut->tiles * FA_KB;
    float *dq = cut->chunks == 1 ? w->dq_own + worker * w->dq_most
                                 : w->dq_sums + cut->dq + at * cut->dq_size;
    memset(dq, 0, (size_t)cut->dq_size * sizeof *dq);
    if (chunk == 0)
        fa_clear_keys(w, owner, cut->first);
    /* blocks are dealt to and fro, since under a causal mask earlier keys cost more */
    const int64_t blocks = (cut->of.at.keys - cut->first + rows - 1) / rows;
    for (int64_t i = 0; i < blocks; i++) {
        const int64_t turn = i / cut->chunks, place = i % cut->chunks;
        if ((turn % 2 ? cut->chunks - 1 - place : place) == chunk)
            fa_backward_keys(w, (word *)(w->scratch + worker * w->scratch_size), owner,
                             cut->first + i * rows, dq);
    }
    for (int64_t i = 0; i < heads && cut->chunks == 1; i++)
        fa_store_queries(w, cut, owner.key_head * w->group + owner.share * heads + i, 0,
                         cut->of.at.queries, dq + i * (cut->dq_size / heads));
}

static void fa_backward_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    tiles_open();
    for (int64_t task = begin; task < end; task++)
        fa_backward_task(arg, task, worker);
    tiles_close();
}

/* dq of blocks of queries, from the parts of all chunks */
static void fa_add_dq_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const fa_backward *w = arg;
    for (int64_t i = begin; i < end; i++) {
        const fa_block_of block = fa_block_at(w, i);
        const fa_cut *cut = &w->cut[block.sequence];
        const int64_t heads = w->group / cut->shares;
        if (cut->chunks == 1)
            continue;
        float *dq = w->dq_sums + cut->dq + block.head / heads * cut->chunks * cut->dq_size +
                    block.head % heads * (cut->dq_size / heads);
        fa_store_queries(w, cut, block.head, block.begin,
                         fa_min(cut->of.at.queries, block.begin + FA_QB), dq);
    }
}

/* A row of dk or dv of d elements, from the parts of all shares, `step` floats apart. */
SIMD_INLINE void fa_add_row(el e, const float *part, int64_t shares, int64_t step, int64_t d,
                            char *to)
{
    for (int64_t c = 0; c < d; c += VL) {
        const int64_t left = fa_min(VL, d - c);
        vf sum = v_set(0.0f);
        for (int64_t share = 0; share < shares; share++)
            sum += v_load_n(EL_F32, part + share * step, c, left, 0.0f);
        v_store_n(e, to, c, left, sum);
    }
}

static void fa_add_dkv_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const fa_backward *w = arg;
    const fa_sizes *n = &w->n;
    for (int64_t row = begin; row < end; row++) {
        const int64_t sequence = fa_find(w->keys, n->mask.sequences, row);
        const fa_cut *cut = &w->cut[sequence];
        const attention_sequence *s = &cut->of.at;
        const int64_t at = row - w->keys[sequence], hk = at / s->keys, k = at % s->keys;
        const int64_t step = s->keys * (n->d + n->e);
        if (cut->shares == 1)
            continue;
        const float *part = w->dkv + cut->dkv + hk * cut->shares * step;
        EL_SPECIALIZE(n->type, fa_add_row, part + k * n->d, cut->shares, step, n->d,
                      fa_at(&w->dk, n->type, s->batch, s->key + k, hk));
        EL_SPECIALIZE(n->type, fa_add_row, part + s->keys * n->d + k * n->e, cut->shares, step,
                      n->e, fa_at(&w->dv, n->type, s->batch, s->key + k, hk));
    }
}

/* ---- calls ---- */

enum { LEAST_TASKS = 8 };

/* How a sequence is cut, by sizes alone. alone: by those of its heads and keys, as if it
 * were the only one. */
static void cut(const fa_backward *w, int64_t pairs, int alone, fa_cut *c)
{
    const fa_sizes *n = &w->n;
    const attention_sequence *s = &c->of.at;
    const int64_t own = s->queries * s->keys;
    const int64_t alike = alone ? 1 : own ? pairs / own : LEAST_TASKS;
    const int64_t first = alone ? 0 : fa_first_key(&c->of, 0);
    c->first = s->queries ? fa_min(s->keys, first) : s->keys;
    c->shares = alike * n->key_heads < LEAST_TASKS ? w->group : 1;
    const int64_t owners = alike * n->key_heads * c->shares;
    const int64_t wanted = (LEAST_TASKS + owners - 1) / owners;
    const int64_t tiles = (s->keys - c->first + FA_KB - 1) / FA_KB;
    c->tiles = fa_max(1, fa_min(tiles, wanted > 1 ? 2 : 4));
    c->chunks = fa_max(1, fa_min(wanted, (tiles + c->tiles - 1) / c->tiles));
    c->padded = fa_round_up(s->queries, FA_QB);
    c->dq_size = w->group / c->shares * fa_slices(n->d) * c->padded * FA_SLICE;
}

static float *floats(tg_ctx *ctx, int64_t count)
{
    return tg_workspace(ctx, (size_t)fa_max(1, count) * sizeof(float));
}

/* How all sequences are cut, and the memory for it. */
static tg_status allocate(tg_ctx *ctx, fa_backward *w)
{
    const fa_sizes *n = &w->n;
    const int64_t count = n->mask.sequences, pairs = fa_pairs(&n->mask);
    w->cut = tg_workspace(ctx, (size_t)count * sizeof *w->cut);
    w->tasks = w->cut ? tg_workspace(ctx, (size_t)(3 * (count + 1)) * sizeof *w->tasks) : NULL;
    if (!w->tasks)
        return TG_ENOMEM;
    w->blocks = w->tasks + count + 1;
    w->keys = w->blocks + count + 1;
    w->tasks[0] = w->blocks[0] = w->keys[0] = 0;
    int64_t tiles = 1, dq = 0, dkv = 0;
    for (int64_t i = 0; i < count; i++) {
        fa_cut *c = &w->cut[i];
        *c = (fa_cut){.of = fa_sequence_at(&n->mask, i), .dq = dq, .dkv = dkv};
        cut(w, pairs, tg_ctx_batch_invariant(ctx), c);
        const int64_t owners = n->key_heads * c->shares, keys = c->of.at.keys;
        w->tasks[i + 1] = w->tasks[i] + owners * c->chunks;
        w->blocks[i + 1] = w->blocks[i] + n->heads * (c->padded / FA_QB);
        w->keys[i + 1] = w->keys[i] + n->key_heads * keys;
        tiles = fa_max(tiles, c->tiles);
        dq += c->chunks > 1 ? owners * c->chunks * c->dq_size : 0;
        dkv += c->shares > 1 ? owners * keys * (n->d + n->e) : 0;
        w->dq_most = fa_max(w->dq_most, c->chunks == 1 ? c->dq_size : 0);
    }
    w->rows = floats(ctx, w->blocks[count] * 2 * FA_QB);
    w->dq_sums = w->rows ? floats(ctx, dq + w->dq_most * tg_ctx_threads(ctx)) : NULL;
    w->dkv = w->dq_sums ? floats(ctx, dkv) : NULL;
    if (!w->dkv)
        return TG_ENOMEM;
    w->dq_own = w->dq_sums + dq;
    w->scratch = fa_scratch(ctx, fa_gradient_words(n->d, n->e, tiles), &w->scratch_size);
    return w->scratch ? TG_OK : TG_ENOMEM;
}

static tg_status backward(tg_ctx *ctx, const tg_flash_attention_backward_args *a)
{
    fa_backward w = {.n = FA_SIZES(a),
                     .q = fa_view_of(a->q),
                     .k = fa_view_of(a->k),
                     .v = fa_view_of(a->v),
                     .y = fa_view_of(a->y),
                     .dy = fa_view_of(a->dy),
                     .dq = fa_view_of(a->dq),
                     .dk = fa_view_of(a->dk),
                     .dv = fa_view_of(a->dv),
                     .lse = tg_data(a->lse),
                     .dsinks = a->dsinks};
    const fa_sizes *n = &w.n;
    if (n->key_heads == 0)
        return TG_OK;
    w.group = n->heads / n->key_heads;
    TG_TRY(allocate(ctx, &w));
    const int64_t count = n->mask.sequences, d = n->d + n->e;
    const int64_t products = fa_pairs(&n->mask) * n->heads * d / 2 / fa_max(1, w.tasks[count]);
    tg_parallel_for(ctx, w.blocks[count], fa_grain(FA_QB * d * 4), fa_prepare_tasks, &w);
    tg_parallel_for(ctx, w.tasks[count], fa_grain(5 * products), fa_backward_tasks, &w);
    if (w.dq_own > w.dq_sums)
        tg_parallel_for(ctx, w.blocks[count], fa_grain(FA_QB * d * LEAST_TASKS * 4),
                        fa_add_dq_tasks, &w);
    tg_parallel_for(ctx, w.keys[count], fa_grain(d * w.group * 4), fa_add_dkv_tasks, &w);
    if (w.dsinks)
        tg_parallel_for(ctx, n->heads, fa_grain(w.blocks[count] / n->heads * FA_QB * 8),
                        fa_sink_tasks, &w);
    return TG_OK;
}

TG_CPU_IMPLS(flash_attention_backward) = {
    TG_CPU_IMPL_IF(flash_attention_backward, FA_TAKES, NULL, backward), TG_IMPLS_END};
