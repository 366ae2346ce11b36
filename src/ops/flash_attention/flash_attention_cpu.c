/* flash_attention on the CPU: forward. Tiles of 96 queries by 96 keys, packed, multiplied in
 * registers; online softmax. Few queries of a sequence have a kernel of their own. */
#include "flash_attention_cpu_kernels.h"

/* ---- a task: up to FA_FORWARD_BLOCKS blocks of queries of one head over all keys ---- */

enum { FA_FORWARD_BLOCKS = 4 };

typedef struct fa_forward {
    fa_sizes n;
    fa_view q, k, v, y;
    float *lse;     /* [B,Hq,S] or NULL */
    int64_t blocks; /* of queries in a task, at most */
    int64_t *tasks; /* before each sequence, and in all */
    /* Of a sequence of few queries: pieces of its keys, else 0; before each sequence, floats of
     * their results. */
    int64_t *pieces, *before;
    float *parts;
    char *scratch; /* one piece of scratch_size for each worker */
    int64_t scratch_size;
    int alike; /* the number of queries decides nothing, and tiles of keys begin at multiples */
} fa_forward;

/* What a block of queries keeps from tile to tile. */
typedef struct fa_queries {
    float max[FA_QB], sum[FA_QB];
    word *q;     /* layout lanes */
    float *sums; /* [slice][FA_QB][64] */
} fa_queries;

SIMD_INLINE int64_t fa_forward_words(int64_t d, int64_t e)
{
    const int64_t values = fa_slices(e) * (FA_ROWS_TILE + FA_STACK_TILE);
    return fa_slices(d) * FA_ROWS_TILE + values + FA_KB * FA_QB +
           FA_FORWARD_BLOCKS * (fa_slices(d) * FA_ROWS_TILE + fa_slices(e) * FA_SUM_TILE);
}

/* What a task has: some blocks of queries of one head, and a worker's scratch. */
typedef struct fa_task {
    const fa_forward *f;
    fa_sequence of;
    int64_t head, begin, end; /* queries of the sequence */
    word *k, *v, *v_stack;
    float *scores;
    fa_queries *blocks;
} fa_task;

static void fa_forward_begin(const fa_task *task, word *rest)
{
    const fa_sizes *n = &task->f->n;
    const attention_sequence *s = &task->of.at;
    const float sink = n->sinks ? fa_number(n->sinks_type, n->sinks, task->head) : -INFINITY;
    const float first = sink == -INFINITY ? 0.0f : 1.0f;
    fa_queries *block = task->blocks;
    for (int64_t q0 = task->begin; q0 < task->end; q0 += FA_QB, block++) {
        const int64_t nq = fa_min(task->end - q0, FA_QB);
        block->q = rest;
        block->sums = (float *)(rest + fa_slices(n->d) * FA_ROWS_TILE);
        rest += fa_slices(n->d) * FA_ROWS_TILE + fa_slices(n->e) * FA_SUM_TILE;
        fa_pack_rows(n->type, fa_at(&task->f->q, n->type, s->batch, s->query + q0, task->head),
                     task->f->q.row, nq, fa_round_up(nq, FA_NR), n->d, task->k, FA_QB);
        fa_lanes(task->k, nq, n->d, block->q);
        memset(block->sums, 0, (size_t)(fa_slices(n->e) * FA_SUM_TILE) * sizeof(float));
        for (int64_t j = 0; j < FA_QB; j++)
            block->max[j] = sink, block->sum[j] = first;
    }
}

