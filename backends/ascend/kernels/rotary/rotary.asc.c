/* rotary.asc.c - rope, qwen2vl_mrope and llama4_rope: elements are turned in pairs by the
 * angles of their position,
 *   y[d] = x[d] cos - x[e] sin,   y[e] = x[e] cos + x[d] sin,
 * where a pair is an element of each half of a row, or two neighbours. Arithmetic is f32 in UB. */
#include "rotary.h"

/* What the kernels begin with: the work, and how far rows lie apart. */
#define ROTARY_BEGIN(pieces)                                                                       \
    rotary_grid grid = {                                                                           \
        batches, positions, heads, columns, tile_positions, tile_heads, tile_columns, pieces,      \
        0,       0,         0,     0};                                                             \
    const rotary_strides from = {x_batch, x_position, x_head}, to = {y_batch, y_position, y_head}; \
    int slot = 0;                                                                                  \
    (void)rows;                                                                                    \
    rotary_count_tasks(&grid)

#define ASC_TEMPLATE "rotary/rotary.asc.h"
#include "shared/asc_each_type.h"
