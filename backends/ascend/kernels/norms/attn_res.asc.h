/* attn_res.asc.h - the kernels of one type; see asc_each_type.h. */
#include "shared/asc_columns.asc.h"

ASC_KERNEL ASC_NAME(attn_res_prepare)(ASC_PARAMS(ATTN_RES_PREPARE))
{
    const asc_grid grid = asc_grid_of(rows, columns, tile_rows, tile_columns);
    __ubuf__ float *q = ASC_SCRATCH(query), *w = ASC_SCRATCH(weight), *k = ASC_SCRATCH(key);
    asc_modes_set();
    for (int64_t task = asc_get_block_idx(); task < grid.tasks; task += asc_get_block_num()) {
        const asc_tile t = asc_tile_at(grid, task);
        const int64_t bytes = t.columns * 4;
        ASC_NAME(asc_columns_in)(asc_place(staged_at, 0), query, query_f32, t.column, t.columns);
        ASC_NAME(asc_columns_in)(asc_place(staged_at, 1), weight, weight_f32, t.column, t.columns);
        asc_sync();
        ASC_NAME(asc_columns_widen)(q, asc_place(staged_at, 0), query_f32, 0.0f, t.columns);
        ASC_NAME(asc_columns_widen)(w, asc_place(staged_at, 1), weight_f32, 0.0f, t.columns);
        ASC_THEN();
        asc_mul(k, q, w, (uint32_t)t.columns);
        asc_sync();
        asc_copy_rows_out(vectors + ATTN_RES_KEY * vectors_stride + t.column, (uint64_t)k, 1, bytes,
                          bytes, bytes);
        asc_copy_rows_out(vectors + ATTN_RES_QUERY * vectors_stride + t.column, (uint64_t)q, 1,
                          bytes, bytes, bytes);
        asc_copy_rows_out(vectors + ATTN_RES_WEIGHT * vectors_stride + t.column, (uint64_t)w, 1,
                          bytes, bytes, bytes);
        asc_sync();
    }
    asc_modes_clear();
}

/* Copies in a tile of a token's rows. */
static inline __aicore__ void ASC_NAME(attn_res_tile_in)(__gm__ ASC_T *v, int64_t v_stride,
                                                         int64_t tokens, int64_t token,
                                                         attn_res_tile t, uint64_t to)
{
    const int64_t size = sizeof(ASC_T);
    asc_copy_rows_in(to, v + (t.first * tokens + token) * v_stride + t.column, t.rows,
                     t.columns * size, tokens * v_stride * size, t.pitch * size);
}

/* The tile that is there as f32: v32, or where it is. ASC_THEN() is left to the caller. */
static inline __aicore__ __ubuf__ float *ASC_NAME(attn_res_wide)(attn_res_tile t, uint64_t at,
                                                                 __ubuf__ float *v32)
{
#if ASC_16BIT
    ASC_WIDEN(v32, (__ubuf__ ASC_T *)at, (uint32_t)(t.rows * t.pitch));
    return v32;
#else
    (void)v32;
    return (__ubuf__ float *)at;
#endif
}

/* Both, in the turn of a slot; ends with ASC_THEN(). */
static inline __aicore__ __ubuf__ float *ASC_NAME(attn_res_rows)(__gm__ ASC_T *v, int64_t v_stride,
                                                                 int64_t tokens, int64_t token,
                                                                 attn_res_tile t, int64_t v_at,
                                                                 __ubuf__ float *v32, int slot)
{
    ASC_MAY_FILL(slot);
    ASC_NAME(attn_res_tile_in)(v, v_stride, tokens, token, t, asc_place(v_at, slot));
    ASC_HAS_FILLED(slot);
    __ubuf__ float *wide = ASC_NAME(attn_res_wide)(t, asc_place(v_at, slot), v32);
    ASC_THEN();
    return wide;
}

/* What both directions take from their lists. */
#define ATTN_RES_SUM_SCRATCH                                                      \
    {                                                                             \
        ASC_SCRATCH(p), ASC_SCRATCH(part), ASC_SCRATCH(eighth), ASC_SCRATCH(rest) \
    }
#define ATTN_RES_NUMBERS_AT \
    (depth > ATTN_RES_USUAL ? ASC_SCRATCH(deep_numbers) : ASC_SCRATCH(numbers))
#if ASC_16BIT
#define ATTN_RES_V32 ASC_SCRATCH(v32)
#else
#define ATTN_RES_V32 0
#endif

#include "attn_res_forward.asc.h"

#include "attn_res_backward.asc.h"

#undef ATTN_RES_SUM_SCRATCH
#undef ATTN_RES_V32
#undef ATTN_RES_NUMBERS_AT