static void fa_forward_tile(const fa_task *task, const fa_tile *t, int64_t q0, int64_t k0,
                            const word *stack, fa_queries *block)
{
    const fa_sizes *n = &task->f->n;
    const attention_sequence *s = &task->of.at;
    float factor[FA_QB] __attribute__((aligned(64)));
    fa_scores(t, n->d, task->k, FA_KB, block->q, n->scale, task->scores);
    if (n->softcap != 0 || n->bias.data)
        fa_change_scores(n, t, s->batch, task->head, s->query + q0, s->key + k0, task->scores,
                         NULL);
    const int filled = fa_filled(t);
    fa_kept drawn, *const kept = n->dropout.least ? &drawn : NULL;
    if (kept)
        fa_draw(n, t, s, task->head, q0, k0, kept);
    for (int i = 0; i < t->nq; i += FA_NR)
        fa_softmax(t, i, filled, kept, task->scores + i, block->max + i, block->sum + i,
                   factor + i);
    for (int i = 0; i < t->nq; i++) {
        if (factor[i] == 1.0f)
            continue;
        for (int64_t c = 0; c < n->e; c += VL) {
            float *sums = block->sums + (c / FA_SLICE * FA_QB + i) * FA_SLICE + c % FA_SLICE;
            *(vf_mem *)sums = *(vf_mem *)sums * v_set(factor[i]);
        }
    }
    fa_sum_keys(t, n->e, (const word *)task->scores, stack, FA_KB, block->sums, FA_QB);
}

/* All blocks against the keys from k0 on. */
static void fa_forward_keys(const fa_task *task, int64_t k0)
{
    const fa_forward *f = task->f;
    const fa_sizes *n = &f->n;
    const attention_sequence *s = &task->of.at;
    const int64_t hk = task->head / (n->heads / n->key_heads);
    const int64_t nk = fa_min(s->keys - k0, FA_KB), padded = fa_round_up(nk, FA_MR);
    fa_pack_rows(n->type, fa_at(&f->k, n->type, s->batch, s->key + k0, hk), f->k.row, nk, padded,
                 n->d, task->k, FA_KB);
    fa_pack_rows(n->type, fa_at(&f->v, n->type, s->batch, s->key + k0, hk), f->v.row, nk, padded,
                 n->e, task->v, FA_KB);
    const word *stack = fa_stack(task->v, task->v_stack, padded, n->e, FA_KB);
    fa_queries *block = task->blocks;
    for (int64_t q0 = task->begin; q0 < task->end; q0 += FA_QB, block++) {
        const fa_tile t = fa_tile_of(&task->of, q0, fa_min(task->end - q0, FA_QB), k0, nk);
        if (fa_is_seen(&t))
            fa_forward_tile(task, &t, q0, k0, stack, block);
    }
}

static void fa_forward_finish(const fa_task *task)
{
    const fa_forward *f = task->f;
    const fa_sizes *n = &f->n;
    const attention_sequence *s = &task->of.at;
    float *lse = f->lse;
    if (lse)
        lse += (s->batch * n->heads + task->head) * n->mask.queries + s->query;
    for (int64_t q = task->begin; q < task->end; q++) {
        const fa_queries *block = &task->blocks[(q - task->begin) / FA_QB];
        const int64_t i = (q - task->begin) % FA_QB;
        const float sum = block->sum[i];
        const float factor = sum == 0.0f ? 0.0f : (float)n->dropout.factor / sum;
        fa_store_row(n->type, fa_at(&f->y, n->type, s->batch, s->query + q, task->head), n->e,
                     block->sums + i * FA_SLICE, FA_QB * FA_SLICE, factor);
        if (lse)
            lse[q] = sum == 0.0f ? -INFINITY : block->max[i] + logf(sum);
    }
}

static void fa_forward_task(const fa_task *given, word *scratch)
{
    fa_queries blocks[FA_FORWARD_BLOCKS] __attribute__((aligned(64)));
    const fa_sizes *n = &given->f->n;
    const int64_t values = fa_slices(n->e);
    fa_task task = *given;
    task.blocks = blocks;
    task.k = scratch;
    task.v = task.k + fa_slices(n->d) * FA_ROWS_TILE;
    task.v_stack = task.v + values * FA_ROWS_TILE;
    task.scores = (float *)(task.v_stack + values * FA_STACK_TILE);
    fa_forward_begin(&task, (word *)(task.scores + FA_KB * FA_QB));
    const int64_t end = fa_min(task.of.at.keys, task.end - 1 + task.of.hi);
    const int64_t first = fa_first_key(&task.of, task.begin);
    for (int64_t k0 = task.f->alike ? first / FA_KB * FA_KB : first; k0 < end; k0 += FA_KB)
        fa_forward_keys(&task, k0);
    fa_forward_finish(&task);
}

