/* poly_norm.asc.h - the kernels of one type; see asc_each_type.h. */
#include "shared/asc_columns.asc.h"

ASC_STEP(poly_norm_forward_begin, POLY_NORM_FORWARD)
{
    const int64_t widest = asc_round_up(tile_columns, ASC_LANES);
    __ubuf__ float *w = ASC_SCRATCH(parameters), *b = w + 8, *staged = w + 16;
    asc_clear_begin();
    asc_clear(x_at, tile_rows * widest * (int64_t)sizeof(ASC_T));
    asc_clear(rstd_at, asc_round_up(tile_rows * POLY_NORM_POWERS, 8) * 4);
    ASC_NAME(asc_parameters)(w, staged, weight, weight_f32, POLY_NORM_POWERS);
    ASC_NAME(asc_parameters)(b, staged, bias, bias_f32, 1);
    const float plus = b[0];
    ASC_FENCE(PIPE_S, PIPE_V);
    asc_duplicate(b, plus, 8);
}

ASC_STEP(poly_norm_forward_in, POLY_NORM_FORWARD)
{
    ASC_ROWS_IN(ASC_T, x_at, p->slot, x, x_stride, *p, p->pitch);
}

ASC_STEP(poly_norm_forward_tile, POLY_NORM_FORWARD)
{
    const int64_t values = p->rows * POLY_NORM_POWERS;
    __ubuf__ float *w = ASC_SCRATCH(parameters), *b = w + 8, *second = ASC_SCRATCH(second);
    __ubuf__ float *stat = ASC_UB(float, rstd_at, p->turn), *blocks = ASC_SCRATCH(blocks);
    if (p->writes)
        ASC_MAY_WRITE(p->slot);
#if ASC_16BIT
    __ubuf__ float *from = ASC_SCRATCH(x32), *to = second;
    ASC_WIDEN(from, ASC_UB(ASC_T, x_at, p->slot), p->n);
    ASC_THEN();
#else
    __ubuf__ float *from = ASC_UB(float, x_at, p->slot), *to = ASC_UB(float, y_at, p->slot);
#endif
    if (p->sums) {
        asc_row_sums sums[POLY_NORM_POWERS] = {{0, 0, ASC_SCRATCH(b0), ASC_SCRATCH(a0), 0},
                                               {0, 0, ASC_SCRATCH(b1), ASC_SCRATCH(a1), 0},
                                               {0, 0, ASC_SCRATCH(b2), ASC_SCRATCH(a2), 0}};
        poly_norm_moments(stat, ASC_SCRATCH(piece), sums, from, second, ASC_SCRATCH(fourth),
                          p->first, p->rows, p->pitch, p->columns);
    }
    if (p->writes && p->first) {
        asc_mul_scalar(stat, stat, asc_f32(part), (uint32_t)values);
        ASC_THEN();
        asc_rstd(stat, blocks, values, asc_f32(eps));
        for (int k = 0; k < POLY_NORM_POWERS; k++)
            poly_norm_scale(blocks, k, w[k], p->rows);
        ASC_THEN();
    }
    if (p->writes)
        poly_norm_polynomial(to, from, blocks, b, poly_norm_blocks(), p->rows, p->pitch);
    ASC_HAS_READ(p->slot);
#if ASC_16BIT
    if (p->writes)
        ASC_NARROW(ASC_UB(ASC_T, y_at, p->slot), to, p->n);
#endif
}

ASC_STEP(poly_norm_forward_out, POLY_NORM_FORWARD)
{
    ASC_ROWS_OUT(ASC_T, y, y_stride, *p, y_at, p->slot, p->pitch);
    if (rstd && p->first)
        asc_copy_ub2gm_align(rstd + p->row * POLY_NORM_POWERS, ASC_UB(float, rstd_at, p->turn),
                             (uint32_t)(p->rows * POLY_NORM_POWERS * 4));
}

#define ASC_PIPELINE(step) ASC_NAME(poly_norm_forward##step)
#define ASC_PIPELINE_ARGS POLY_NORM_FORWARD
#include "shared/asc_pipeline.asc.h"

ASC_STEP(poly_norm_backward_begin, POLY_NORM_BACKWARD)
{
    const int64_t bytes =
        tile_rows * asc_round_up(tile_columns, ASC_LANES) * (int64_t)sizeof(ASC_T);
    const uint32_t values = (uint32_t)asc_round_up(tile_rows * POLY_NORM_POWERS, 8);
    __ubuf__ float *w = ASC_SCRATCH(parameters);
    asc_clear_begin();
    asc_clear(dy_at, bytes);
    asc_clear(x_at, bytes);
    asc_clear(rstd_at, values * 4);
    asc_duplicate(ASC_SCRATCH(sums), 0.0f, values);
    asc_duplicate(ASC_SCRATCH(dweight), 0.0f, 8 * POLY_NORM_POWERS);
    asc_duplicate(ASC_SCRATCH(dbias), 0.0f, (uint32_t)tile_rows);
    ASC_NAME(asc_parameters)(w, w + 16, weight, weight_f32, POLY_NORM_POWERS);
}

