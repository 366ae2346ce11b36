/* src/rows/map.c - operators of elements: from tensors to pieces of rows. */
#include "rows/map.h"

/* A result may lie over an operand. */
static int lies_over(const tg_tensor *const *tensors, int ins, const tg_tensor *out)
{
    int over = 0;
    for (int k = 0; k < ins; k++)
        over |= tensors[k] && tg_data(tensors[k]) == tg_data(out);
    return over;
}

tg_status map_run(tg_ctx *ctx, int ins, int outs, const tg_tensor *const *tensors,
                  tg_range_fn chunk, const void *options)
{
    const tg_rows rows = tg_rows_of(tensors[1] ? tensors[0] : tensors[ins + outs - 1]);
    map_job j = {.type = (el)tg_el(rows.type),
                 .all = {.rows = rows.rows, .n = rows.n, .size = ROWS_WORTH},
                 .options = options};
    const int64_t width = rows.n * el_size(j.type);
    int compact = 1;
    j.stream = tg_streams(outs * rows.rows * width);
    for (int k = 0; k < ins + outs; k++) {
        if (!tensors[k])
            continue;
        j.at[k] = operand_of(tensors[k]);
        j.neighbours[k] = k + 1 < ins + outs && !tensors[k + 1];
        compact &= j.at[k].stride == width << j.neighbours[k];
        j.stream &= k < ins || !lies_over(tensors, ins, tensors[k]);
    }
    tg_parallel_for(ctx, pieces_cut(&j.all, compact), 1, chunk, &j);
    return TG_OK;
}
