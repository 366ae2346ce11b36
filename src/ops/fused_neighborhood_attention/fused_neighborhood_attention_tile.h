/* fused_neighborhood_attention_tile.h - sequences, tiles of 16 queries, and the rows that they see.
 *
 * Positions that see each other are equal modulo the dilation. Each such class is a sequence of its
 * own without dilation; whatever comes after na_sequence_of() speaks of one.
 *
 * Rows are widened to f32 when they are loaded, into panels of VL columns: element (row, column) of
 * a buffer of n rows lies at [column / VL][row][column % VL]. So rows next to each other are VL
 * floats apart whatever D is, and inner loops need no address but one.
 */
#ifndef TG_FUSED_NEIGHBORHOOD_ATTENTION_TILE_H
#define TG_FUSED_NEIGHBORHOOD_ATTENTION_TILE_H

#include <float.h>

#include "simd.h"

enum { NA_TILE = 16 }; /* queries: lanes of the softmax */
/* VL products of rows are summed at once: those of so many queries with so many places each. */
enum { NA_QUERIES = VL == 4 ? 2 : 4, NA_PLACES = VL / NA_QUERIES };

typedef struct na_sizes {
    el type;
    int64_t batch, heads, length, d;
    int64_t dilation, half; /* a query sees so many keys on either side */
    int64_t width;          /* 2 half + 1 */
    int64_t chunk, chunks;  /* positions of a class in a task; tasks of a class */
    int64_t panels;         /* of VL columns */
    int64_t window;         /* rows of a window buffer */
    float scale;
} na_sizes;

/* A tensor [B,H,S,D]; strides in bytes. */
typedef struct na_view {
    char *data;
    int64_t batch, head, row;
} na_view;

/* One class of one head. */
typedef struct na_sequence {
    int64_t length;
    int64_t begin, end;  /* the task's own positions */
    int64_t b, h, first; /* where position 0 is */
} na_sequence;

/* A tile: queries [query, query + count), whose window begins at row 0 of the window buffers. */
typedef struct na_tile {
    int64_t query, count;
    int64_t low, high;   /* rows of the window that lie within the sequence */
    int64_t first, last; /* places of the windows that any query needs */
} na_tile;

SIMD_INLINE int64_t na_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

SIMD_INLINE int64_t na_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

SIMD_INLINE na_tile na_tile_at(const na_sizes *n, const na_sequence *s, int64_t query, int64_t end)
{
    na_tile t = {.query = query, .count = na_min(end - query, NA_TILE)};
    t.low = na_max(0, n->half - query);
    t.high = na_min(NA_TILE + n->width - 1, s->length - query + n->half);
    t.first = na_max(0, t.low - (NA_TILE - 1));
    t.last = na_min(n->width, t.high);
    return t;
}

/* ---- rows of tensors and panels ---- */

SIMD_INLINE char *na_row(const na_sizes *n, const na_view *v, const na_sequence *s, int64_t i)
{
    return v->data + s->b * v->batch + s->h * v->head + (s->first + i * n->dilation) * v->row;
}

SIMD_INLINE void na_clear_rows(float *to, int64_t rows, int64_t panels, int64_t count)
{
    for (int64_t p = 0; p < panels; p++)
        memset(to + p * rows * VL, 0, (size_t)(count * VL) * sizeof *to);
}

/* Rows [i, i + count) of the sequence, zeros where there is none. */
SIMD_INLINE void na_load_rows(el e, const na_sizes *n, const na_view *v, const na_sequence *s,
                              int64_t i, int64_t count, float *to, int64_t rows)
{
    const int64_t d = n->d, step = n->dilation * v->row;
    const int64_t begin = na_max(0, -i), end = na_min(count, s->length - i);
    if (begin > 0 || end < count)
        na_clear_rows(to, rows, n->panels, count);
    const char *from = na_row(n, v, s, i + begin);
    int64_t c = 0;
    to += begin * VL;
    for (; c + 2 * VL <= d; c += 2 * VL, to += 2 * rows * VL) {
        const char *row = from;
        for (int64_t r = 0; r < end - begin; r++, row += step) {
            const vf2 x = v_load2(e, e, row, c);
            v_store(EL_F32, to, r * VL, x.a);
            v_store(EL_F32, to, (rows + r) * VL, x.b);
        }
    }
    for (; c < d; c += VL, to += rows * VL) {
        const char *row = from;
        for (int64_t r = 0; r < end - begin; r++, row += step)
            v_store(EL_F32, to, r * VL, v_load_n(e, row, c, na_min(d - c, VL), 0.0f));
    }
}

