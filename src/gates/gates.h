/* src/gates/gates.h - what the gated activations have in common: gate and up in two tensors, or as
 * neighbours in one. */
#ifndef TG_GATES_H
#define TG_GATES_H

#include "core/services.h"

/* up is given, or gate has both. */
tg_status gates_check(const char *op, const char *name, const tg_tensor *up, int64_t interleaved);

/* Rows of the two as `ref` reads them: element j of a row is at j * step. */
typedef struct gates_rows {
    tg_rows gate, up;
    int64_t step;
} gates_rows;

static inline gates_rows gates_rows_of(const tg_tensor *gate, const tg_tensor *up)
{
    gates_rows g = {tg_rows_of(gate), tg_rows_of(gate), 2};
    if (up)
        return (gates_rows){g.gate, tg_rows_of(up), 1};
    g.gate.n /= 2;
    g.up.data = (char *)g.up.data + tg_type_size(g.up.type);
    return g;
}

#endif
