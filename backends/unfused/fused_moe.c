/* fused_moe as an eager framework runs it: a loop over experts, each of which gathers its tokens,
 * multiplies, goes through the gate, multiplies again, and adds its results to those of the tokens.
 */
#include <math.h>

#include "groups.h"

/* ---- the routing ---- */

typedef struct routing {
    int64_t *slot, *offset, *place;
} routing;

static int64_t *numbers(eager *e, const tg_tensor *t, int64_t n)
{
    return t ? tg_data(t) : eager_new(e, TG_F32, 1, 2 * n + 2).data;
}

static void order(eager *e, const tg_fused_moe_forward_args *args, const routing *to)
{
    const int64_t slots = tg_numel(args->index), boundaries = args->down->shape[0] + 1;
    tg_tensor slot = tg_tensor_of(to->slot, TG_I64, 1, &slots);
    tg_tensor offset = tg_tensor_of(to->offset, TG_I64, 1, &boundaries);
    tg_tensor place = tg_tensor_of(to->place, TG_I64, 2, args->index->shape);
    e->status =
        CALL(e->ctx, moe_route, .index = args->index, .slot = &slot, .offset = &offset,
             .place = &place, .experts = boundaries - 1, .capacity = TG_VALUE(args->capacity));
}

/* ---- the gate, of the operators swiglu and geglu ---- */

typedef struct gate {
    int64_t activation, interleaved;
    double limit, alpha, up_offset;
} gate;

#define GATE(args)                                                                 \
    ((gate){(args)->activation, (args)->interleaved, (args)->limit, (args)->alpha, \
            (args)->up_offset})

typedef struct halves {
    view gate, up;
} halves;

static tg_tensor *gate_tensor(halves *h, const gate *g, mat both)
{
    return eager_tensor(&h->gate, g->interleaved ? both : eager_columns(both, 0, both.cols / 2));
}

static tg_tensor *up_tensor(halves *h, const gate *g, mat both)
{
    const int64_t half = both.cols / 2;
    return g->interleaved ? NULL : eager_tensor(&h->up, eager_columns(both, half, half));
}

static void gate_forward(eager *e, const gate *g, mat pre, mat value)
{
    halves in;
    view y;
    if (e->status || pre.rows == 0)
        return;
    if (g->activation == TG_MOE_SWIGLU)
        e->status = CALL(e->ctx, swiglu_forward, .gate = gate_tensor(&in, g, pre),
                         .up = up_tensor(&in, g, pre), .y = eager_tensor(&y, value),
                         .interleaved = g->interleaved, .limit = TG_VALUE(g->limit),
                         .alpha = TG_VALUE(g->alpha), .up_offset = g->up_offset);
    else
        e->status =
            CALL(e->ctx, geglu_forward, .gate = gate_tensor(&in, g, pre),
                 .up = up_tensor(&in, g, pre), .y = eager_tensor(&y, value),
                 .interleaved = g->interleaved, .exact = g->activation == TG_MOE_GEGLU_EXACT);
}

static void gate_backward(eager *e, const gate *g, mat pre, mat dvalue, mat dpre)
{
    halves in, out;
    view dy;
    if (e->status || pre.rows == 0)
        return;
    if (g->activation == TG_MOE_SWIGLU)
        e->status = CALL(e->ctx, swiglu_backward, .dy = eager_tensor(&dy, dvalue),
                         .gate = gate_tensor(&in, g, pre), .up = up_tensor(&in, g, pre),
                         .dgate = gate_tensor(&out, g, dpre), .dup = up_tensor(&out, g, dpre),
                         .interleaved = g->interleaved, .limit = TG_VALUE(g->limit),
                         .alpha = TG_VALUE(g->alpha), .up_offset = g->up_offset);
    else
        e->status =
            CALL(e->ctx, geglu_backward, .dy = eager_tensor(&dy, dvalue),
                 .gate = gate_tensor(&in, g, pre), .up = up_tensor(&in, g, pre),
                 .dgate = gate_tensor(&out, g, dpre), .dup = up_tensor(&out, g, dpre),
                 .interleaved = g->interleaved, .exact = g->activation == TG_MOE_GEGLU_EXACT);
}

/* ---- what an expert has ---- */

/* Its tokens, and their weights, [n, 1]. */
typedef struct tokens {
    const int64_t *slot;
    int64_t first, count, top_k;
    mat weights;
} tokens;

