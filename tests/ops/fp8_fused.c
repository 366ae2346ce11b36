/* quantize_rms_norm, quantize_swiglu, quantize_swiglu_gradient: the same bits as the norm or the
 * gate, whose result is written, and then quantize_block; for any number of threads, with and
 * without each of the results. */
#include "../common/test.h"

enum { ROWS = 517, COLUMNS = 896, TILES = 5, ACROSS = 7, MOST = ROWS * COLUMNS };

/* Numbers of 8 bits of two matrices of that size side by side, and their scales. */
typedef struct result {
    uint8_t q[2 * MOST], qt[2 * MOST], yt[MOST];
    float scale[2 * ACROSS * ROWS], scale_t[2 * TILES * COLUMNS], scale_yt[TILES * COLUMNS];
    float rstd[ROWS];
    uint16_t s[MOST];
} result;

static uint16_t x[MOST], residual[MOST], dy[MOST], weight[COLUMNS], y[MOST], both[2 * MOST];

/* A matrix of so many columns, or its transpose; with memory for its shape. */
typedef struct matrix {
    tg_tensor t;
    int64_t shape[2], strides[2];
} matrix;

static tg_tensor *of(matrix *m, void *data, tg_type type, int64_t rows, int64_t columns)
{
    m->shape[0] = rows;
    m->shape[1] = columns;
    m->t = tg_tensor_of(data, type, 2, m->shape);
    return &m->t;
}

static tg_tensor *part_of_both(matrix *m, int64_t half)
{
    of(m, both + half * COLUMNS, TG_BF16, ROWS, COLUMNS);
    m->strides[0] = 2 * COLUMNS;
    m->strides[1] = 1;
    m->t.strides = m->strides;
    return &m->t;
}

static tg_tensor *vector(matrix *m, void *data, tg_type type, int64_t n)
{
    m->shape[0] = n;
    m->t = tg_tensor_of(data, type, 1, m->shape);
    return &m->t;
}

/* Numbers of all sizes. */
static void fill(uint16_t *to, int n, uint32_t seed)
{
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        const uint32_t exponent = 130 - (seed >> 8 & 7), mantissa = seed >> 16 & 0x7f;
        to[i] = (uint16_t)((seed >> 31) << 15 | exponent << 7 | mantissa);
    }
}

/* ---- two operators, and one ---- */

enum { ALONG = 1, ACROSS_TOO = 2, OF_Y = 4, WITH_RESIDUAL = 8, POWER = 16 };

static void quantize(tg_ctx *ctx, tg_tensor *from, int how, uint8_t *q, float *scale, uint8_t *qt,
                     float *scale_t)
{
    const int64_t columns = from->shape[1];
    matrix m[4];
    const tg_quantize_block_args args = {
        .x = from,
        .q = how & ALONG ? of(&m[0], q, TG_F8E4M3, ROWS, columns) : NULL,
        .scale = how & ALONG ? of(&m[1], scale, TG_F32, columns / 128, ROWS) : NULL,
        .qt = how & ACROSS_TOO ? of(&m[2], qt, TG_F8E4M3, columns, ROWS) : NULL,
        .scale_t = how & ACROSS_TOO ? of(&m[3], scale_t, TG_F32, TILES, columns) : NULL,
        .power_of_two = (how & POWER) != 0};
    if (how & (ALONG | ACROSS_TOO))
        EXPECT(!tg_quantize_block(ctx, &args), "%s", tg_last_error());
}

#define X of(&m[0], x, TG_BF16, ROWS, COLUMNS)
#define UP of(&m[1], residual, TG_BF16, ROWS, COLUMNS)
#define DY of(&m[2], dy, TG_BF16, ROWS, COLUMNS)
#define Y of(&m[3], y, TG_BF16, ROWS, COLUMNS)
#define S of(&m[2], r->s, TG_BF16, ROWS, COLUMNS)
#define WEIGHT vector(&m[4], weight, TG_BF16, COLUMNS)
#define RSTD vector(&m[5], r->rstd, TG_F32, ROWS)
#define Q(columns) how &ALONG ? of(&m[6], r->q, TG_F8E4M3, ROWS, columns) : NULL
#define SCALE(columns) how &ALONG ? of(&m[7], r->scale, TG_F32, (columns) / 128, ROWS) : NULL
#define QT(columns) how &ACROSS_TOO ? of(&m[8], r->qt, TG_F8E4M3, columns, ROWS) : NULL
#define SCALE_T(columns) how &ACROSS_TOO ? of(&m[9], r->scale_t, TG_F32, TILES, columns) : NULL

static void norm_apart(tg_ctx *ctx, int how, result *r)
{
    matrix m[10];
    if (how & WITH_RESIDUAL)
        EXPECT(!tg_fused_add_rms_norm_forward(
                   ctx,
                   &(tg_fused_add_rms_norm_forward_args){
                       .x = X, .residual = UP, .weight = WEIGHT, .y = Y, .s = S, .rstd = RSTD}),
               "%s", tg_last_error());
    else
        EXPECT(
            !tg_rms_norm_forward(
                ctx, &(tg_rms_norm_forward_args){.x = X, .weight = WEIGHT, .y = Y, .rstd = RSTD}),
            "%s", tg_last_error());
    quantize(ctx, Y, how, r->q, r->scale, r->qt, r->scale_t);
}

