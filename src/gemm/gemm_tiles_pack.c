/* src/gemm/gemm_tiles_pack.c - the factors of a product as tiles of a matrix unit. */
#include "gemm_tiles.h"

typedef uint16_t row32 __attribute__((vector_size(2 * TERMS)));

/* The first n elements of a row, the rest 0. */
SIMD_INLINE row32 row_of(const char *src, int64_t n)
{
    row32 row = {0};
    if (n >= TERMS)
        memcpy(&row, src, sizeof row);
    else if (n > 0)
        v_copy_part(&row, src, n * el_size(EL_BF16));
    return row;
}

#define LOW(i) (i), 32 + (i)
#define HIGH(i) 16 + (i), 48 + (i)
#define SIXTEEN(of)                                                                               \
    of(0), of(1), of(2), of(3), of(4), of(5), of(6), of(7), of(8), of(9), of(10), of(11), of(12), \
        of(13), of(14), of(15)

/* Terms are rows in memory, PANEL lanes side by side: row i of either tile has the pairs of terms
 * 2i and 2i + 1 of its lanes. */
SIMD_INLINE void load_pairs(const char *src, int64_t stride, int64_t lanes, int64_t terms,
                            vi low[VL], vi high[VL])
{
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++, src += 2 * stride) {
        const row32 even = row_of(src, 2 * i < terms ? lanes : 0);
        const row32 odd = row_of(src + stride, 2 * i + 1 < terms ? lanes : 0);
        low[i] = (vi)__builtin_shufflevector(even, odd, SIXTEEN(LOW));
        high[i] = (vi)__builtin_shufflevector(even, odd, SIXTEEN(HIGH));
    }
}

/* Lanes are rows in memory: row i of a tile has the terms of its lane i. */
SIMD_INLINE void load_lanes(const char *src, int64_t stride, int64_t lanes, int64_t terms,
                            vi row[VL])
{
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++, src += stride)
        row[i] = (vi)row_of(src, i < lanes ? terms : 0);
}

SIMD_INLINE void store_tile(vi row[VL], int transpose, uint16_t *out)
{
    if (transpose)
        v_transpose(row);
#pragma GCC unroll 16
    for (int i = 0; i < SIDE; i++)
        memcpy(out + i * TERMS, &row[i], sizeof row[i]);
}

/* Both tiles of a panel over the terms of a tile, by pairs of terms or by lanes; `lanes` and
 * `terms` are there. */
SIMD_INLINE void pack_unit(const char *src, int64_t stride, int terms_are_rows, int by_pairs,
                           int64_t lanes, int64_t terms, uint16_t *out)
{
    vi low[VL], high[VL];
    if (terms_are_rows) {
        load_pairs(src, stride, lanes, terms, low, high);
    } else {
        load_lanes(src, stride, lanes, terms, low);
        load_lanes(src + SIDE * stride, stride, lanes - SIDE, terms, high);
    }
    store_tile(low, terms_are_rows != by_pairs, out);
    store_tile(high, terms_are_rows != by_pairs, out + TILE);
}

/* Part n of a factor, some units of a group of panels; `size` lanes belong to the step. Memory is
 * read along its rows. */
SIMD_INLINE void pack_part(const product *g, const matrix *m, int terms_are_rows, int by_pairs,
                           int64_t lane0, int64_t size, int64_t n, uint16_t *packed)
{
    const int64_t groups = ceil_div(panels(size), GROUP), first = n % groups * GROUP;
    const int64_t count = min64(panels(size) - first, GROUP);
    const int64_t unit0 = n / groups * PART, unit_count = min64(units(g) - unit0, PART);
    const int64_t stride = m->ld * el_size(EL_BF16);
    for (int64_t x = 0; x < count * unit_count; x++) {
        const int64_t panel = first + (terms_are_rows ? x % count : x / unit_count);
        const int64_t unit = unit0 + (terms_are_rows ? x / count : x % unit_count);
        const int64_t i = panel * PANEL, lanes = min64(size - i, PANEL);
        const int64_t p = unit * TERMS, terms = min64(g->ks - p, TERMS);
        const char *src =
            terms_are_rows ? element(m, g->p0 + p, lane0 + i) : element(m, lane0 + i, g->p0 + p);
        uint16_t *out = packed + (panel * units(g) + unit) * UNIT;
        if (lanes == PANEL && terms == TERMS)
            pack_unit(src, stride, terms_are_rows, by_pairs, PANEL, TERMS, out);
        else
            pack_unit(src, stride, terms_are_rows, by_pairs, lanes, terms, out);
    }
}

static void pack_a(const product *g, int64_t n)
{
    if (g->whole.a.trans)
        pack_part(g, &g->whole.a, 1, 0, g->i0, g->mb, n, g->packed_a);
    else
        pack_part(g, &g->whole.a, 0, 0, g->i0, g->mb, n, g->packed_a);
}

static void pack_b(const product *g, int64_t n)
{
    if (g->whole.b.trans)
        pack_part(g, &g->whole.b, 0, 1, g->j0, g->nb, n, g->packed_b);
    else
        pack_part(g, &g->whole.b, 1, 1, g->j0, g->nb, n, g->packed_b);
}

void gemm_tiles_pack(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const product *g = arg;
    const int64_t parts_of_a = g->new_a ? parts(g, g->mb) : 0;
    for (int64_t n = begin; n < end; n++)
        if (n < parts_of_a)
            pack_a(g, n);
        else
            pack_b(g, n - parts_of_a);
}
