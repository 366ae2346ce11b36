/* fused_neighborhood_attention: calls, rows between tensors and panels, and windows. */
#include "fused_neighborhood_attention_cpu.h"

/* ---- calls ---- */

/* Rows of a tile's window: some more than it needs, since na_products runs over. */
static int64_t na_window_need(int64_t width)
{
    return width - 1 + NA_TILE + NA_PLACES;
}

/* Rows of a buffer: for wide windows twice as many, so that moving back costs no more than loading.
 * Odd, lest panels meet in the same sets of the cache. */
static int64_t na_window_rows(int64_t width)
{
    return (na_window_need(width) + width / NA_TILE * NA_TILE) | 1;
}

/* Positions of a task at least: what is worth a thread, and makes little of the windows that tasks
 * share at their ends. */
enum { CHUNK = 256 };

na_view na_view_of(const tg_tensor *t)
{
    const int64_t size = (int64_t)tg_type_size(tg_type_of(t));
    return (na_view){tg_data(t), tg_stride(t, 0) * size, tg_stride(t, 1) * size,
                     tg_stride(t, 2) * size};
}

na_sizes na_sizes_of(const tg_tensor *q, int64_t kernel_size, int64_t dilation, double scale)
{
    const int64_t d = q->shape[3], length = q->shape[2];
    na_sizes n = {.type = (el)tg_el(tg_type_of(q)),
                  .batch = q->shape[0],
                  .heads = q->shape[1],
                  .length = length,
                  .d = d,
                  .dilation = dilation,
                  .half = kernel_size / 2};
    n.half = na_min(n.half, length > 0 ? (length - 1) / n.dilation : 0);
    if (n.half == 0)
        n.dilation = 1; /* each position sees itself alone: one class will do */
    n.width = 2 * n.half + 1;
    n.chunk = na_max(CHUNK, 4 * n.half);
    n.chunks = ((length + n.dilation - 1) / n.dilation + n.chunk - 1) / n.chunk;
    n.panels = (d + VL - 1) / VL;
    n.window = na_window_rows(n.width);
    n.scale = (float)(scale != 0 ? scale : d > 0 ? 1 / sqrt((double)d) : 1);
    return n;
}

int64_t na_grain(const na_sizes *n, int64_t products)
{
    const int64_t positions = na_min(n->chunk, n->length / n->dilation + 1);
    return ((int64_t)1 << 17) / (positions * (products * n->width + 8) * (n->d + 1)) + 1;
}

/* ---- rows of tensors and panels, and windows ---- */

SIMD_INLINE void na_clear_rows(float *to, int64_t rows, int64_t panels, int64_t count)
{
    for (int64_t p = 0; p < panels; p++)
        memset(to + p * rows * VL, 0, (size_t)(count * VL) * sizeof *to);
}

SIMD_INLINE void load_rows(el e, const na_sizes *n, const na_view *v, const na_sequence *s,
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

SIMD_INLINE void store_rows(el e, const na_sizes *n, const na_view *v, const na_sequence *s,
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

void na_load_rows(const na_sizes *n, const na_view *v, const na_sequence *s, int64_t i,
                  int64_t count, float *to, int64_t rows)
{
    EL_SPECIALIZE(n->type, load_rows, n, v, s, i, count, to, rows);
}

void na_store_rows(const na_sizes *n, const na_view *v, const na_sequence *s, int64_t i,
                   int64_t count, const float *from, int64_t rows)
{
    EL_SPECIALIZE(n->type, store_rows, n, v, s, i, count, from, rows);
}

int64_t na_window_move(const na_sizes *n, na_window *w)
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