ASC_STEP(poly_norm_backward_in, POLY_NORM_BACKWARD)
{
    ASC_ROWS_IN(ASC_T, dy_at, p->slot, dy, dy_stride, *p, p->pitch);
    ASC_ROWS_IN(ASC_T, x_at, p->slot, x, x_stride, *p, p->pitch);
    if (p->first && p->sums)
        asc_copy_rows_in(asc_place(rstd_at, p->turn), rstd + p->row * POLY_NORM_POWERS, 1,
                         p->rows * POLY_NORM_POWERS * 4, 0, 0);
}

ASC_STEP(poly_norm_backward_tile, POLY_NORM_BACKWARD)
{
    __ubuf__ float *p1 = ASC_SCRATCH(first), *p2 = ASC_SCRATCH(second), *p3 = ASC_SCRATCH(third);
    __ubuf__ float *linear = ASC_SCRATCH(blocks), *cubic = ASC_SCRATCH(factors);
    __ubuf__ float *values = ASC_SCRATCH(sums), *dys = ASC_SCRATCH(dys);
#if ASC_16BIT
    __ubuf__ float *g = ASC_SCRATCH(dy32), *a = ASC_SCRATCH(x32), *to = p1;
    ASC_WIDEN(g, ASC_UB(ASC_T, dy_at, p->slot), p->n);
    ASC_WIDEN(a, ASC_UB(ASC_T, x_at, p->slot), p->n);
    ASC_THEN();
#else
    __ubuf__ float *g = ASC_UB(float, dy_at, p->slot), *a = ASC_UB(float, x_at, p->slot);
    __ubuf__ float *to = ASC_UB(float, dx_at, p->slot);
#endif
    poly_norm_products(p1, p2, p->sums ? p3 : 0, g, a, p->n);
    if (p->sums) {
        __ubuf__ float *piece = ASC_SCRATCH(piece), *sum = p->first ? values : piece;
        asc_row_sums sums[] = {
            {sum, p3, ASC_SCRATCH(a0), ASC_SCRATCH(b0), POLY_NORM_POWERS},
            {sum + 1, p2, ASC_SCRATCH(a1), ASC_SCRATCH(b1), POLY_NORM_POWERS},
            {sum + 2, p1, ASC_SCRATCH(a2), ASC_SCRATCH(b2), POLY_NORM_POWERS},
            {p->first ? dys : piece + 8, g, ASC_SCRATCH(a3), ASC_SCRATCH(b3), 1}};
        asc_sum_rows_of(sums, 4, p->rows, p->pitch, p->columns);
        if (!p->first) {
            asc_add(values, values, piece, POLY_NORM_POWERS);
            asc_add(dys, dys, piece + 8, 1);
        }
    }
    if (p->writes && p->first) {
        asc_add(ASC_SCRATCH(dbias), ASC_SCRATCH(dbias), dys, (uint32_t)p->rows);
        poly_norm_factors(linear, cubic, ASC_SCRATCH(dweight), values,
                          ASC_UB(float, rstd_at, p->turn), ASC_SCRATCH(parameters), dweights != 0,
                          p->rows, asc_f32(part));
    }
    if (p->writes) {
        ASC_MAY_WRITE(p->slot);
        poly_norm_dx(to, p1, p2, p3, g, a, linear, cubic, poly_norm_blocks(), p->rows, p->pitch);
    }
    ASC_HAS_READ(p->slot);
#if ASC_16BIT
    if (p->writes)
        ASC_NARROW(ASC_UB(ASC_T, dx_at, p->slot), to, p->n);
#endif
}

ASC_STEP(poly_norm_backward_out, POLY_NORM_BACKWARD)
{
    ASC_ROWS_OUT(ASC_T, dx, dx_stride, *p, dx_at, p->slot, p->pitch);
}

ASC_STEP(poly_norm_backward_end, POLY_NORM_BACKWARD)
{
    __ubuf__ float *values = ASC_SCRATCH(sums), *dys = ASC_SCRATCH(dys);
    ASC_THEN(); /* the first product is scratch now */
    asc_datablock_reduce_max(values, ASC_SCRATCH(dweight),
                             8 * POLY_NORM_POWERS); /* of eight that are equal */
    asc_sum_rows(dys, ASC_SCRATCH(dbias), 1, asc_round_up(tile_rows, 8), tile_rows,
                 ASC_SCRATCH(first), ASC_SCRATCH(second));
    asc_set_vector_mask((uint64_t)-1, (uint64_t)-1);
    ASC_FENCE(PIPE_V, PIPE_MTE3);
    if (dweights)
        asc_copy_ub2gm_align(dweights + asc_get_block_idx() * partials_stride, values,
                             POLY_NORM_POWERS * 4);
    if (dbiases)
        asc_copy_ub2gm_align(dbiases + asc_get_block_idx() * partials_stride, dys, 4);
}

