/* quantize_rms_norm, quantize_swiglu and quantize_swiglu_gradient of other operators, on any device
 * that has these: the norm or the gate of a piece of the rows into scratch memory, and
 * quantize_block of that while it is in the cache. So the bits are those of the two operators. On a
 * device with memory of its own all is one piece. */
#include "core/parts.h"
#include "core/view.h"

enum {
    BLOCK = 128,      /* rows that a scale of the transpose belongs to */
    CACHED = 1 << 19, /* bytes of scratch memory of a thread, which its cache keeps */
    FEW = 8,          /* rows that go together where there is no transpose */
    NARROW = 4        /* blocks beside each other in a piece of a gate with a transpose */
};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Rows of a piece where one takes so many bytes of scratch memory: a multiple of `unit`, unless all
 * fit. */
static int64_t piece_of(tg_ctx *ctx, const tg_tensor *x, int64_t bytes, int64_t unit)
{
    const int64_t rows = tg_rows_of(x).rows, threads = tg_ctx_threads(ctx);
    const int64_t fit = bytes ? CACHED / bytes / unit * unit : rows;
    return on_host(x) ? smaller(rows, (fit > unit ? fit : unit) * threads) : rows;
}

/* Rows that go together: those of a scale of the transpose. */
static int64_t unit_of(const tg_tensor *qt)
{
    return qt ? BLOCK : FEW;
}

/* A rectangle of the operator's matrices. */
typedef struct piece {
    int64_t row, rows, column, columns;
} piece;

/* Elements [row, row + rows) x [column, column + columns) of t; NULL stays NULL. */
static tg_tensor *cut(view *v, const tg_tensor *t, int64_t row, int64_t rows, int64_t column,
                      int64_t columns)
{
    if (!t)
        return NULL;
    const tg_rows of = tg_rows_of(t);
    const int64_t at = row * of.stride + column;
    set_view(v, of.data + at * (int64_t)tg_type_size(of.type), of.type, rows, columns, of.stride);
    return beside(v, t);
}

static tg_tensor *inside(view *v, const tg_tensor *t, const piece *p)
{
    return cut(v, t, p->row, p->rows, p->column, p->columns);
}

/* Where numbers of 8 bits go. */
typedef struct results {
    const tg_tensor *q, *scale, *qt, *scale_t;
    int64_t power_of_two;
    double min_amax;
} results;

#define RESULTS(a) \
    ((results){(a)->q, (a)->scale, (a)->qt, (a)->scale_t, (a)->power_of_two, (a)->min_amax})

/* quantize_block of x, the piece of a matrix whose columns begin `beyond` columns further right in
 * the results than in the piece. */
static tg_status quantize(tg_ctx *ctx, const results *r, const tg_tensor *x, const piece *p,
                          int64_t beyond)
{
    const int64_t column = p->column + beyond;
    const int64_t down = p->row / BLOCK, high = (p->rows + BLOCK - 1) / BLOCK;
    const int64_t right = column / BLOCK, wide = (p->columns + BLOCK - 1) / BLOCK;
    view q, scale, qt, scale_t;
    return tg_quantize_block(
        ctx, &(tg_quantize_block_args){
                 .x = x,
                 .q = cut(&q, r->q, p->row, p->rows, column, p->columns),
                 .scale = cut(&scale, r->scale, right, wide, p->row, p->rows),
                 .qt = cut(&qt, r->qt, column, p->columns, p->row, p->rows),
                 .scale_t = cut(&scale_t, r->scale_t, down, high, column, p->columns),
                 .power_of_two = r->power_of_two,
                 .min_amax = r->min_amax});
}

/* ---- pieces ---- */

/* What becomes of a piece; memory: for its results in T. */
typedef tg_status run_piece(tg_ctx *ctx, const void *args, const piece *p, char *memory);

/* All pieces of matrices like x, of so many columns and results. unit: rows that go together. */
static tg_status run_pieces(tg_ctx *ctx, const void *args, const tg_tensor *x, int64_t unit,
                            int64_t columns, int64_t results, run_piece *run)
{
    const tg_rows of = tg_rows_of(x);
    const int64_t bytes = columns * (int64_t)tg_type_size(of.type) * results;
    const int64_t rows = piece_of(ctx, x, bytes, unit);
    char *memory = tg_workspace_beside(ctx, x, (size_t)(rows * bytes) + 1);
    if (!memory)
        return TG_ENOMEM;
    for (int64_t row = 0; row < of.rows; row += rows) {
        int64_t column = 0; /* without columns rows still have an rstd */
        do {
            const piece p = {row, smaller(rows, of.rows - row), column,
                             smaller(columns, of.n - column)};
            TG_TRY(run(ctx, args, &p, memory));
            column += columns;
        } while (column < of.n);
    }
    return TG_OK;
}

/* ---- rms_norm ---- */

