/* src/fused_linear/fused_linear.c - chunks of rows, and what they leave. */
#include "fused_linear/fused_linear.h"

#include <string.h>

#include "core/parts.h"

/* Of logits. The CPU: with the products' workspace about 64 MiB, or as much as the sums of a 16-bit
 * dweight take; many processors need more, so that the factors of the products, which are packed
 * for each chunk, are used by enough rows. Another device: with fewer rows a chunk the sums of
 * dweight, read and written with each, take longer than the products. */
enum { CPU_BYTES = 56 << 20, PROCESSOR_BYTES = 16 << 20, DEVICE_BYTES = 1 << 30 };

/* Where losses run beside products: so many chunks at least, if they have so many rows; and so many
 * rows in a part of one, which are shared out among many cores. */
enum { BESIDE_CHUNKS = 2, BESIDE_ROWS = 512, PART_ROWS = 256 };

static int64_t chunks_of(int64_t rows, int64_t row_bytes, int64_t bytes)
{
    const int64_t most = bytes / (row_bytes ? row_bytes : 1);
    return most < 1 ? rows : rows / most + (rows % most != 0);
}

/* Of a gradient with several chunks, or a factor. */
static int64_t sums_bytes(const fused_linear *l, const tg_tensor *t)
{
    return !t || (tg_type_of(t) == TG_F32 && !l->factor) ? 0 : tg_numel(t) * (int64_t)sizeof(float);
}

static int64_t between(int64_t least, int64_t n, int64_t most)
{
    return n < least ? least : n > most ? most : n;
}

static int64_t suiting_bytes(const fused_linear *l)
{
    const int64_t sums = sums_bytes(l, l->dweight);
    if (strcmp(tg_ctx_device(l->ctx), "cpu"))
        return DEVICE_BYTES;
    const int64_t processors =
        between(CPU_BYTES, tg_processors() * (int64_t)PROCESSOR_BYTES, DEVICE_BYTES);
    return sums > processors ? sums : processors;
}