#define ASC_PIPELINE(step) ASC_NAME(poly_norm_backward##step)
#define ASC_PIPELINE_ARGS POLY_NORM_BACKWARD
#define ASC_PIPELINE_ENDS
#include "shared/asc_pipeline.asc.h"

#define ASC_SHORT ASC_NAME(poly_norm_forward_short)
#define ASC_SHORT_ARGS POLY_NORM_FORWARD_SHORT
#define ASC_SHORT_READS ASC_READ(x)
#define ASC_SHORT_WRITES ASC_WRITE(y, y32)
#define ASC_SHORT_RESULTS ASC_WRITE(rstd)
#define ASC_SHORT_EACH POLY_NORM_POWERS
#define ASC_SHORT_FIRST                                                                            \
    __ubuf__ float *w = ASC_SCRATCH(parameters), *b = w + 8;                                       \
    const asc_short three = asc_short_of(POLY_NORM_POWERS, lanes, asc_place(three_in_at, 0),       \
                                         asc_place(three_out_at, 0), ASC_SCRATCH(turned_scratch)); \
    ASC_NAME(asc_parameters)(w, w + 16, weight, weight_f32, POLY_NORM_POWERS);                     \
    ASC_NAME(asc_parameters)(b, w + 16, bias, bias_f32, 1);                                        \
    const float plus = b[0];                                                                       \
    ASC_FENCE(PIPE_S, PIPE_V);                                                                     \
    asc_duplicate(b, plus, 8);
#define ASC_SHORT_TILE                                                                    \
    poly_norm_forward_lines(ASC_SCRATCH(y32), ASC_SCRATCH(x32), ASC_SHORT_SCRATCH(y),     \
                            ASC_SCRATCH(stat), ASC_SCRATCH(factors), w, b, asc_f32(part), \
                            asc_f32(eps), columns, lanes);                                \
    asc_short_out(&three, ASC_UB(float, rstd_at, slot), ASC_SCRATCH(stat));               \
    ASC_THEN()
#include "shared/asc_short.asc.h"

#define ASC_SHORT ASC_NAME(poly_norm_backward_short)
#define ASC_SHORT_ARGS POLY_NORM_BACKWARD_SHORT
#define ASC_SHORT_READS ASC_READ(dy) ASC_READ(x)
#define ASC_SHORT_WRITES ASC_WRITE(dx, first)
#define ASC_SHORT_VALUES ASC_READ(rstd)
#define ASC_SHORT_EACH POLY_NORM_POWERS
#define ASC_SHORT_FIRST                                                                            \
    __ubuf__ float *w = ASC_SCRATCH(parameters), *dw = ASC_SCRATCH(dweight);                       \
    __ubuf__ float *db = ASC_SCRATCH(dbias);                                                       \
    const asc_short three = asc_short_of(POLY_NORM_POWERS, lanes, asc_place(three_in_at, 0),       \
                                         asc_place(three_out_at, 0), ASC_SCRATCH(turned_scratch)); \
    asc_duplicate(dw, 0.0f, POLY_NORM_POWERS *ASC_LANES);                                          \
    asc_duplicate(db, 0.0f, ASC_LANES);                                                            \
    ASC_NAME(asc_parameters)(w, w + 16, weight, weight_f32, POLY_NORM_POWERS);
#define ASC_SHORT_TILE                                                                          \
    asc_short_in(&three, ASC_SCRATCH(stat), ASC_UB(float, rstd_at, slot));                      \
    ASC_THEN();                                                                                 \
    poly_norm_backward_lines(ASC_SCRATCH(first), ASC_SCRATCH(second), ASC_SHORT_SCRATCH(dx),    \
                             ASC_SCRATCH(dy32), ASC_SCRATCH(x32), ASC_SCRATCH(stat),            \
                             ASC_SCRATCH(sums), ASC_SCRATCH(factors), dw, db, w, asc_f32(part), \
                             columns, lanes, count)
#define ASC_SHORT_LAST                                                                  \
    if (dweights)                                                                       \
        asc_short_sums_out(dweights + asc_get_block_idx() * partials_stride, w + 8, dw, \
                           POLY_NORM_POWERS);                                           \
    if (dbiases)                                                                        \
        asc_short_sums_out(dbiases + asc_get_block_idx() * partials_stride, w + 16, db, 1);
#include "shared/asc_short.asc.h"
