/* moe_gather, moe_scatter, reference: the definitions, element by element, in double. */
#include "core/services.h"

static double weight_of(const tg_tensor *weights, int64_t slot)
{
    return weights ? tg_get(tg_data(weights), tg_type_of(weights), slot) : 1;
}

/* out of each slot's row = its weight times x of its token; 0 where there is no slot */
static void spread(const tg_tensor *x, const tg_tensor *slot, const tg_tensor *weights,
                   int64_t top_k, const tg_tensor *out)
{
    const tg_rows from = tg_rows_of(x), to = tg_rows_of(out);
    const int64_t *slots = tg_data(slot);
    for (int64_t row = 0; row < to.rows; row++)
        for (int64_t j = 0; j < to.n; j++) {
            const int64_t s = slots[row];
            tg_row_set(&to, row, j,
                       s < 0 ? 0 : weight_of(weights, s) * tg_row_get(&from, s / top_k, j));
        }
}

/* out of each token = the sum over its slots of weight times row */
static void collect(const tg_tensor *rows, const tg_tensor *place, const tg_tensor *weights,
                    const tg_tensor *out)
{
    const tg_rows from = tg_rows_of(rows), to = tg_rows_of(out);
    const int64_t *places = tg_data(place), top_k = place->shape[1];
    for (int64_t t = 0; t < to.rows; t++)
        for (int64_t j = 0; j < to.n; j++) {
            double sum = 0;
            for (int64_t s = t * top_k; s < (t + 1) * top_k; s++)
                sum += places[s] < 0 ? 0 : weight_of(weights, s) * tg_row_get(&from, places[s], j);
            tg_row_set(&to, t, j, sum);
        }
}

static tg_status gather_forward(tg_ctx *ctx, const tg_moe_gather_forward_args *a)
{
    (void)ctx;
    spread(a->x, a->slot, NULL, a->top_k, a->rows);
    return TG_OK;
}

static tg_status gather_backward(tg_ctx *ctx, const tg_moe_gather_backward_args *a)
{
    (void)ctx;
    collect(a->drows, a->place, NULL, a->dx);
    return TG_OK;
}

static tg_status scatter_forward(tg_ctx *ctx, const tg_moe_scatter_forward_args *a)
{
    (void)ctx;
    collect(a->rows, a->place, a->weights, a->y);
    return TG_OK;
}

static void weight_gradients(const tg_moe_scatter_backward_args *a)
{
    const tg_rows dy = tg_rows_of(a->dy), rows = tg_rows_of(a->rows);
    const int64_t *places = tg_data(a->place), top_k = a->place->shape[1];
    for (int64_t s = 0; s < dy.rows * top_k; s++) {
        double sum = 0;
        for (int64_t j = 0; places[s] >= 0 && j < dy.n; j++)
            sum += tg_row_get(&dy, s / top_k, j) * tg_row_get(&rows, places[s], j);
        tg_set(tg_data(a->dweights), tg_type_of(a->dweights), s, sum);
    }
}

static tg_status scatter_backward(tg_ctx *ctx, const tg_moe_scatter_backward_args *a)
{
    (void)ctx;
    spread(a->dy, a->slot, a->weights, a->place->shape[1], a->drows);
    if (a->dweights)
        weight_gradients(a);
    return TG_OK;
}

TG_REF_IMPLS(moe_gather) = {TG_REF_IMPL(moe_gather_forward, gather_forward),
                            TG_REF_IMPL(moe_gather_backward, gather_backward),
                            TG_REF_IMPL(moe_scatter_forward, scatter_forward),
                            TG_REF_IMPL(moe_scatter_backward, scatter_backward), TG_IMPLS_END};
