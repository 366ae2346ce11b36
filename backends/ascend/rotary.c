/* rotary.c - host of kernels/rotary/rotary.asc.c: rope, qwen2vl_mrope, llama4_rope. A launch for q
 * and one for k; one more each where elements are not turned but copied. */
#include "tigon/options.h"

#include "ascend.h"
#include "kernels/rotary/rotary.args.h"

ASCEND_KERNEL(rotary_halves, ROTARY_HALVES);
ASCEND_KERNEL(rotary_moved, ROTARY_MOVED);
ASCEND_KERNEL(rotary_pairs, ROTARY_PAIRS);
ASCEND_KERNEL(rotary_copy, ROTARY_COPY);

#define ROTARY_KERNEL(title, kernel)                                            \
    {                                                                           \
        .name = title, ASCEND_BUFFERS(kernel), .flat = 1, .column_multiple = 16 \
    }
#define ROTARY_KERNELS(op) \
    ROTARY_KERNEL(op ".halves", rotary_halves), ROTARY_KERNEL(op ".copy", rotary_copy)

enum { ROPE = 0, MROPE = 4, LLAMA4 = 8, ROPE_MOVED = 10 };

/* Of each operator first the one that turns. */
ASCEND_KERNELS(rotary) = {
    ROTARY_KERNELS("rope_forward"),
    ROTARY_KERNELS("rope_backward"),
    ROTARY_KERNELS("qwen2vl_mrope_forward"),
    ROTARY_KERNELS("qwen2vl_mrope_backward"),
    ROTARY_KERNEL("llama4_rope_forward.pairs", rotary_pairs),
    ROTARY_KERNEL("llama4_rope_backward.pairs", rotary_pairs),
    ROTARY_KERNEL("rope_forward.moved", rotary_moved),
    ROTARY_KERNEL("rope_backward.moved", rotary_moved),
    {0},
};

/* A table of angles: its planes, batches and positions, and how far they lie apart; 0
 * where one is for all. */
typedef struct table {
    ascend_memory memory;
    int64_t plane, batch, position;
    int f32;
} table;

typedef struct rotary_call {
    const tg_ub_kernel *turns, *copies;
    table cos, sin;        /* llama4_rope: cos alone */
    int64_t first, turned; /* elements of a row, and where they begin */
    int64_t planes, second, third;
    int from_neighbours, to_neighbours; /* else the elements of a pair are half of `turned` apart */
    double direction;
} rotary_call;

/* From the element `skip` on, all that the tensor has. */
static ascend_memory memory_of(const tg_tensor *t, int64_t skip)
{
    const size_t skipped = (size_t)skip * tg_type_size(tg_type_of(t)), all = tg_extent(t);
    return (ascend_memory){(char *)tg_data(t) + skipped, all > skipped ? all - skipped : 0};
}

/* batch: its dimension, which one entry serves for all; or negative. */
static table table_of(const tg_tensor *t, int plane, int batch, int position, int64_t offset)
{
    const int64_t stride = tg_stride(t, position);
    return (table){.memory = memory_of(t, offset * stride),
                   .plane = plane < 0 ? 0 : tg_stride(t, plane),
                   .batch = batch < 0 || t->shape[batch] == 1 ? 0 : tg_stride(t, batch),
                   .position = stride,
                   .f32 = tg_type_of(t) == TG_F32};
}

/* ---- one tensor ---- */

typedef struct cut {
    ascend_plan plan;
    int64_t positions, heads;
} cut;

/* Several positions, if all of their heads fit, and each core has two tiles; else one, of fewer
 * heads; else pieces of their columns. */
static tg_status choose(cut *c, const tg_ub_kernel *ub, const tg_tensor *x, int64_t parts,
                        int64_t columns)
{
    const int64_t rows = x->shape[0] * x->shape[1], most = 255;
    ascend_plan *plan = &c->plan;
    ASCEND_TRY(ascend_begin(plan, ub, x, rows * x->shape[2] * parts, columns, tg_type_of(x), 0));
    if (plan->problem.rows == 0 || columns == 0)
        return ascend_choose(plan);
    c->heads = x->shape[2] < most ? x->shape[2] : most;
    c->positions = c->heads == x->shape[2] ? ROTARY_POSITIONS : 1;
    if (c->positions > x->shape[1])
        c->positions = x->shape[1];
    while (c->positions > 1 && rows / c->positions < 2 * plan->problem.cores)
        c->positions--;
    for (;;) {
        if (ascend_fits(plan, c->positions * c->heads * parts, columns))
            return TG_OK;
        if (c->positions == 1 && c->heads == 1)
            break;
        if (c->positions > 1)
            c->positions--;
        else
            c->heads = (c->heads + 1) / 2;
    }
    for (int64_t piece = columns / 2 / 16 * 16; piece > 0; piece = piece / 2 / 16 * 16)
        if (ascend_fits(plan, parts, piece))
            return TG_OK;
    return ascend_choose(plan); /* which says what there is no room for */
}

