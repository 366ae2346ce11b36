/* src/fused_linear/fused_linear_begin.c - how rows are cut into chunks, and a call's memory. */
#include "fused_linear/fused_linear_parts.h"

#include <math.h>
#include <string.h>

#include "core/parts.h"

/* Of logits. The CPU: with the products' workspace about 64 MiB, or as much as the sums of a 16-bit
 * dweight take; many processors need more, so that the factors of the products, which are packed
 * for each chunk, are used by enough rows. Another device: with fewer rows a chunk the sums of
 * dweight, read and written with each, take longer than the products. */
enum { CPU_BYTES = 56 << 20, PROCESSOR_BYTES = 16 << 20, DEVICE_BYTES = 1 << 30 };

/* Where losses run beside products: so many chunks at least, if they have so many rows; so many
 * rows in each where there are no gradients, for which a chunk costs more; and so many rows in a
 * part of one, which are shared out among many cores. */
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

static void cut(fused_linear *l, int64_t row_bytes, int64_t bytes)
{
    const int64_t suits = suiting_bytes(l);
    l->rows_of_x = tg_rows_of(l->x);
    const int64_t rows = l->rows_of_x.rows;
    int64_t count = chunks_of(rows, row_bytes, bytes ? bytes : suits);
    const int several = count > 1 || (!bytes && rows >= BESIDE_CHUNKS * BESIDE_ROWS &&
                                      rows * row_bytes + sums_bytes(l, l->dweight) <= DEVICE_BYTES);
    l->beside = several && tg_has_side(l->ctx, l->x);
    if (l->beside) {
        count = chunks_of(rows, 2 * row_bytes, bytes ? bytes : suits);
        const int64_t least = l->dx || l->dweight ? BESIDE_CHUNKS : rows / BESIDE_ROWS;
        count = count < least ? least : count;
        count = count < BESIDE_CHUNKS ? BESIDE_CHUNKS : count;
    } else if (count > 1 && !bytes && rows * row_bytes <= suits + sums_bytes(l, l->dweight)) {
        count = 1; /* which takes no more than several and their sums */
    }
    l->rows = count ? (rows + count - 1) / count : 1;
    l->count = count ? (rows + l->rows - 1) / l->rows : 1;
    l->part_rows = l->beside ? (l->rows + l->split - 1) / l->split : l->rows;
    if (l->beside && l->part_rows < PART_ROWS && !bytes)
        l->part_rows = l->rows < PART_ROWS ? l->rows : PART_ROWS;
    l->parts = rows ? fused_linear_part(l, rows - 1) + 1 : 1;
}

/* Bytes of a part of a workspace, so that the next part begins a cache line. */
static int64_t lines(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
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

/* Replaces a dloss of f16 that lies on a device. */
static tg_status replace_upstream(fused_linear *l)
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

/* Memory for the f32 sums of a gradient that is rounded, and multiplied by the factor, once, behind
 * the last chunk; *sums stays NULL where none are needed. */
static tg_status sums_for(const fused_linear *l, const tg_tensor *t, float **sums)
{
    const int64_t bytes = sums_bytes(l, t);
    if (!bytes || (l->count == 1 && !l->factor))
        return TG_OK;
    *sums = tg_workspace_beside(l->ctx, l->x, (size_t)bytes);
    return *sums ? TG_OK : TG_ENOMEM;
}

/* The logits of a chunk, or of two, their gradient where it cannot lie over them, and the
 * results. */
static tg_status memory_for(fused_linear *l, int64_t chunk_bytes)
{
    const int matrices = !l->logits + (l->teacher_weight && !l->teacher_logits);
    const int apart = l->gradients && (l->type != TG_F32 || l->logits);
    const int64_t size = apart ? (int64_t)tg_type_size((tg_type)l->type) : 0;
    cut(l, l->classes * (4 * matrices + size), chunk_bytes);
    const int64_t elements = l->rows * l->classes, logits = lines(elements * 4);
    l->set_bytes = matrices * logits + lines(elements * size);
    l->teacher_at = l->logits ? 0 : logits;
    l->dlogits_at = apart ? matrices * logits : 0;
    const int64_t sets = l->set_bytes * (1 + l->beside);
    l->memory =
        tg_workspace_beside(l->ctx, l->x, (size_t)(sets + FUSED_LINEAR_RESULTS * l->parts * 4));
    l->of_parts = (float *)(l->memory + sets);
    return l->memory ? TG_OK : TG_ENOMEM;
}

/* Gradients of f16 are scaled by the largest upstream gradient of all rows, of which rows may have
 * to know nothing. */
static tg_status check_upstream(const fused_linear *l)
{
    if (l->type == TG_F16 && l->dloss && tg_numel(l->dloss) > 1 && tg_ctx_batch_invariant(l->ctx))
        return tg_fail(TG_EUNSUPPORTED,
                       "fused_linear: x is f16 and dloss has a number of each row, expected one of "
                       "all, or another type, where rows do not know their batch");
    return TG_OK;
}

tg_status fused_linear_begin(fused_linear *l, int64_t chunk_bytes)
{
    l->type = tg_type_of(l->x);
    TG_TRY(check_upstream(l));
    l->gradients = l->dx || l->dweight || l->dbias;
    l->classes = l->weight->shape[0];
    l->rows_of_teacher = tg_rows_of(l->teacher_x);
    l->rows_of_logits = tg_rows_of(l->logits);
    l->rows_of_teacher_logits = tg_rows_of(l->teacher_logits);
    l->scale = 1;
    TG_TRY(memory_for(l, chunk_bytes));
    TG_TRY(replace_upstream(l));
    TG_TRY(sums_for(l, l->dbias, &l->sum_bias));
    return sums_for(l, l->dweight, &l->sum_weight);
}

/* ---- the scale of f16 ---- */

/* The largest |dloss| that the host can see; 1 where it cannot. */
static double largest(const tg_tensor *dloss)
{
    double most = 0;
    if (!dloss || !on_host(dloss))
        return 1;
    for (int64_t i = 0; i < tg_numel(dloss); i++)
        most = fmax(most, fabs((double)((const float *)tg_data(dloss))[i]));
    return most;
}

double fused_linear_scale(double most, int to)
{
    const int shift = most > 0 && most < INFINITY ? to - ilogb(most) : 0;
    return ldexp(1, shift < -120  ? -120
                    : shift > 120 ? 120
                                  : shift); /* an alpha of f32 undoes it */
}

double fused_linear_scale_of(const fused_linear *l, int to)
{
    if (l->type != TG_F16)
        return 1;
    if (!l->factor)
        return fused_linear_scale(largest(l->dloss), to);
    const int room = 14 - ilogb(sqrt((double)tg_numel(l->dloss)));
    return ldexp(1, room < to ? room : to);
}