static tokens tokens_of(eager *e, const tg_tensor *weights, const int64_t *slot,
                        const int64_t *offset, int64_t expert)
{
    tokens t = {slot, offset[expert], offset[expert + 1] - offset[expert], weights->shape[1], {0}};
    t.weights = gathered(e, eager_column(weights), slot, 1, t.first, t.count);
    return t;
}

static mat input_of(eager *e, const tg_tensor *x, const tokens *t, int64_t scaled)
{
    const mat rows = gathered(e, eager_rows(x), t->slot, t->top_k, t->first, t->count);
    return scaled ? eager_then_by(e, EAGER_MUL, rows, t->weights) : rows;
}

static mat project(eager *e, mat x, const tg_tensor *matrices, const tg_tensor *bias,
                   int64_t transposed, int64_t expert)
{
    const mat b = matrix_of(matrices, expert);
    const mat y = eager_new(e, x.type, x.rows, transposed ? b.cols : b.rows);
    eager_multiply(e, y, x, 0, b, !transposed, 0);
    if (bias)
        eager_binary(e, EAGER_ADD, y, y, vector_of(bias, expert));
    return y;
}

/* Rows are added to those of their tokens, one by one. */
static void add_rows(eager *e, mat to, const tokens *t, mat rows)
{
    for (int64_t i = 0; i < t->count; i++) {
        const mat row = rows_of(to, t->slot[t->first + i] / t->top_k, 1);
        eager_binary(e, EAGER_ADD, row, row, rows_of(rows, i, 1));
    }
}

/* ---- forward ---- */

static void run_expert(eager *e, const tg_fused_moe_forward_args *args, const routing *r,
                       int64_t expert, mat y)
{
    const gate g = GATE(args);
    const tokens t = tokens_of(e, args->weights, r->slot, r->offset, expert);
    const mat x = input_of(e, args->x, &t, args->scale_input);
    const mat pre = project(e, x, args->gate_up, args->gate_up_bias, args->transposed, expert);
    const mat value = eager_new(e, x.type, t.count, pre.cols / 2);
    gate_forward(e, &g, pre, value);
    mat result = project(e, value, args->down, args->down_bias, args->transposed, expert);
    if (!args->scale_input)
        result = eager_then_by(e, EAGER_MUL, result, t.weights);
    add_rows(e, y, &t, result);
    if (args->pre)
        eager_unary(e, EAGER_COPY, rows_of(eager_rows(args->pre), t.first, t.count), pre);
    eager_free(e, t.weights);
    eager_free(e, x);
    eager_free(e, pre);
    eager_free(e, value);
    eager_free(e, result);
}

static tg_status forward(tg_ctx *ctx, const tg_fused_moe_forward_args *args)
{
    eager e = eager_begin(ctx);
    const int64_t slots = tg_numel(args->index), experts = args->down->shape[0];
    const routing r = {numbers(&e, args->slot, slots), numbers(&e, args->offset, experts + 1),
                       numbers(&e, args->place, slots)};
    const mat sum = eager_new(&e, tg_type_of(args->y), args->y->shape[0], args->y->shape[1]);
    if (e.status)
        return eager_end(&e);
    order(&e, args, &r);
    if (e.status)
        return eager_end(&e);
    if (args->addend)
        eager_unary(&e, EAGER_COPY, sum, eager_rows(args->addend));
    else
        eager_fill(&e, sum, 0);
    for (int64_t expert = 0; expert < experts; expert++)
        run_expert(&e, args, &r, expert, sum);
    if (args->pre) {
        const mat pre = eager_rows(args->pre);
        eager_fill(&e, rows_of(pre, r.offset[experts], slots - r.offset[experts]), 0);
    }
    eager_unary(&e, EAGER_COPY, eager_rows(args->y), sum);
    return eager_end(&e);
}

/* ---- backward ---- */

/* The gradient of a matrix whose results had these gradients, of these inputs. */
static void matrix_gradient(eager *e, const tg_tensor *to, int64_t transposed, int64_t accumulate,
                            int64_t expert, mat dy, mat x)
{
    if (to)
        put_product(e, matrix_of(to, expert), transposed ? x : dy, 1, transposed ? dy : x, 0,
                    accumulate);
}

