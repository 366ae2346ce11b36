/* moe_gather and moe_scatter as an eager framework runs them: index_select, with a row of zeros
 * where there is no slot; products and sums over k are passes of their own. */
#include <string.h>

#include "eager.h"

enum { CHUNK = 32768 }; /* elements */

typedef struct selection {
    mat from, to;
    const int64_t *index;
    int64_t per; /* so many indices stand for one row */
} selection;

static void select_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const selection *s = arg;
    const size_t bytes = (size_t)s->to.cols * tg_type_size(s->to.type);
    for (int64_t i = begin; i < end && bytes > 0; i++) {
        void *to = element_at(s->to.data, s->to.type, i * s->to.stride);
        const int64_t row = s->index[i] / s->per;
        if (s->index[i] < 0)
            memset(to, 0, bytes);
        else
            memcpy(to, element_at(s->from.data, s->from.type, row * s->from.stride), bytes);
    }
}

/* to: row i becomes row index[i] / per, or 0 where there is none */
static void pick(eager *e, mat to, mat from, const tg_tensor *index, int64_t per)
{
    selection s = {from, to, tg_data(index), per};
    const int64_t cols = to.cols > 0 ? to.cols : 1;
    if (!e->status)
        unfused_host->parallel_for(e->ctx, to.rows, cols < CHUNK ? CHUNK / cols : 1, select_rows,
                                   &s);
}

/* The rows of each token's slots, one after the other. */
static mat of_slots(eager *e, mat rows, const tg_tensor *place)
{
    const mat picked = eager_new(e, rows.type, tg_numel(place), rows.cols);
    pick(e, picked, rows, place, 1);
    return picked;
}

/* A tensor of weights as a column; those of slots without a row are 0. */
static mat weights_of(eager *e, const tg_tensor *weights, const tg_tensor *place)
{
    const mat given = eager_column(weights), used = eager_copy(e, TG_F32, given);
    const int64_t *places = tg_data(place);
    for (int64_t i = 0; !e->status && i < used.rows; i++)
        if (places[i] < 0)
            ((float *)used.data)[i] = 0;
    return used;
}

/* out = the sum over k of slots [tokens * top_k] */
static void sum_slots(eager *e, mat out, mat slots, int64_t top_k)
{
    mat sum = eager_new(e, TG_F32, out.rows, out.cols);
    eager_fill(e, sum, 0);
    for (int64_t k = 0; k < top_k; k++) {
        const mat each = eager_view(element_at(slots.data, slots.type, k * slots.stride),
                                    slots.type, out.rows, out.cols, top_k * slots.stride);
        eager_binary(e, EAGER_ADD, sum, sum, each);
    }
    eager_unary(e, EAGER_COPY, out, sum);
    eager_free(e, sum);
}

static tg_status gather_forward(tg_ctx *ctx, const tg_moe_gather_forward_args *a)
{
    eager e = eager_begin(ctx);
    pick(&e, eager_rows(a->rows), eager_rows(a->x), a->slot, a->top_k);
    return eager_end(&e);
}

static tg_status gather_backward(tg_ctx *ctx, const tg_moe_gather_backward_args *a)
{
    eager e = eager_begin(ctx);
    sum_slots(&e, eager_rows(a->dx), of_slots(&e, eager_rows(a->drows), a->place),
              a->place->shape[1]);
    return eager_end(&e);
}

static tg_status scatter_forward(tg_ctx *ctx, const tg_moe_scatter_forward_args *a)
{
    eager e = eager_begin(ctx);
    const mat slots = of_slots(&e, eager_rows(a->rows), a->place);
    if (a->weights)
        eager_binary(&e, EAGER_MUL, slots, slots, weights_of(&e, a->weights, a->place));
    sum_slots(&e, eager_rows(a->y), slots, a->place->shape[1]);
    return eager_end(&e);
}

/* dy of each slot's token */
static mat repeated(mat dy, int64_t top_k)
{
    dy.repeat = top_k;
    return dy;
}

static tg_status scatter_backward(tg_ctx *ctx, const tg_moe_scatter_backward_args *a)
{
    eager e = eager_begin(ctx);
    const int64_t top_k = a->place->shape[1];
    const mat dy = eager_rows(a->dy), d = eager_new(&e, dy.type, dy.rows * top_k, dy.cols);
    if (top_k && a->weights)
        eager_binary(&e, EAGER_MUL, d, repeated(dy, top_k), eager_column(a->weights));
    else if (top_k)
        eager_unary(&e, EAGER_COPY, d, repeated(dy, top_k));
    pick(&e, eager_rows(a->drows), d, a->slot, 1);
    if (top_k && a->dweights) {
        const mat rows = of_slots(&e, eager_rows(a->rows), a->place);
        eager_binary(&e, EAGER_MUL, d, rows, repeated(dy, top_k));
        eager_reduce_rows(&e, EAGER_SUM, eager_column(a->dweights), d);
        const int64_t *places = tg_data(a->place);
        for (int64_t i = 0; i < d.rows; i++) /* NaN of dy times nothing is nothing */
            if (places[i] < 0)
                ((float *)tg_data(a->dweights))[i] = 0;
    }
    return eager_end(&e);
}

UNFUSED_IMPLS(moe_gather) = {UNFUSED_IMPL(moe_gather_forward, gather_forward),
                             UNFUSED_IMPL(moe_gather_backward, gather_backward),
                             UNFUSED_IMPL(moe_scatter_forward, scatter_forward),
                             UNFUSED_IMPL(moe_scatter_backward, scatter_backward), TG_IMPLS_END};
