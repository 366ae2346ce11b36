/* src/rotary/rotary_eager.h - the half-split rotation as an eager framework runs it, for the opt-in
 * rows `unfused`. */
#ifndef TG_ROTARY_EAGER_H
#define TG_ROTARY_EAGER_H

#include "eager/eager.h"
#include "rotary/rotary.h"

/* Angles of one batch: row `p` of position p, at least `half` columns. */
typedef mat (*rotary_eager_table)(const void *tables, int64_t b);

typedef struct rotary_eager {
    const void *tables; /* the family's, handed to: */
    rotary_eager_table cos, sin;
    int64_t half;
    int direction; /* 1 forward, -1 backward */
} rotary_eager;

/* y = x * cos + rotate_half(x) * sin (backward: its transpose), one pass and one temporary a step, in
 * the storage type, or in f32 where the tables are f32. */
void rotary_eager_run(eager *e, const rotary_eager *by, const tg_tensor *x, const tg_tensor *y);

/* Columns [begin, begin + count) of a matrix. */
mat rotary_eager_columns(mat m, int64_t begin, int64_t count);

#endif
