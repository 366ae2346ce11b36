/* multi_token_attention_cpu.h - the convolution of lower triangles, which forward and backward
 * share: that of the gradients is the same with the taps turned round.
 *
 * A block of rows of all channels of a group lies in scratch memory as f32, with zeros above the
 * diagonal and around the matrix, so that a result is a plain sum over taps.
 */
#ifndef TG_MULTI_TOKEN_ATTENTION_CPU_H
#define TG_MULTI_TOKEN_ATTENTION_CPU_H

#include "multi_token_attention.h"
#include "rows/rows.h"

/* MTA_ROWS: of a block. MTA_TILE: columns of a row that are summed up at once. */
enum { MTA_ROWS = 16, MTA_TILE = 4 * VL };

/* A channel's rows of a window, which begin at row `first` less `above`. */
typedef struct mta_window {
    operand from;
    int64_t length, above, before;
    int64_t rows, pitch; /* rows of MTA_ROWS rows and all taps; floats of a row */
} mta_window;

static inline mta_window mta_window_of(const tg_tensor *t, const mta_shape *s, int64_t above,
                                       int64_t before)
{
    const int64_t span = (s->width - 1) * s->dilation;
    const int64_t pitch = (s->length + span + 2 * MTA_TILE) / MTA_TILE * MTA_TILE;
    return (mta_window){operand_of(t), s->length, above, before, MTA_ROWS + span, pitch};
}

static inline int64_t mta_blocks(const mta_shape *s)
{
    return (s->length + MTA_ROWS - 1) / MTA_ROWS;
}

/* The first n elements of a row, n > 0, and zeros up to a whole tile. */
SIMD_INLINE void mta_widen(el e, const char *from, int64_t n, float *to)
{
    int64_t j = 0;
    for (; j + VL <= n; j += VL)
        v_store(EL_F32, to, j, v_load(e, from, j));
    for (; j < (n + MTA_TILE - 1) / MTA_TILE * MTA_TILE; j += VL)
        v_store(EL_F32, to, j, j < n ? v_load_n(e, from, j, n - j, 0) : v_set(0));
}

SIMD_INLINE void mta_fill_zeros(float *to, int64_t count)
{
    memset(to, 0, (size_t)count * sizeof *to);
}

/* A row of the matrix, which ends on the diagonal, `before` floats into a row of a window. */
SIMD_INLINE void mta_window_row(el e, const mta_window *w, int64_t channel, int64_t row, float *to)
{
    mta_fill_zeros(to, w->pitch);
    if (row < 0 || row >= w->length)
        return;
    /* no column of a result reads further on than `pitch`, nor before the window's first */
    const int64_t skip = w->before < 0 ? -w->before : 0, at = w->before + skip;
    const int64_t n = row + 1 - skip < w->pitch - at ? row + 1 - skip : w->pitch - at;
    const char *from = row_at(&w->from, channel * w->length + row) + skip * el_size(e);
    int64_t j = 0;
    for (; j + VL <= n; j += VL)
        v_store(EL_F32, to, at + j, v_load(e, from, j));
    if (j < n)
        v_store_n(EL_F32, to, at + j, n - j, v_load_n(e, from, j, n - j, 0));
}

/* Channels [channel, channel + count), for results in rows from `first` on. */
SIMD_INLINE void mta_load_window(el e, const mta_window *w, int64_t channel, int64_t count,
                                 int64_t first, float *to)
{
    for (int64_t c = 0; c < count; c++)
        for (int64_t r = 0; r < w->rows; r++)
            mta_window_row(e, w, channel + c, first - w->above + r,
                           to + (c * w->rows + r) * w->pitch);
}

/* Result row `row` of the window's block, n columns: weights is [channels, width, width]. */
SIMD_INLINE void mta_convolve(const mta_shape *s, const mta_window *w, int64_t channels,
                              const float *weights, const float *window, int64_t row, int64_t n,
                              float *out)
{
    for (int64_t j = 0; j < n; j += MTA_TILE) {
        vf sum[4] = {{0}, {0}, {0}, {0}};
        const float *weight = weights;
        for (int64_t c = 0; c < channels; c++)
            for (int64_t a = 0; a < s->width; a++) {
                const float *from = window + (c * w->rows + row + a * s->dilation) * w->pitch + j;
                for (int64_t b = 0; b < s->width; b++, from += s->dilation) {
                    const vf by = v_set(*weight++);
                    for (int k = 0; k < 4; k++)
                        sum[k] += by * v_load(EL_F32, from, k * VL);
                }
            }
        for (int k = 0; k < 4; k++)
            v_store(EL_F32, out, j + k * VL, sum[k]);
    }
}

/* The first n numbers rounded to a row, and zeros up to its end. */
SIMD_INLINE void mta_write(el e, const float *from, int64_t n, char *to, int64_t length)
{
    int64_t j = 0;
    for (; j + VL <= n; j += VL)
        v_store(e, to, j, v_load(EL_F32, from, j));
    if (j < n)
        v_store_n(e, to, j, n - j, v_load_n(EL_F32, from, j, n - j, 0));
    memset(to + n * el_size(e), 0, (size_t)((length - n) * el_size(e)));
}

/* A tensor of parameters as f32, in memory's order; zeros for one that is missing. */
static inline float *mta_floats(tg_ctx *ctx, const tg_tensor *t, int64_t count)
{
    float *floats = tg_workspace(ctx, (size_t)(count + 1) * sizeof *floats);
    for (int64_t i = 0; floats && i < count; i++)
        floats[i] = t ? el_get(el_of(t), tg_data(t), i) : 0;
    return floats;
}

#endif