/* ---- few queries ---- */

enum { FA_PIECES = 64 /* of all sequences, if they are long */, FA_LEAST_PIECE = 128 };

/* Which keys the queries of a sequence see. */
static attention_keys fa_seen_keys(const fa_sequence *s)
{
    return (attention_keys){fa_first_key(s, 0), fa_min(s->at.keys, s->at.queries - 1 + s->hi)};
}

static int fa_are_few(int64_t queries)
{
    return queries > 0 && queries <= FA_FEW;
}

/* Whether few queries are computed with the bits that tiles have. */
static int fa_is_alike(const fa_forward *f, int64_t queries)
{
    return f->alike && !TILES && fa_are_few(queries);
}

static int64_t fa_few_keys(const fa_forward *f, const fa_sequence *s)
{
    const attention_keys keys = fa_seen_keys(s);
    return !f->alike && fa_are_few(s->at.queries) ? fa_max(0, keys.end - keys.begin) : 0;
}

/* Floats of the result of a piece. */
static int64_t fa_part_of(const fa_forward *f, const fa_sequence *s)
{
    return fa_few_part(&f->n, f->n.heads * s->at.queries);
}

/* Cuts the keys of sequences of few queries, by sizes alone. Returns the floats of all parts. */
static int64_t fa_cut_keys(fa_forward *f)
{
    const int64_t count = f->n.mask.sequences;
    int64_t all = 0;
    for (int64_t i = 0; i < count; i++) {
        const fa_sequence s = fa_sequence_at(&f->n.mask, i);
        all += fa_few_keys(f, &s);
    }
    const int64_t piece = fa_max(FA_LEAST_PIECE, (all + FA_PIECES - 1) / FA_PIECES);
    f->before[0] = 0;
    for (int64_t i = 0; i < count; i++) {
        const fa_sequence s = fa_sequence_at(&f->n.mask, i);
        f->pieces[i] = (fa_few_keys(f, &s) + piece - 1) / piece;
        f->before[i + 1] = f->before[i] + f->pieces[i] * fa_part_of(f, &s);
    }
    return f->before[count];
}

/* All keys of a sequence that are seen. */
static fa_piece fa_piece_of(const fa_forward *f, const fa_sequence *of)
{
    const attention_keys keys = fa_seen_keys(of);
    return (fa_piece){&f->n, &f->q, &f->k, &f->v, *of, keys.begin, keys.end};
}

static void fa_few_task(const fa_forward *f, const fa_sequence *of, int64_t at, float *scratch)
{
    const int64_t number = of->at.number, count = f->pieces[number];
    fa_piece piece = fa_piece_of(f, of);
    const int64_t keys = (piece.end - piece.begin + count - 1) / count;
    piece.begin += at * keys;
    piece.end = fa_min(piece.end, piece.begin + keys);
    fa_few_piece(&piece, scratch, f->parts + f->before[number] + at * fa_part_of(f, of));
}

static void fa_finish_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const fa_forward *f = arg;
    for (int64_t i = begin; i < end; i++) {
        const int64_t number = i / f->n.heads;
        const fa_sequence of = fa_sequence_at(&f->n.mask, number);
        const fa_piece piece = fa_piece_of(f, &of);
        if (f->pieces[number])
            fa_few_finish(&piece, i % f->n.heads, f->pieces[number], f->parts + f->before[number],
                          &f->y, f->lse);
    }
}

/* ---- which tasks there are: of each sequence, head by head ---- */

static int64_t fa_chunks(int64_t queries, int64_t blocks)
{
    return (queries + blocks * FA_QB - 1) / (blocks * FA_QB);
}

/* Key heads [at, at + count) of a sequence. */
static void fa_alike_tasks(const fa_forward *f, const fa_sequence *of, int64_t at, int64_t count,
                           word *scratch)
{
    const fa_piece piece = fa_piece_of(f, of);
    fa_alike(&piece, at, count, scratch, &f->y, f->lse);
}