/* The way back: `count` rows from `from` on become rows [i, i + count) of the sequence. */
SIMD_INLINE void na_store_rows(el e, const na_sizes *n, const na_view *v, const na_sequence *s,
                               int64_t i, int64_t count, const float *from, int64_t rows)
{
    const int64_t d = n->d, step = n->dilation * v->row;
    char *row = na_row(n, v, s, i);
    for (int64_t r = 0; r < count; r++, row += step) {
        int64_t c = 0;
        const float *panel = from + r * VL;
        for (; c + 2 * VL <= d; c += 2 * VL, panel += 2 * rows * VL)
            v_store2(e, row, c, (vf2){v_load(EL_F32, panel, 0), v_load(EL_F32, panel, rows * VL)});
        for (; c < d; c += VL, panel += rows * VL)
            v_store_n(e, row, c, na_min(d - c, VL), v_load(EL_F32, panel, 0));
    }
}

/* Rows asked for while a tile is computed on: inputs of the next one, outputs of this one. The hardware
 * looks ahead as well, but not as far as a tile. Addresses past the ends do no harm. */
typedef struct na_ahead {
    const char *row;
    int64_t step, bytes;
} na_ahead;

SIMD_INLINE na_ahead na_ahead_of(const na_sizes *n, const na_view *v, const na_sequence *s,
                                 int64_t i)
{
    return (na_ahead){na_row(n, v, s, i), n->dilation * v->row, n->d * el_size(n->type)};
}

SIMD_INLINE void na_ask_rows(const na_ahead *a, int64_t i, int64_t count)
{
    const char *row = a->row + i * a->step;
    for (int64_t r = 0; r < count; r++, row += a->step)
        for (int64_t byte = 0; byte < a->bytes; byte += 64)
            v_prefetch(row + byte);
}

/* ---- windows: they slide along the sequence ---- */

/* Some buffers of n->window rows, of which the tile's window are those from `base` on. They move
 * together; when they reach the end of the buffer the rows still needed go back to its start. */
typedef struct na_window {
    float *rows;
    int64_t count; /* buffers */
    int64_t base;  /* -1: no tile yet */
} na_window;

/* Rows of a tile's window: some more than it needs, since na_products runs over. */
SIMD_INLINE int64_t na_window_need(int64_t width)
{
    return width - 1 + NA_TILE + NA_PLACES;
}

/* Rows of a buffer: for wide windows twice as many, so that moving back costs no more than loading.
 * Odd, lest panels meet in the same sets of the cache. */
SIMD_INLINE int64_t na_window_rows(int64_t width)
{
    return (na_window_need(width) + width / NA_TILE * NA_TILE) | 1;
}

/* Floats of a band. */
SIMD_INLINE int64_t na_band(int64_t width)
{
    return NA_TILE * (width + NA_PLACES);
}

SIMD_INLINE na_window na_window_begin(int64_t count, float *rows)
{
    return (na_window){rows, count, -1};
}

/* Goes to the next tile; returns how many of its rows are there already. */
SIMD_INLINE int64_t na_window_move(const na_sizes *n, na_window *w)
{
    const int64_t kept = n->width - 1;
    if (w->base < 0) {
        w->base = 0;
        return 0;
    }
    w->base += NA_TILE;
    if (w->base + na_window_need(n->width) > n->window) {
        for (int64_t i = 0; i < w->count * n->panels; i++) {
            float *to = w->rows + i * n->window * VL, *from = to + w->base * VL;
            for (int64_t r = 0; r < kept; r++)
                v_store(EL_F32, to, r * VL, v_load(EL_F32, from, r * VL));
        }
        w->base = 0;
    }
    return kept;
}

SIMD_INLINE float *na_window_of(const na_sizes *n, const na_window *w, int64_t i)
{
    return w->rows + (i * n->panels * n->window + w->base) * VL;
}

/* ---- tasks: one chunk of one class of one head; classes of a chunk follow each other, since they
 * share cache lines where rows are short ---- */

SIMD_INLINE int64_t na_tasks(const na_sizes *n)
{
    return n->batch * n->heads * n->chunks * n->dilation;
}

SIMD_INLINE na_sequence na_sequence_of(const na_sizes *n, int64_t task)
{
    const int64_t first = task % n->dilation, chunk = task / n->dilation % n->chunks;
    const int64_t head = task / n->dilation / n->chunks;
    const int64_t length = (n->length - first + n->dilation - 1) / n->dilation;
    return (na_sequence){.length = length,
                         .begin = na_min(length, chunk * n->chunk),
                         .end = na_min(length, (chunk + 1) * n->chunk),
                         .b = head / n->heads,
                         .h = head % n->heads,
                         .first = first};
}

/* Where lse of position i is. */
SIMD_INLINE int64_t na_place(const na_sizes *n, const na_sequence *s, int64_t i)
{
    return (s->b * n->heads + s->h) * n->length + s->first + i * n->dilation;
}

#endif
