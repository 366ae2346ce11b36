/* quantize_block, plainly. The definition itself is in f32, so that all results are the same. */
#include <math.h>
#include <string.h>

#include "quantize_block_ref.h"

enum { BLOCK = 128 };

/* x or its transpose. */
typedef struct matrix {
    tg_rows x;
    int transposed;
    int64_t rows, columns;
} matrix;

static matrix matrix_of(const tg_tensor *x, int transposed)
{
    const tg_rows rows = tg_rows_of(x);
    return (matrix){rows, transposed, transposed ? rows.n : rows.rows,
                    transposed ? rows.rows : rows.n};
}

static float get(const matrix *m, int64_t row, int64_t column)
{
    const int64_t at = m->transposed ? column * m->x.stride + row : row * m->x.stride + column;
    return (float)tg_get(m->x.data, m->x.type, at);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static float amax_of(const matrix *m, int64_t row, int64_t rows, int64_t column, float amax)
{
    for (int64_t r = row; r < least(row + rows, m->rows); r++)
        for (int64_t c = column; c < least(column + BLOCK, m->columns); c++) {
            const float a = fabsf(get(m, r, c));
            if (isnan(a))
                return a;
            amax = a > amax ? a : amax;
        }
    return amax;
}

static float scale_of(float amax, int64_t power_of_two)
{
    float scale = amax == 0 ? 1 : amax / 448;
    if (scale < 0x1p-126F)
        scale = 0x1p-126F;
    int exponent;
    if (power_of_two && isfinite(scale) && frexpf(scale, &exponent) != 0.5F)
        scale = ldexpf(1, exponent);
    return scale;
}

/* x (1 / scale) as the E4M3 number next to it. */
static double quantized(float x, float scale)
{
    uint8_t code;
    tg_set(&code, TG_F8E4M3, 0, (double)(x * (1 / scale)));
    return tg_get(&code, TG_F8E4M3, 0);
}

static void quantize(const matrix *m, const tg_quantize_block_args *args, const tg_tensor *q,
                     const tg_tensor *scale)
{
    const tg_rows out = tg_rows_of(q), scales = tg_rows_of(scale);
    const int64_t height = args->square ? BLOCK : 1;
    for (int64_t row = 0; row < m->rows; row += height)
        for (int64_t column = 0; column < m->columns; column += BLOCK) {
            const float amax = amax_of(m, row, height, column, (float)args->min_amax);
            const float s = scale_of(amax, args->power_of_two);
            tg_set(scales.data, scales.type, column / BLOCK * scales.stride + row / height,
                   (double)s);
            for (int64_t r = row; r < least(row + height, m->rows); r++)
                for (int64_t c = column; c < least(column + BLOCK, m->columns); c++)
                    tg_set(out.data, out.type, r * out.stride + c, quantized(get(m, r, c), s));
        }
}

void quantize_block_ref(const tg_quantize_block_args *args)
{
    const matrix x = matrix_of(args->x, 0), transpose = matrix_of(args->x, 1);
    if (args->q)
        quantize(&x, args, args->q, args->scale);
    if (args->qt)
        quantize(&transpose, args, args->qt, args->scale_t);
}

static tg_status run(tg_ctx *ctx, const tg_quantize_block_args *args)
{
    (void)ctx;
    quantize_block_ref(args);
    return TG_OK;
}

TG_REF_IMPLS(quantize_block) = {TG_REF_IMPL(quantize_block, run), TG_IMPLS_END};
