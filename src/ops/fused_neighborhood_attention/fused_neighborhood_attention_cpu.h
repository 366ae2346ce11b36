/* What both directions of fused_neighborhood_attention on the CPU share: tiles of 16 queries.
 *
 * Positions that see each other are equal modulo the dilation. Each such class is a sequence of its
 * own without dilation; whatever comes after na_sequence_of() speaks of one.
 *
 * Rows are widened to f32 when they are loaded, into panels of VL columns: element (row, column) of
 * a buffer of n rows lies at [column / VL][row][column % VL]. So rows next to each other are VL
 * floats apart whatever D is, and inner loops need no address but one.
 *
 * A band is an array [place][query]: 16 queries along the lanes, and for each of them the places of
 * its window, of which place t is row query + t of the tile's window. So the softmax and its
 * gradient are operations between vectors.
 */
#ifndef TG_FUSED_NEIGHBORHOOD_ATTENTION_CPU_H
#define TG_FUSED_NEIGHBORHOOD_ATTENTION_CPU_H

#include "rows/level.h"
#include "simd.h"

#define na_view_of TG_AT_LEVEL(na_view_of)
#define na_sizes_of TG_AT_LEVEL(na_sizes_of)
#define na_grain TG_AT_LEVEL(na_grain)
#define na_load_rows TG_AT_LEVEL(na_load_rows)
#define na_store_rows TG_AT_LEVEL(na_store_rows)
#define na_window_move TG_AT_LEVEL(na_window_move)
#define na_products TG_AT_LEVEL(na_products)
#define na_sum_keys TG_AT_LEVEL(na_sum_keys)
#define na_sum_queries TG_AT_LEVEL(na_sum_queries)

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

/* ---- rows of tensors ---- */

SIMD_INLINE char *na_row(const na_sizes *n, const na_view *v, const na_sequence *s, int64_t i)
{
    return v->data + s->b * v->batch + s->h * v->head + (s->first + i * n->dilation) * v->row;
}

/* Rows asked for while a tile is computed on: inputs of the next one, outputs of this one. The
 * hardware looks ahead as well, but not as far as a tile. Addresses past the ends do no harm. */
typedef struct na_ahead {
    const char *row;
    int64_t step, bytes;
} na_ahead;

SIMD_INLINE na_ahead na_ahead_of(const na_sizes *n, const na_view *v, const na_sequence *s,
                                 int64_t i)
{
    return (na_ahead){na_row(n, v, s, i), n->dilation * v->row, n->d * el_size(n->type)};
}

/* ---- windows: they slide along the sequence ---- */

/* Some buffers of n->window rows, of which the tile's window are those from `base` on. They move
 * together; when they reach the end of the buffer the rows still needed go back to its start. */
typedef struct na_window {
    float *rows;
    int64_t count; /* buffers */
    int64_t base;  /* -1: no tile yet */
} na_window;

/* Floats of a band. */
SIMD_INLINE int64_t na_band(int64_t width)
{
    return NA_TILE * (width + NA_PLACES);
}

SIMD_INLINE na_window na_window_begin(int64_t count, float *rows)
{
    return (na_window){rows, count, -1};
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

/* Products of one place, scaled; -inf where the key lies past an end. */
SIMD_INLINE vf na_score(const na_sizes *n, const na_tile *t, const float *band, int64_t place,
                        int lane)
{
    const vu row = (vu)(v_iota() + v_seti((int32_t)(lane + place - t->low)));
    const vi inside = (vi)(row < (vu)v_seti((int32_t)(t->high - t->low)));
    const vf score = v_load(EL_F32, band, place * NA_TILE + lane) * v_set(n->scale);
    return v_select(inside, score, v_set(-INFINITY));
}

/* ---- fused_neighborhood_attention_kernel.c ---- */

na_view na_view_of(const tg_tensor *t);
na_sizes na_sizes_of(const tg_tensor *q, int64_t kernel_size, int64_t dilation, double scale);
/* Tasks that one worker takes at once: some hundred thousand products. */
int64_t na_grain(const na_sizes *n, int64_t products);

/* Rows [i, i + count) of the sequence, zeros where there is none. */
void na_load_rows(const na_sizes *n, const na_view *v, const na_sequence *s, int64_t i,
                  int64_t count, float *to, int64_t rows);
/* The way back: `count` rows from `from` on become rows [i, i + count) of the sequence. */
void na_store_rows(const na_sizes *n, const na_view *v, const na_sequence *s, int64_t i,
                   int64_t count, const float *from, int64_t rows);
/* Goes to the next tile; returns how many of its rows are there already. */
int64_t na_window_move(const na_sizes *n, na_window *w);

/* ---- fused_neighborhood_attention_kernel_band.c ---- */

/* band[place][query] = a_query . b_(query + place) for the places [first, last)
 * of the tile, and for
 * more where their number is no multiple of NA_PLACES. a: a tile of rows; b: a window. */
void na_products(const na_sizes *n, const na_tile *t, const float *a, const float *b, float *band,
                 const na_ahead *ahead, int asked);
/* Sums of a window's rows over keys, weighted by the band, for queries [begin, end) of the tile,
 * and one more if their number is odd. */
void na_sum_keys(const na_sizes *n, const na_tile *t, const float *band, const float *window,
                 float *tile, int64_t begin, int64_t end);
/* Sums of a tile's rows over queries, for rows [begin, end) of the window. add: to what the
 * window's rows hold. */
void na_sum_queries(const na_sizes *n, const na_tile *t, const float *band, const float *tile,
                    float *window, int add, int64_t begin, int64_t end);

#endif
