/* rope, reference: the definition, pair by pair, in double. */
#include "rotary/rotary.h"
#include "tigon/options.h"

/* Where the elements of pair d lie, counted from rotary_start: first + d step, and
 * `apart` behind it. */
typedef struct places {
    int64_t step, apart;
} places;

static places places_of(int adjacent, int64_t half)
{
    return adjacent ? (places){2, 1} : (places){1, half};
}

/* Address of row (b, s, h) of a tensor [B,S,H,D], in elements. */
static int64_t row_of(const tg_tensor *t, int64_t b, int64_t s, int64_t h)
{
    return b * tg_stride(t, 0) + s * tg_stride(t, 1) + h * tg_stride(t, 2);
}

/* Row of a table [P,C] or [B,P,C]. */
static int64_t angle_row(const tg_tensor *t, int64_t b, int64_t p)
{
    return b * rotary_batch_stride(t, t->ndim - 3) + p * tg_stride(t, t->ndim - 2);
}

static double at(const tg_tensor *t, int64_t i)
{
    return tg_get(tg_data(t), tg_type_of(t), i);
}

static void put(const tg_tensor *t, int64_t i, double value)
{
    tg_set(tg_data(t), tg_type_of(t), i, value);
}

static void rotate(const tg_tensor *x, const tg_tensor *y, const tg_tensor *cos,
                   const tg_tensor *sin, const tg_rope_options *o)
{
    if (!x)
        return;
    const int64_t width = x->shape[3], half = tg_rope_pairs(o, width), start = o->rotary_start;
    const places from = places_of(tg_rope_is_adjacent(o, 0), half);
    const places to = places_of(tg_rope_is_adjacent(o, 1), half);
    for (int64_t b = 0; b < x->shape[0]; b++)
        for (int64_t s = 0; s < x->shape[1]; s++)
            for (int64_t h = 0; h < x->shape[2]; h++) {
                const int64_t xi = row_of(x, b, s, h), yi = row_of(y, b, s, h);
                const int64_t position = o->position_offset + s;
                for (int64_t d = 0; d < half; d++) {
                    const double c = at(cos, angle_row(cos, b, position) + d);
                    const double t = at(sin, angle_row(sin, b, position) + d);
                    const double turn = o->transposed ? -t : t;
                    const int64_t i = xi + start + d * from.step, j = yi + start + d * to.step;
                    const double first = at(x, i), second = at(x, i + from.apart);
                    put(y, j, first * c - second * turn);
                    put(y, j + to.apart, second * c + first * turn);
                }
                for (int64_t d = 0; d < start; d++)
                    put(y, yi + d, at(x, xi + d));
                for (int64_t d = start + 2 * half; d < width; d++)
                    put(y, yi + d, at(x, xi + d));
            }
}

static tg_status forward(tg_ctx *ctx, const tg_rope_forward_args *args)
{
    (void)ctx;
    const tg_rope_options o = tg_rope_forward_options(args);
    rotate(args->q, args->yq, args->cos, args->sin, &o);
    rotate(args->k, args->yk, args->cos, args->sin, &o);
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_rope_backward_args *args)
{
    (void)ctx;
    const tg_rope_options o = tg_rope_backward_options(args);
    rotate(args->dyq, args->dq, args->cos, args->sin, &o);
    rotate(args->dyk, args->dk, args->cos, args->sin, &o);
    return TG_OK;
}

TG_REF_IMPLS(rope) = {
    TG_REF_IMPL(rope_forward, forward),
    TG_REF_IMPL(rope_backward, backward),
    TG_IMPLS_END,
};