static tg_status norm_piece(tg_ctx *ctx, const tg_quantize_rms_norm_args *a, const piece *p,
                            tg_tensor *y)
{
    view x, residual, s, rstd;
    if (!a->residual)
        return tg_rms_norm_forward(
            ctx, &(tg_rms_norm_forward_args){.x = inside(&x, a->x, p),
                                             .weight = a->weight,
                                             .y = y,
                                             .rstd = part(&rstd, a->rstd, p->row, p->rows),
                                             .eps = TG_VALUE(a->eps),
                                             .offset = a->offset,
                                             .casting_mode = a->casting_mode});
    return tg_fused_add_rms_norm_forward(
        ctx, &(tg_fused_add_rms_norm_forward_args){.x = inside(&x, a->x, p),
                                                   .residual = inside(&residual, a->residual, p),
                                                   .weight = a->weight,
                                                   .y = y,
                                                   .s = inside(&s, a->s, p),
                                                   .rstd = part(&rstd, a->rstd, p->row, p->rows),
                                                   .eps = TG_VALUE(a->eps),
                                                   .offset = a->offset,
                                                   .casting_mode = a->casting_mode});
}

static tg_status quantized_norm(tg_ctx *ctx, const void *args, const piece *p, char *memory)
{
    const tg_quantize_rms_norm_args *a = args;
    const results to = RESULTS(a);
    view y;
    set_view(&y, memory, tg_type_of(a->x), p->rows, p->columns, p->columns);
    TG_TRY(norm_piece(ctx, a, p, beside(&y, a->x)));
    return quantize(ctx, &to, &y.t, p, 0);
}

static tg_status norm(tg_ctx *ctx, const tg_quantize_rms_norm_args *a)
{
    return run_pieces(ctx, a, a->x, unit_of(a->qt), tg_rows_of(a->x).n, 1, quantized_norm);
}

/* ---- swiglu: with a transpose a piece has some of the columns alone ---- */

/* Columns of a piece: whole blocks, unless it has all. */
static int64_t width_of(const tg_tensor *x, int64_t unit)
{
    const int64_t width = tg_rows_of(x).n;
    return on_host(x) && unit == BLOCK ? smaller(width, NARROW * BLOCK) : width;
}

static tg_status gate_piece(tg_ctx *ctx, const void *args, const piece *p, char *memory)
{
    const tg_quantize_swiglu_args *a = args;
    const results to = RESULTS(a);
    view gate, up, y;
    set_view(&y, memory, tg_type_of(a->gate), p->rows, p->columns, p->columns);
    TG_TRY(tg_swiglu_forward(ctx, &(tg_swiglu_forward_args){.gate = inside(&gate, a->gate, p),
                                                            .up = inside(&up, a->up, p),
                                                            .y = beside(&y, a->gate)}));
    return quantize(ctx, &to, &y.t, p, 0);
}

static tg_status gate(tg_ctx *ctx, const tg_quantize_swiglu_args *a)
{
    const int64_t unit = unit_of(a->qt);
    return run_pieces(ctx, a, a->gate, unit, width_of(a->gate, unit), 1, gate_piece);
}

/* Both gradients and y behind each other in the scratch memory. */
static tg_status gate_back_piece(tg_ctx *ctx, const void *args, const piece *p, char *memory)
{
    const tg_quantize_swiglu_gradient_args *a = args;
    const int type = tg_type_of(a->gate);
    const int64_t bytes = p->rows * p->columns * (int64_t)tg_type_size(type);
    const results to = RESULTS(a);
    const results to_y = {NULL, NULL, a->yt, a->scale_yt, a->power_of_two, a->min_amax};
    view dy, gate, up, result[3];
    for (int i = 0; i < 3; i++) {
        set_view(&result[i], memory + i * bytes, type, p->rows, p->columns, p->columns);
        beside(&result[i], a->gate);
    }
    TG_TRY(tg_swiglu_backward(ctx, &(tg_swiglu_backward_args){.dy = inside(&dy, a->dy, p),
                                                              .gate = inside(&gate, a->gate, p),
                                                              .up = inside(&up, a->up, p),
                                                              .dgate = &result[0].t,
                                                              .dup = &result[1].t,
                                                              .y = a->yt ? &result[2].t : NULL}));
    for (int i = 0; (a->q || a->qt) && i < 2; i++)
        TG_TRY(quantize(ctx, &to, &result[i].t, p, i * tg_rows_of(a->gate).n));
    return a->yt ? quantize(ctx, &to_y, &result[2].t, p, 0) : TG_OK;
}

static tg_status gate_back(tg_ctx *ctx, const tg_quantize_swiglu_gradient_args *a)
{
    const int64_t unit = unit_of(a->qt ? a->qt : a->yt);
    return run_pieces(ctx, a, a->gate, unit, width_of(a->gate, unit), 3, gate_back_piece);
}

TG_PARTS_CALLS(quantize_block) = {"rms_norm_forward", "fused_add_rms_norm_forward",
                                  "swiglu_forward",   "swiglu_backward",
                                  "quantize_block",   NULL};
TG_PARTS_IMPLS(quantize_block) = {TG_PARTS_IMPL(quantize_rms_norm, norm),
                                  TG_PARTS_IMPL(quantize_swiglu, gate),
                                  TG_PARTS_IMPL(quantize_swiglu_gradient, gate_back), TG_IMPLS_END};