/* Bytes of a part of a workspace, so that the next part begins a cache line. */
static int64_t lines(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* The number of the part that row `first` is in. */
static int64_t part_of(const fused_linear *l, int64_t first)
{
    const int64_t of_chunk = (l->rows + l->part_rows - 1) / l->part_rows;
    return first / l->rows * of_chunk + first % l->rows / l->part_rows;
}

static void cut(fused_linear *l, int64_t row_bytes, int64_t bytes)
{
    const int64_t suits = suiting_bytes(l);
    l->rows_of_x = tg_rows_of(l->x);
    const int64_t rows = l->rows_of_x.rows;
    int64_t count = chunks_of(rows, row_bytes, bytes ? bytes : suits);
    const int several = count > 1 || (!bytes && rows >= BESIDE_CHUNKS * BESIDE_ROWS &&
                                      rows * row_bytes + sums_bytes(l, l->dweight) <= DEVICE_BYTES);
    l->beside = several && (l->dx || l->dweight) && tg_has_side(l->ctx, l->x);
    if (l->beside) {
        count = chunks_of(rows, 2 * row_bytes, bytes ? bytes : suits);
        count = count < BESIDE_CHUNKS ? BESIDE_CHUNKS : count;
    } else if (count > 1 && !bytes && rows * row_bytes <= suits + sums_bytes(l, l->dweight)) {
        count = 1; /* which takes no more than several and their sums */
    }
    l->rows = count ? (rows + count - 1) / count : 1;
    l->count = count ? (rows + l->rows - 1) / l->rows : 1;
    l->part_rows = l->beside ? (l->rows + l->split - 1) / l->split : l->rows;
    if (l->beside && l->part_rows < PART_ROWS && !bytes)
        l->part_rows = l->rows < PART_ROWS ? l->rows : PART_ROWS;
    l->parts = rows ? part_of(l, rows - 1) + 1 : 1;
}

/* Of the chunk from row `first` on. */
static int64_t rows_from(const fused_linear *l, int64_t first)
{
    const int64_t left = l->rows_of_x.rows - first;
    return left < l->rows ? left : l->rows;
}

/* level = dloss / size, size = the root mean square of dloss: its product with level, over n. */
static tg_status divide_by_size(fused_linear *l, int64_t n, float *rstd)
{
    const double eps = 1e-37; /* of zeros */
    view of_rstd, given, row, column;
    set_vector(&of_rstd, rstd, TG_F32, 1);
    TG_TRY(
        tg_rms_norm_forward(l->ctx, &(tg_rms_norm_forward_args){.x = part(&given, l->dloss, 0, n),
                                                                .y = &l->level.t,
                                                                .rstd = beside(&of_rstd, l->x),
                                                                .eps = eps}));
    set_view(&row, tg_data(l->dloss), TG_F32, 1, n, n);
    set_view(&column, tg_data(&l->level.t), TG_F32, n, 1, 1);
    return tg_gemm(l->ctx, &(tg_gemm_args){.a = beside(&row, l->x),
                                           .b = beside(&column, l->x),
                                           .c = &l->size.t,
                                           .alpha = 1 / (double)n});
}

static tg_status level_upstream(fused_linear *l)
{
    if (tg_type_of(l->x) != TG_F16 || !l->dloss || on_host(l->dloss) || tg_numel(l->dloss) == 0)
        return TG_OK;
    const int64_t n = tg_numel(l->dloss), level = lines(n * (int64_t)sizeof(float)),
                  line = lines(1),
                  dx = l->dx ? l->rows * l->weight->shape[1] * (int64_t)sizeof(float) : 0;
    char *memory = tg_workspace_beside(l->ctx, l->x, (size_t)(level + 2 * line + dx));
    if (!memory)
        return TG_ENOMEM;
    set_vector(&l->level, memory, TG_F32, n);
    set_view(&l->size, memory + level, TG_F32, 1, 1, 1);
    beside(&l->level, l->x);
    l->factor = beside(&l->size, l->x);
    l->dx32 = (float *)(memory + level + 2 * line);
    TG_TRY(divide_by_size(l, n, (float *)(memory + level + line)));
    l->dloss = &l->level.t;
    return TG_OK;
}

tg_status fused_linear_sums(const fused_linear *l, const tg_tensor *t, float **sums)
{
    const int64_t bytes = sums_bytes(l, t);
    if (!bytes || (l->count == 1 && !l->factor))
        return TG_OK;
    *sums = tg_workspace_beside(l->ctx, l->x, (size_t)bytes);
    return *sums ? TG_OK : TG_ENOMEM;
}

tg_status fused_linear_begin(fused_linear *l, int64_t bytes)
{
    const int64_t type_bytes = (int64_t)tg_type_size(tg_type_of(l->x));
    const int narrow = l->gradients && type_bytes != sizeof(float);
    const int64_t logits = l->logits * (int64_t)sizeof(float);
    l->classes = l->weight->shape[0];
    cut(l, l->classes * (logits + (narrow ? type_bytes : 0)), bytes);
    const int64_t elements = l->rows * l->classes;
    l->logits_bytes = lines(elements * (int64_t)sizeof(float));
    l->dlogits_at = narrow ? l->logits * l->logits_bytes : 0;
    l->set_bytes = l->logits * l->logits_bytes + (narrow ? lines(elements * type_bytes) : 0);
    const int64_t sets = l->set_bytes * (1 + l->beside);
    l->memory = tg_workspace_beside(
        l->ctx, l->x, (size_t)(sets + l->results * l->parts * (int64_t)sizeof(float)));
    if (!l->memory)
        return TG_ENOMEM;
    l->results_of_part = (float *)(l->memory + sets);
    TG_TRY(level_upstream(l));
    return fused_linear_sums(l, l->dweight, &l->sum_weight);
}

void fused_linear_chunk_at(const fused_linear *l, fused_linear_chunk *c, int64_t first,
                           int64_t rows)
{
    const int of_two = l->beside && first / l->rows % 2;
    char *memory = l->memory + of_two * l->set_bytes;
    const int64_t at = first % l->rows * l->classes, n = l->classes;
    const tg_type type = tg_type_of(l->x);
    c->first = first;
    c->rows = rows;
    set_rows(&c->x, &l->rows_of_x, first, rows);
    set_view(&c->logits, (float *)memory + at, TG_F32, rows, n, n);
    set_view(&c->teacher, (float *)(memory + l->logits_bytes) + at, TG_F32, rows, n, n);
    set_view(&c->dlogits, memory + l->dlogits_at + at * (int64_t)tg_type_size(type), type, rows, n,
             n);
    beside(&c->x, l->x);
    beside(&c->logits, l->x);
    beside(&c->teacher, l->x);
    beside(&c->dlogits, l->x);
}

tg_tensor *fused_linear_result(const fused_linear *l, view *v, int which, int64_t first)
{
    set_vector(v, l->results_of_part + which * l->parts + part_of(l, first), TG_F32, 1);
    return beside(v, l->x);
}

/* to = the sum of `count` f32 tensors of its shape that follow each other where it lies, times the
 * factor if there is one. */
static tg_status add_up(const fused_linear *l, const float *parts, int64_t count,
                        const tg_tensor *factor, tg_tensor *to, int64_t accumulate)
{
    int64_t shape[TG_MAX_NDIM];
    if (!parts || !to)
        return TG_OK;
    shape[0] = count;
    for (int i = 0; i < to->ndim; i++)
        shape[i + 1] = to->shape[i];
    tg_tensor x = tg_tensor_of((void *)parts, TG_F32, to->ndim + 1, shape);
    x.device = to->device;
    return tg_sum_rows_forward(
        l->ctx,
        &(tg_sum_rows_forward_args){.x = &x, .factor = factor, .y = to, .accumulate = accumulate});
}

tg_status fused_linear_round(const fused_linear *l, const float *sums, tg_tensor *to,
                             int64_t accumulate)
{
    return add_up(l, sums, 1, l->factor, to, accumulate);
}

tg_status fused_linear_add_up(const fused_linear *l, int which, tg_tensor *to)
{
    view one;
    return add_up(l, l->results_of_part + which * l->parts, l->parts, NULL, part(&one, to, 0, 1),
                  0);
}

tg_status fused_linear_gradients(const fused_linear *l, const fused_linear_chunk *c)
{
    const int64_t classes = l->classes, hidden = l->weight->shape[1];
    const double unscale = 1 / l->scale;
    view dx, dx32, sums;
    if (l->dx) {
        const tg_rows rows = tg_rows_of(l->dx);
        set_rows(&dx, &rows, c->first, c->rows);
        set_view(&dx32, l->dx32, TG_F32, c->rows, hidden, hidden);
        TG_TRY(tg_gemm(l->ctx, &(tg_gemm_args){.a = &c->dlogits.t,
                                               .b = l->weight,
                                               .c = beside(l->factor ? &dx32 : &dx, l->x),
                                               .alpha = unscale}));
        TG_TRY(fused_linear_round(l, l->dx32, beside(&dx, l->x), 0));
    }
    if (!l->dweight)
        return TG_OK;
    set_view(&sums, l->sum_weight, TG_F32, classes, hidden, hidden);
    return tg_gemm(l->ctx,
                   &(tg_gemm_args){.a = &c->dlogits.t,
                                   .b = &c->x.t,
                                   .c = l->sum_weight ? beside(&sums, l->x) : l->dweight,
                                   .trans_a = 1,
                                   .alpha = unscale,
                                   .beta = c->first > 0 || (l->accumulate && !l->sum_weight)});
}

static tg_status run_in_turn(const fused_linear *l, const fused_linear_steps *steps, void *state)
{
    const int64_t rows = l->rows_of_x.rows;
    int64_t first = 0;
    do {
        TG_TRY(steps->project(state, first, rows_from(l, first)));
        TG_TRY(steps->loss(state, first, rows_from(l, first)));
        TG_TRY(steps->gradients(state, first, rows_from(l, first)));
        first = tg_next_chunk(l->ctx, first, l->rows, rows);
    } while (first < rows);
    return TG_OK;
}

/* The loss of a chunk, in its parts. */
static tg_status run_loss(const fused_linear *l, const fused_linear_steps *steps, void *state,
                          int64_t first)
{
    const int64_t end = first + rows_from(l, first);
    for (; first < end; first += l->part_rows)
        TG_TRY(steps->loss(state, first, end - first < l->part_rows ? end - first : l->part_rows));
    return TG_OK;
}

/* Each chunk's loss beside the gradients of the chunk before it, and then the logits of the chunk
 * behind it, which lie where those of the chunk before lay. */
static tg_status run_beside(const fused_linear *l, const fused_linear_steps *steps, void *state)
{
    const int64_t rows = l->rows_of_x.rows;
    int64_t first = 0, before = 0;
    TG_TRY(steps->project(state, 0, rows_from(l, 0)));
    while (first < rows) {
        const int64_t next = tg_next_chunk(l->ctx, first, l->rows, rows);
        TG_TRY(tg_side_begin(l->ctx));
        TG_TRY(run_loss(l, steps, state, first));
        TG_TRY(tg_side_end(l->ctx));
        if (first > 0)
            TG_TRY(steps->gradients(state, before, rows_from(l, before)));
        if (next < rows)
            TG_TRY(steps->project(state, next, rows_from(l, next)));
        TG_TRY(tg_side_join(l->ctx));
        before = first;
        first = next;
    }
    return steps->gradients(state, before, rows_from(l, before));
}

static tg_status run_once(const fused_linear *l, const fused_linear_steps *steps, void *state)
{
    TG_TRY((l->beside ? run_beside : run_in_turn)(l, steps, state));
    TG_TRY(fused_linear_round(l, l->sum_weight, l->dweight, l->accumulate));
    return steps->finish(state);
}

tg_status fused_linear_run(const fused_linear *l, const fused_linear_steps *steps, void *state)
{
    tg_reserve(l->ctx);
    const tg_status status = run_once(l, steps, state);
    tg_reserved(l->ctx);
    return status != TG_OK ? status : run_once(l, steps, state);
}