static void norm_at_once(tg_ctx *ctx, int impl, int how, result *r)
{
    matrix m[10];
    const tg_quantize_rms_norm_args args = {.x = X,
                                            .residual = how & WITH_RESIDUAL ? UP : NULL,
                                            .s = how & WITH_RESIDUAL ? S : NULL,
                                            .weight = WEIGHT,
                                            .rstd = RSTD,
                                            .q = Q(COLUMNS),
                                            .scale = SCALE(COLUMNS),
                                            .qt = QT(COLUMNS),
                                            .scale_t = SCALE_T(COLUMNS),
                                            .eps = 1e-6,
                                            .power_of_two = (how & POWER) != 0};
    EXPECT(!tg_impl_run(ctx, impl, &args), "%s", tg_last_error());
}

static void gate_apart(tg_ctx *ctx, int how, result *r)
{
    matrix m[10];
    EXPECT(!tg_swiglu_forward(ctx, &(tg_swiglu_forward_args){.gate = X, .up = UP, .y = Y}), "%s",
           tg_last_error());
    quantize(ctx, Y, how, r->q, r->scale, r->qt, r->scale_t);
}

static void gate_at_once(tg_ctx *ctx, int impl, int how, result *r)
{
    matrix m[10];
    const tg_quantize_swiglu_args args = {.gate = X,
                                          .up = UP,
                                          .q = Q(COLUMNS),
                                          .scale = SCALE(COLUMNS),
                                          .qt = QT(COLUMNS),
                                          .scale_t = SCALE_T(COLUMNS),
                                          .power_of_two = (how & POWER) != 0};
    EXPECT(!tg_impl_run(ctx, impl, &args), "%s", tg_last_error());
}

static void gradients_apart(tg_ctx *ctx, int how, result *r)
{
    matrix m[10];
    const tg_swiglu_backward_args args = {.dy = DY,
                                          .gate = X,
                                          .up = UP,
                                          .dgate = part_of_both(&m[4], 0),
                                          .dup = part_of_both(&m[5], 1),
                                          .y = Y};
    EXPECT(!tg_swiglu_backward(ctx, &args), "%s", tg_last_error());
    quantize(ctx, of(&m[6], both, TG_BF16, ROWS, 2 * COLUMNS), how, r->q, r->scale, r->qt,
             r->scale_t);
    if (how & OF_Y)
        quantize(ctx, Y, (how & POWER) | ACROSS_TOO, NULL, NULL, r->yt, r->scale_yt);
}

static void gradients_at_once(tg_ctx *ctx, int impl, int how, result *r)
{
    matrix m[12];
    const tg_quantize_swiglu_gradient_args args = {
        .dy = DY,
        .gate = X,
        .up = UP,
        .q = Q(2 * COLUMNS),
        .scale = SCALE(2 * COLUMNS),
        .qt = QT(2 * COLUMNS),
        .scale_t = SCALE_T(2 * COLUMNS),
        .yt = how & OF_Y ? of(&m[10], r->yt, TG_F8E4M3, COLUMNS, ROWS) : NULL,
        .scale_yt = how & OF_Y ? of(&m[11], r->scale_yt, TG_F32, TILES, COLUMNS) : NULL,
        .power_of_two = (how & POWER) != 0};
    EXPECT(!tg_impl_run(ctx, impl, &args), "%s", tg_last_error());
}

/* ---- all of them ---- */

static const struct {
    const char *op;
    void (*apart)(tg_ctx *ctx, int how, result *r);
    void (*at_once)(tg_ctx *ctx, int impl, int how, result *r);
    int kinds; /* of results */
} forms[] = {
    {"quantize_rms_norm", norm_apart, norm_at_once, ALONG | ACROSS_TOO | WITH_RESIDUAL},
    {"quantize_swiglu", gate_apart, gate_at_once, ALONG | ACROSS_TOO},
    {"quantize_swiglu_gradient", gradients_apart, gradients_at_once, ALONG | ACROSS_TOO | OF_Y}};

static void check(tg_ctx *ctx, int form, int impl)
{
    static result expected, found;
    for (int how = 0; how < 2 * POWER; how++) {
        if (how & ~(forms[form].kinds | POWER) || !(how & (ALONG | ACROSS_TOO | OF_Y)))
            continue;
        memset(&expected, 0, sizeof expected);
        forms[form].apart(ctx, how, &expected);
        for (int threads = 1; threads <= 3; threads += 2) {
            tg_ctx_set_threads(ctx, threads);
            memset(&found, 0, sizeof found);
            forms[form].at_once(ctx, impl, how, &found);
            EXPECT(!memcmp(&expected, &found, sizeof found),
                   "%s: other bits than those of two operators: what %d, threads %d",
                   tg_impl_at(impl)->full_name, how, threads);
        }
        tg_ctx_set_threads(ctx, 0);
    }
}

int main(void)
{
    tg_ctx *ctx = new_context();
    fill(x, MOST, 1);
    fill(residual, MOST, 2);
    fill(dy, MOST, 3);
    fill(weight, COLUMNS, 4);
    for (int f = 0; f < (int)(sizeof forms / sizeof *forms); f++)
        for (int i = 0; i < tg_impl_count(); i++)
            if (tg_impl_at(i)->op == tg_op_by_name(forms[f].op) && runs_on_cpu(ctx, i) &&
                !strcmp(tg_impl_at(i)->backend, "cpu"))
                check(ctx, f, i);
    tg_ctx_destroy(ctx);
    return report();
}
