/* quantize_block and gemm_block_scaled as an eager framework runs them: of the matrix, or of its
 * transpose, the largest number of each block, a division, and a conversion are passes of their
 * own; a product widens both of its factors first. */
#include <math.h>
#include <string.h>

#include "eager.h"

enum { BLOCK = 128, ROWS = 16 };

/* ---- numbers of 8 bits ---- */

static float from_e4m3(uint8_t code)
{
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    const float a =
        exponent ? ldexpf((float)(8 + mantissa), exponent - 10) : ldexpf((float)mantissa, -9);
    return (code & 127) == 127 ? NAN : code & 128 ? -a : a;
}

static uint8_t to_e4m3(float x)
{
    const float a = fabsf(x);
    const int sign = signbit(x) ? 128 : 0;
    if (isnan(x) || a > 448)
        return (uint8_t)(sign | (isnan(x) ? 127 : 126));
    const int exponent = a < 0x1p-6f ? -6 : ilogbf(a);
    return (uint8_t)(sign | ((exponent + 6) * 8 + (int)nearbyintf(ldexpf(a, 3 - exponent))));
}

/* ---- passes over rows ---- */

/* Numbers of 8 bits, their scales, each of `height` rows and BLOCK columns, and f32 beside them. */
typedef struct blocks {
    tg_rows q, scale;
    mat wide;
    int64_t height, power_of_two;
    float min_amax;
} blocks;

static float *scale_at(const blocks *b, int64_t row, int64_t column)
{
    return (float *)(void *)b->scale.data + column / BLOCK * b->scale.stride + row / b->height;
}

static float *wide_row(const blocks *b, int64_t row)
{
    return (float *)b->wide.data + row * b->wide.cols;
}

static float scale_of(const blocks *b, float amax)
{
    float scale = amax == 0 ? 1 : amax / 448;
    int exponent;
    scale = scale < 0x1p-126f ? 0x1p-126f : scale;
    if (b->power_of_two && isfinite(scale) && frexpf(scale, &exponent) != 0.5f)
        scale = ldexpf(1, exponent);
    return scale;
}

/* The scale of each block of rows [begin, end) * height. */
static void find_scales(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const blocks *b = arg;
    for (int64_t at = begin; at < end; at++)
        for (int64_t column = 0; column < b->wide.cols; column += BLOCK) {
            float amax = b->min_amax;
            for (int64_t r = at * b->height; r < (at + 1) * b->height && r < b->wide.rows; r++)
                for (int64_t c = column; c < column + BLOCK && c < b->wide.cols; c++) {
                    const float a = fabsf(wide_row(b, r)[c]);
                    amax = a > amax || isnan(a) ? a : amax;
                }
            *scale_at(b, at * b->height, column) = scale_of(b, amax);
        }
}

static void divide(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const blocks *b = arg;
    for (int64_t r = begin; r < end; r++)
        for (int64_t c = 0; c < b->wide.cols; c++)
            wide_row(b, r)[c] *= 1 / *scale_at(b, r, c);
}

static void convert(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const blocks *b = arg;
    for (int64_t r = begin; r < end; r++)
        for (int64_t c = 0; c < b->wide.cols; c++)
            ((uint8_t *)b->q.data)[r * b->q.stride + c] = to_e4m3(wide_row(b, r)[c]);
}

static void widen(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const blocks *b = arg;
    for (int64_t r = begin; r < end; r++)
        for (int64_t c = 0; c < b->wide.cols; c++) {
            const uint8_t code = ((const uint8_t *)b->q.data)[r * b->q.stride + c];
            wide_row(b, r)[c] = from_e4m3(code) * *scale_at(b, r, c);
        }
}

static void each_row(eager *e, int64_t rows, void (*pass)(void *, int64_t, int64_t, int), blocks *b)
{
    if (!e->status)
        unfused_host->parallel_for(e->ctx, rows, ROWS, pass, b);
}

/* ---- quantize_block ---- */

static mat transposed(eager *e, mat x)
{
    const mat t = eager_new(e, TG_F32, x.cols, x.rows);
    for (int64_t i = 0; !e->status && i < x.rows; i++)
        for (int64_t j = 0; j < x.cols; j++)
            ((float *)t.data)[j * t.cols + i] = ((const float *)x.data)[i * x.cols + j];
    return t;
}

static void quantize(eager *e, const tg_quantize_block_args *a, mat wide, const tg_tensor *q,
                     const tg_tensor *scale)
{
    blocks b = {.q = tg_rows_of(q),
                .scale = tg_rows_of(scale),
                .wide = wide,
                .height = a->square ? BLOCK : 1,
                .power_of_two = a->power_of_two,
                .min_amax = (float)a->min_amax};
    each_row(e, (wide.rows + b.height - 1) / b.height, find_scales, &b);
    each_row(e, wide.rows, divide, &b);
    each_row(e, wide.rows, convert, &b);
}

static tg_status run_quantize(tg_ctx *ctx, const tg_quantize_block_args *a)
{
    eager e = eager_begin(ctx);
    const mat wide = eager_copy(&e, TG_F32, eager_rows(a->x));
    mat turned = {0};
    if (a->qt)
        turned = transposed(&e, wide);
    if (a->q)
        quantize(&e, a, wide, a->q, a->scale);
    if (a->qt)
        quantize(&e, a, turned, a->qt, a->scale_t);
    return eager_end(&e);
}

/* ---- gemm_block_scaled ---- */

static mat widened(eager *e, const tg_tensor *q, const tg_tensor *scale)
{
    blocks b = {.q = tg_rows_of(q), .scale = tg_rows_of(scale)};
    b.height = b.scale.n == b.q.rows ? 1 : BLOCK;
    b.wide = eager_new(e, TG_F32, b.q.rows, b.q.n);
    each_row(e, b.q.rows, widen, &b);
    return b.wide;
}

static tg_status run_product(tg_ctx *ctx, const tg_gemm_block_scaled_args *args)
{
    eager e = eager_begin(ctx);
    const mat a = widened(&e, args->a, args->scale_a), b = widened(&e, args->b, args->scale_b);
    const mat c = eager_rows(args->c), fresh = eager_new(&e, TG_F32, c.rows, c.cols);
    eager_multiply(&e, fresh, a, 0, b, 1, 0);
    if (args->addend)
        eager_binary(&e, EAGER_ADD, c, fresh, eager_rows(args->addend));
    else
        eager_unary(&e, EAGER_COPY, c, fresh);
    return eager_end(&e);
}

UNFUSED_IMPLS(quantize_block) = {UNFUSED_IMPL(quantize_block, run_quantize),
                                 UNFUSED_IMPL(gemm_block_scaled, run_product), TG_IMPLS_END};