/* The sums of a b of each row go to the weights of the tokens. */
static void weight_gradient(eager *e, const tg_tensor *to, const tokens *t, mat a, mat b)
{
    if (!to)
        return;
    const mat product = eager_new(e, TG_F32, a.rows, a.cols), sum = eager_new(e, TG_F32, a.rows, 1);
    eager_binary(e, EAGER_MUL, product, a, b);
    eager_reduce_rows(e, EAGER_SUM, sum, product);
    const mat all = eager_column(to);
    for (int64_t i = 0; i < t->count; i++)
        eager_unary(e, EAGER_COPY, rows_of(all, t->slot[t->first + i], 1), rows_of(sum, i, 1));
    eager_free(e, product);
    eager_free(e, sum);
}

/* The gradient at the expert's results; of the weights that multiply them, too. */
static mat result_gradient(eager *e, const tg_fused_moe_backward_args *args, const tokens *t,
                           int64_t expert, mat value)
{
    const mat dy = gathered(e, eager_rows(args->dy), t->slot, t->top_k, t->first, t->count);
    if (args->scale_input)
        return dy;
    const mat y = project(e, value, args->down, args->down_bias, args->transposed, expert);
    weight_gradient(e, args->dweights, t, y, dy);
    eager_free(e, y);
    return eager_then_by(e, EAGER_MUL, dy, t->weights);
}

/* The gradient at an expert's inputs, which are scaled rows of x with scale_input. */
static void input_gradient(eager *e, const tg_fused_moe_backward_args *args, const tokens *t,
                           int64_t expert, mat dpre, mat dx)
{
    const mat b = matrix_of(args->gate_up, expert);
    mat d = eager_new(e, dpre.type, t->count, args->x->shape[1]);
    eager_multiply(e, d, dpre, 0, b, args->transposed != 0, 0);
    if (args->scale_input) {
        const mat x = input_of(e, args->x, t, 0);
        weight_gradient(e, args->dweights, t, x, d);
        eager_free(e, x);
        d = eager_then_by(e, EAGER_MUL, d, t->weights);
    }
    if (args->dx)
        add_rows(e, dx, t, d);
    eager_free(e, d);
}

static void expert_gradients(eager *e, const tg_fused_moe_backward_args *args, int64_t expert,
                             mat dx)
{
    const gate g = GATE(args);
    const tokens t =
        tokens_of(e, args->weights, tg_data(args->slot), tg_data(args->offset), expert);
    const mat x = input_of(e, args->x, &t, args->scale_input);
    const mat pre =
        args->pre ? rows_of(eager_rows(args->pre), t.first, t.count)
                  : project(e, x, args->gate_up, args->gate_up_bias, args->transposed, expert);
    const mat value = eager_new(e, x.type, t.count, pre.cols / 2), dvalue = eager_like(e, value);
    const mat dpre = eager_new(e, x.type, t.count, pre.cols);
    gate_forward(e, &g, pre, value);
    const mat dy = result_gradient(e, args, &t, expert, value);
    eager_multiply(e, dvalue, dy, 0, matrix_of(args->down, expert), args->transposed != 0, 0);
    gate_backward(e, &g, pre, dvalue, dpre);
    input_gradient(e, args, &t, expert, dpre, dx);
    matrix_gradient(e, args->ddown, args->transposed, args->accumulate, expert, dy, value);
    matrix_gradient(e, args->dgate_up, args->transposed, args->accumulate, expert, dpre, x);
    if (args->ddown_bias)
        eager_gradient(e, vector_of(args->ddown_bias, expert), dy, args->accumulate);
    if (args->dgate_up_bias)
        eager_gradient(e, vector_of(args->dgate_up_bias, expert), dpre, args->accumulate);
    const mat used[] = {t.weights, x, value, dvalue, dpre, dy};
    for (size_t i = 0; i < sizeof used / sizeof *used; i++)
        eager_free(e, used[i]);
    if (!args->pre)
        eager_free(e, pre);
}

static tg_status backward(tg_ctx *ctx, const tg_fused_moe_backward_args *args)
{
    eager e = eager_begin(ctx);
    const mat dx = eager_new(&e, tg_type_of(args->x), args->x->shape[0], args->x->shape[1]);
    eager_fill(&e, dx, 0);
    if (args->dweights)
        eager_fill(&e, eager_column(args->dweights), 0);
    for (int64_t expert = 0; expert < args->down->shape[0]; expert++)
        expert_gradients(&e, args, expert, dx);
    if (args->dx)
        eager_unary(&e, EAGER_COPY, eager_rows(args->dx), dx);
    return eager_end(&e);
}

UNFUSED_IMPLS(fused_moe) = {UNFUSED_IMPL(fused_moe_forward, forward),
                            UNFUSED_IMPL(fused_moe_backward, backward), TG_IMPLS_END};