/* The last chunk of a head first: under a causal mask it costs most. */
static void fa_forward_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    const fa_forward *f = arg;
    word *scratch = (word *)(f->scratch + worker * f->scratch_size);
    tiles_open();
    for (int64_t i = begin; i < end; i++) {
        const int64_t sequence = fa_find(f->tasks, f->n.mask.sequences, i);
        fa_task task = {.f = f, .of = fa_sequence_at(&f->n.mask, sequence)};
        const int64_t queries = task.of.at.queries, chunks = fa_chunks(queries, f->blocks);
        const int64_t at = i - f->tasks[sequence];
        if (fa_is_alike(f, queries)) {
            const int64_t last = fa_min(end, f->tasks[sequence + 1]);
            fa_alike_tasks(f, &task.of, at, last - i, scratch);
            i = last - 1;
            continue;
        }
        if (f->pieces[sequence]) {
            fa_few_task(f, &task.of, at, (float *)scratch);
            continue;
        }
        const int64_t chunk = chunks - 1 - at % chunks;
        task.head = at / chunks;
        task.begin = chunk * f->blocks * FA_QB;
        task.end = fa_min(queries, task.begin + f->blocks * FA_QB);
        fa_forward_task(&task, scratch);
    }
    tiles_close();
}

static int64_t fa_count_tasks(const fa_forward *f)
{
    const int64_t count = f->n.mask.sequences;
    f->tasks[0] = 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t queries = attention_sequence_at(&f->n.mask, i).queries;
        const int64_t few = !f->n.heads               ? 0
                            : fa_is_alike(f, queries) ? f->n.key_heads
                                                      : f->pieces[i];
        f->tasks[i + 1] = f->tasks[i] + (few ? few : f->n.heads * fa_chunks(queries, f->blocks));
    }
    return f->tasks[count];
}

/* ---- calls ---- */

static tg_status forward(tg_ctx *ctx, const tg_flash_attention_forward_args *a)
{
    fa_forward f = {.n = FA_SIZES(a),
                    .q = fa_view_of(a->q),
                    .k = fa_view_of(a->k),
                    .v = fa_view_of(a->v),
                    .y = fa_view_of(a->y),
                    .lse = tg_data(a->lse),
                    .blocks = FA_FORWARD_BLOCKS,
                    .alike = tg_ctx_batch_invariant(ctx)};
    const attention_mask *mask = &f.n.mask;
    f.tasks = tg_workspace(ctx, (size_t)(3 * (mask->sequences + 1)) * sizeof *f.tasks);
    if (!f.tasks)
        return TG_ENOMEM;
    f.pieces = f.tasks + mask->sequences + 1;
    f.before = f.pieces + mask->sequences + 1;
    const int64_t parts = fa_cut_keys(&f);
    const int64_t few = fa_min(mask->queries, FA_FEW), rows = f.n.heads * few;
    const int64_t few_words = f.alike ? fa_alike_words(&f.n, few) : fa_few_words(&f.n, rows);
    f.parts = tg_workspace(ctx, (size_t)fa_max(1, parts) * sizeof *f.parts);
    f.scratch = f.parts ? fa_scratch(ctx, fa_max(fa_forward_words(f.n.d, f.n.e), few_words),
                                     &f.scratch_size)
                        : NULL;
    if (!f.scratch)
        return TG_ENOMEM;
    /* many blocks in a task pack keys less often, few make more tasks */
    int64_t tasks = fa_count_tasks(&f);
    for (; f.blocks > 1 && tasks < 32; tasks = fa_count_tasks(&f))
        f.blocks /= 2;
    if (tasks == 0)
        return TG_OK;
    const int64_t pairs = fa_pairs(mask) * f.n.heads / tasks;
    tg_parallel_for(ctx, tasks, fa_grain(pairs * (f.n.d + f.n.e)), fa_forward_tasks, &f);
    if (parts)
        tg_parallel_for(ctx, mask->sequences * f.n.heads, fa_grain(f.n.e * FA_FEW * FA_PIECES),
                        fa_finish_tasks, &f);
    return TG_OK;
}

TG_CPU_IMPLS(flash_attention) = {TG_CPU_IMPL_IF(flash_attention_forward, FA_TAKES, NULL, forward),
                                 TG_IMPLS_END};
