/* src/fused_linear/fused_linear.c - chunks of rows, and what they leave. */
#include "fused_linear/fused_linear.h"

#include <string.h>

#include "core/parts.h"

/* Of logits. The CPU: with the products' workspace about 64 MiB. Another device: with fewer rows a chunk the sums of dweight, read and written
 * with each, take longer than the products. */
enum { CPU_BYTES = 56 << 20, DEVICE_BYTES = 1 << 30 };

void fused_linear_cut(fused_linear *l, int64_t row_bytes, int64_t bytes)
{
    if (!bytes)
        bytes = strcmp(tg_ctx_device(l->ctx), "cpu") ? DEVICE_BYTES : CPU_BYTES;
    l->rows_of_x = tg_rows_of(l->x);
    const int64_t rows = l->rows_of_x.rows, most = bytes / (row_bytes ? row_bytes : 1);
    const int64_t count = most < 1 ? rows : rows / most + (rows % most != 0);
    l->rows = count ? (rows + count - 1) / count : 1;
    l->count = count ? (rows + l->rows - 1) / l->rows : 1;
}

tg_status fused_linear_sums(const fused_linear *l, const tg_tensor *t, float **sums)
{
    if (!t || tg_type_of(t) == TG_F32 || l->count == 1)
        return TG_OK;
    *sums = tg_workspace_beside(l->ctx, l->x, (size_t)tg_numel(t) * sizeof(float));
    return *sums ? TG_OK : TG_ENOMEM;
}

tg_status fused_linear_gradients(const fused_linear *l, int64_t first, const view *x,
                                 const view *dlogits)
{
    const int64_t classes = l->weight->shape[0], hidden = l->weight->shape[1];
    const double unscale = 1 / l->scale;
    view dx, sums;
    if (l->dx) {
        const tg_rows rows = tg_rows_of(l->dx);
        set_rows(&dx, &rows, first, x->shape[0]);
        TG_TRY(tg_gemm(l->ctx, &(tg_gemm_args){.a = &dlogits->t,
                                               .b = l->weight,
                                               .c = beside(&dx, l->x),
                                               .alpha = unscale}));
    }
    if (!l->dweight)
        return TG_OK;
    set_view(&sums, l->sum_weight, TG_F32, classes, hidden, hidden);
    return tg_gemm(l->ctx, &(tg_gemm_args){.a = &dlogits->t,
                                           .b = &x->t,
                                           .c = l->sum_weight ? beside(&sums, l->x) : l->dweight,
                                           .trans_a = 1,
                                           .alpha = unscale,
                                           .beta = first > 0 || (l->accumulate && !l->sum_weight)});
}

tg_status fused_linear_add_up(const fused_linear *l, const float *parts, int64_t count,
                              tg_tensor *to, int64_t accumulate)
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
        l->ctx, &(tg_sum_rows_forward_args){.x = &x, .y = to, .accumulate = accumulate});
}

static tg_status run_once(const fused_linear *l,
                          tg_status (*chunk)(void *state, int64_t first, int64_t rows),
                          tg_status (*finish)(void *state), void *state)
{
    const int64_t rows = l->rows_of_x.rows;
    int64_t first = 0;
    do {
        const int64_t left = rows - first;
        TG_TRY(chunk(state, first, left < l->rows ? left : l->rows));
        first = tg_next_chunk(l->ctx, first, l->rows, rows);
    } while (first < rows);
    TG_TRY(fused_linear_add_up(l, l->sum_weight, 1, l->dweight, l->accumulate));
    return finish(state);
}

tg_status fused_linear_run(const fused_linear *l,
                           tg_status (*chunk)(void *state, int64_t first, int64_t rows),
                           tg_status (*finish)(void *state), void *state)
{
    tg_reserve(l->ctx);
    const tg_status status = run_once(l, chunk, finish, state);
    tg_reserved(l->ctx);
    return status != TG_OK ? status : run_once(l, chunk, finish, state);
}