static void count_blocks(cut *c, const tg_tensor *x)
{
    tg_ub_layout *l = &c->plan.layout;
    const int64_t cores = c->plan.problem.cores;
    l->tasks = x->shape[0] * ((x->shape[1] + c->positions - 1) / c->positions) *
               ((x->shape[2] + c->heads - 1) / c->heads) * l->column_tiles;
    l->blocks = l->tasks < cores ? l->tasks : cores;
}

#define ROTARY_ROWS_OF(x_memory, y_memory, from, to, cut)                                         \
    .x = (x_memory), .y = (y_memory), .batches = (from)->shape[0], .positions = (from)->shape[1], \
    .heads = (from)->shape[2], .x_batch = tg_stride(from, 0), .x_position = tg_stride(from, 1),   \
    .x_head = tg_stride(from, 2), .y_batch = tg_stride(to, 0), .y_position = tg_stride(to, 1),    \
    .y_head = tg_stride(to, 2), .tile_positions = (cut)->positions, .tile_heads = (cut)->heads

/* Elements [first, first + columns) of each row. */
static tg_status copy(tg_ctx *ctx, const tg_ub_kernel *ub, const tg_tensor *x, const tg_tensor *y,
                      int64_t first, int64_t columns)
{
    const ascend_memory from = memory_of(x, first), to = memory_of(y, first);
    cut c;
    if (columns == 0 || from.at == to.at)
        return TG_OK;
    ASCEND_TRY(choose(&c, ub, x, 1, columns));
    if (c.plan.layout.blocks == 0)
        return TG_OK;
    count_blocks(&c, x);
    return ASCEND_LAUNCH(ctx, &c.plan, rotary_copy, ROTARY_ROWS_OF(&from, &to, x, y, &c));
}

#define ROTARY_TABLES_OF(r)                                                        \
    .cos = &(r)->cos.memory, .sin = &(r)->sin.memory, .cos_batch = (r)->cos.batch, \
    .cos_position = (r)->cos.position, .sin_batch = (r)->sin.batch,                \
    .sin_position = (r)->sin.position, .table_f32 = (r)->cos.f32, .direction = (r)->direction

static tg_status launch_turns(tg_ctx *ctx, const rotary_call *r, const cut *c, const tg_tensor *x,
                              const tg_tensor *y)
{
    const ascend_memory from = memory_of(x, r->first), to = memory_of(y, r->first);
    if (r->from_neighbours || r->to_neighbours)
        return ASCEND_LAUNCH(ctx, &c->plan, rotary_moved, ROTARY_ROWS_OF(&from, &to, x, y, c),
                             ROTARY_TABLES_OF(r), .from_neighbours = r->from_neighbours,
                             .to_neighbours = r->to_neighbours);
    return ASCEND_LAUNCH(ctx, &c->plan, rotary_halves, ROTARY_ROWS_OF(&from, &to, x, y, c),
                         ROTARY_TABLES_OF(r), .cos_plane = r->cos.plane, .sin_plane = r->sin.plane,
                         .planes = r->planes, .second = r->second, .third = r->third);
}

/* x: q, or k, which may be absent. */
static tg_status turn(tg_ctx *ctx, const rotary_call *r, const tg_tensor *x, const tg_tensor *y)
{
    const int64_t behind = r->first + r->turned;
    cut c;
    if (!x)
        return TG_OK;
    ASCEND_TRY(choose(&c, r->turns, x, 2, r->turned / 2));
    if (c.plan.layout.blocks > 0) {
        count_blocks(&c, x);
        ASCEND_TRY(launch_turns(ctx, r, &c, x, y));
    }
    ASCEND_TRY(copy(ctx, r->copies, x, y, 0, r->first));
    return copy(ctx, r->copies, x, y, behind, x->shape[3] - behind);
}

static tg_status turn_pairs(tg_ctx *ctx, const rotary_call *r, const tg_tensor *x,
                            const tg_tensor *y)
{
    cut c;
    if (!x)
        return TG_OK;
    const ascend_memory from = memory_of(x, 0), to = memory_of(y, 0);
    ASCEND_TRY(choose(&c, r->turns, x, 1, x->shape[3]));
    if (c.plan.layout.blocks == 0)
        return TG_OK;
    count_blocks(&c, x);
    return ASCEND_LAUNCH(ctx, &c.plan, rotary_pairs, ROTARY_ROWS_OF(&from, &to, x, y, &c),
                         .freqs = &r->cos.memory, .freqs_batch = r->cos.batch,
                         .freqs_position = r->cos.position, .table_f32 = r->cos.f32,
                         .direction = r->direction);
}

/* ---- the operators ---- */

ASCEND_OPERATOR(rope_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR(rope_backward, TG_TAKES_FLOATS);
ASCEND_OPERATOR(qwen2vl_mrope_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR(qwen2vl_mrope_backward, TG_TAKES_FLOATS);
ASCEND_OPERATOR(llama4_rope_forward, TG_TAKES_FLOATS);
ASCEND_OPERATOR(llama4_rope_backward, TG_TAKES_FLOATS);

static tg_status rope(tg_ctx *ctx, const tg_tensor *const x[2], const tg_tensor *const y[2],
                      const tg_tensor *cos, const tg_tensor *sin, const tg_rope_options *o)
{
    const int position = cos->ndim - 2;
    const tg_ub_kernel *halves = &ascend_ub_rotary[ROPE + 2 * o->transposed];
    const tg_ub_kernel *moved = &ascend_ub_rotary[ROPE_MOVED + o->transposed];
    const rotary_call r = {.turns = o->pairing == TG_HALVES ? halves : moved,
                           .copies = halves + 1,
                           .cos = table_of(cos, -1, position - 1, position, o->position_offset),
                           .sin = table_of(sin, -1, position - 1, position, o->position_offset),
                           .first = o->rotary_start,
                           .turned = 2 * tg_rope_pairs(o, x[0]->shape[3]),
                           .planes = 1,
                           .from_neighbours = tg_rope_is_adjacent(o, 0),
                           .to_neighbours = tg_rope_is_adjacent(o, 1),
                           .direction = o->transposed ? -1 : 1};
    ASCEND_TRY(turn(ctx, &r, x[0], y[0]));
    return turn(ctx, &r, x[1], y[1]);
}

tg_status ascend_rope_forward(tg_ctx *ctx, const tg_rope_forward_args *a)
{
    const tg_rope_options o = tg_rope_forward_options(a);
    return rope(ctx, (const tg_tensor *const[]){a->q, a->k},
                (const tg_tensor *const[]){a->yq, a->yk}, a->cos, a->sin, &o);
}

tg_status ascend_rope_backward(tg_ctx *ctx, const tg_rope_backward_args *a)
{
    const tg_rope_options o = tg_rope_backward_options(a);
    return rope(ctx, (const tg_tensor *const[]){a->dyq, a->dyk},
                (const tg_tensor *const[]){a->dq, a->dk}, a->cos, a->sin, &o);
}

static tg_status mrope(tg_ctx *ctx, const tg_tensor *const x[2], const tg_tensor *const y[2],
                       const tg_tensor *cos, const tg_tensor *sin, int64_t section_t,
                       int64_t section_h, double direction)
{
    const tg_ub_kernel *halves = &ascend_ub_rotary[MROPE + 2 * (direction < 0)];
    const rotary_call r = {.turns = halves,
                           .copies = halves + 1,
                           .cos = table_of(cos, 0, 1, 2, 0),
                           .sin = table_of(sin, 0, 1, 2, 0),
                           .turned = x[0]->shape[3] / 2 * 2,
                           .planes = ROTARY_PLANES,
                           .second = section_t,
                           .third = section_t + section_h,
                           .direction = direction};
    ASCEND_TRY(turn(ctx, &r, x[0], y[0]));
    return turn(ctx, &r, x[1], y[1]);
}

tg_status ascend_qwen2vl_mrope_forward(tg_ctx *ctx, const tg_qwen2vl_mrope_forward_args *a)
{
    return mrope(ctx, (const tg_tensor *const[]){a->q, a->k},
                 (const tg_tensor *const[]){a->yq, a->yk}, a->cos, a->sin, a->section_t,
                 a->section_h, 1);
}

tg_status ascend_qwen2vl_mrope_backward(tg_ctx *ctx, const tg_qwen2vl_mrope_backward_args *a)
{
    return mrope(ctx, (const tg_tensor *const[]){a->dyq, a->dyk},
                 (const tg_tensor *const[]){a->dq, a->dk}, a->cos, a->sin, a->section_t,
                 a->section_h, -1);
}

static tg_status llama4_rope(tg_ctx *ctx, const tg_tensor *const x[2], const tg_tensor *const y[2],
                             const tg_tensor *freqs, double direction)
{
    const int position = freqs->ndim - 3;
    const rotary_call r = {.turns = &ascend_ub_rotary[LLAMA4 + (direction < 0)],
                           .cos = table_of(freqs, -1, position - 1, position, 0),
                           .direction = direction};
    ASCEND_TRY(turn_pairs(ctx, &r, x[0], y[0]));
    return turn_pairs(ctx, &r, x[1], y[1]);
}

tg_status ascend_llama4_rope_forward(tg_ctx *ctx, const tg_llama4_rope_forward_args *a)
{
    return llama4_rope(ctx, (const tg_tensor *const[]){a->q, a->k},
                       (const tg_tensor *const[]){a->yq, a->yk}, a->freqs, 1);
}

tg_status ascend_llama4_rope_backward(tg_ctx *ctx, const tg_llama4_rope_backward_args *a)
{
    return llama4_rope(ctx, (const tg_tensor *const[]){a->dyq, a->dyk},
                       (const tg_tensor *const[]){a->dq, a->dk}, a->freqs, -1);
}
