/* src/gemm/gemm_kernel_tile.c - a tile of results of the portable product, in registers. */
#include "gemm_cpu.h"

SIMD_INLINE void fetch_line(lines *l)
{
    if (l->rows <= 0)
        return;
    __builtin_prefetch(l->next);
    l->next += LINE;
    if (--l->left_in_row == 0) {
        l->left_in_row = l->row_lines;
        l->next += l->skip;
        l->rows--;
    }
}

static inline lines lines_of_place(const place *p, int64_t i, int64_t j, int64_t rows, int64_t cols)
{
    return lines_of(at(p, i, j), rows, cols * el_size(p->type), p->ld * el_size(p->type));
}

/* n results from (i, j) on: alpha times their sums and, of type `add`, what is added. */
SIMD_INLINE vf results_of(el add, const task *t, int64_t i, int64_t j, int64_t n, vf sum)
{
    const vf x = v_set(t->g->whole.alpha) * sum;
    if (!t->from.data)
        return x;
    const char *from = at(&t->from, i, j);
    vf more = n == VL ? v_load(add, from, 0) : v_load_n(add, from, 0, n, 0.0f);
    if (t->from.factor != 1.0f) /* a branch, so that a sum without it is rounded once */
        more *= v_set(t->from.factor);
    return x + more;
}

static void store_part(const task *t, int64_t i, int64_t j, int64_t rows, int64_t cols,
                       const vf sum[MR][NV])
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t v = 0; v * VL < cols; v++) {
            const int64_t n = min64(cols - v * VL, VL);
            const vf x = results_of(t->from.type, t, i + r, j + v * VL, n, sum[r][v]);
            v_store_n(t->to.type, at(&t->to, i + r, j), v * VL, n, x);
        }
}

void gemm_store_rows(const task *t, int64_t rows, int64_t cols, const float *sums, int64_t stride)
{
    for (int64_t j = 0; j < cols; j += NR) {
        vf part[MR][NV];
        for (int64_t r = 0; r < rows; r++)
            for (int v = 0; v < NV; v++)
                part[r][v] = v_load(EL_F32, sums + r * stride + j, v * VL);
        store_part(t, 0, j, rows, min64(cols - j, NR), (const vf(*)[NV])part);
    }
}

/* A whole tile, from sums that are in registers. */
SIMD_INLINE void store_whole(el to, el add, const task *t, int64_t i, int64_t j,
                             const vf sum[MR][NV])
{
#pragma GCC unroll 16
    for (int r = 0; r < MR; r++)
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++)
            v_store(to, at(&t->to, i + r, j), v * VL,
                    results_of(add, t, i + r, j + v * VL, VL, sum[r][v]));
}

/* The same; 0 for types that it is not made for. */
SIMD_INLINE int stores_whole(const task *t, int64_t i, int64_t j, const vf sum[MR][NV])
{
    const el to = t->to.type, add = t->from.data ? t->from.type : EL_F32;
    if (to == EL_F32 && add == EL_F32)
        store_whole(EL_F32, EL_F32, t, i, j, sum);
    else if (to == EL_F32 && add == EL_BF16)
        store_whole(EL_F32, EL_BF16, t, i, j, sum);
    else if (to == EL_BF16 && add == EL_F32)
        store_whole(EL_BF16, EL_F32, t, i, j, sum);
    else if (to == EL_BF16 && add == EL_BF16)
        store_whole(EL_BF16, EL_BF16, t, i, j, sum);
    else
        return 0;
    return 1;
}

/* Results (i, j) to (i + height, j + NR) of the step: to = from + alpha * (panel of a) * (panel of
 * b), of which `rows` and the first `vectors` vectors, constants, are computed. Meanwhile the cache
 * fetches their place, what is added, and `ahead`. */
SIMD_INLINE void tile_of(int rows, int vectors, const task *t, const word *a, const word *b,
                         lines *ahead, int64_t i, int64_t j)
{
    const product *g = t->g;
    const int64_t words = words_of(g->kb), height = g->height;
    const int64_t rows_left = min64(g->mb - i, rows), cols = min64(g->nb - j, NR);
    lines results = lines_of_place(&t->to, i, j, rows_left, cols), added = {0};
    if (t->from.data && t->from.data != t->to.data)
        added = lines_of_place(&t->from, i, j, rows_left, cols);
    vf sum[MR][NV] = {0};
    for (int64_t p = 0; p < words; p += AHEAD) {
        fetch_line(&results);
        fetch_line(&added);
        fetch_line(ahead);
        const int64_t count = min64(words - p, AHEAD);
#pragma GCC unroll 1
        for (int64_t q = 0; q < count; q++, a += height, b += NR) {
            vi bv[NV];
            for (int v = 0; v < vectors; v++)
                bv[v] = *(const words_mem *)(b + v * VL);
#pragma GCC unroll 16
            for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
                for (int v = 0; v < vectors; v++)
                    sum[r][v] = add_word(sum[r][v], a + r, bv[v]);
        }
    }
    if (rows == MR && vectors == NV && rows_left == MR && cols == NR &&
        stores_whole(t, i, j, (const vf(*)[NV])sum))
        return;
    vf part[MR][NV];
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            part[r][v] = sum[r][v];
    store_part(t, i, j, rows_left, cols, (const vf(*)[NV])part);
}

SIMD_INLINE void tile_of_vectors(int vectors, const task *t, const word *a, const word *b,
                                 lines *ahead, int64_t i, int64_t j)
{
    const int64_t rows = min64(t->g->mb - i, t->g->height);
#define UP_TO(n)                  \
    if (rows <= (n) || (n) >= MR) \
    return tile_of((n) < MR ? (n) : MR, vectors, t, a, b, ahead, i, j)
    UP_TO(2);
    UP_TO(4);
    UP_TO(6);
    UP_TO(8);
    UP_TO(10);
    UP_TO(12);
    UP_TO(MR);
#undef UP_TO
}

void gemm_tile(const task *t, const word *a, const word *b, lines *ahead, int64_t i, int64_t j)
{
    if (t->g->nb - j > VL)
        tile_of_vectors(NV, t, a, b, ahead, i, j);
    else
        tile_of_vectors(1, t, a, b, ahead, i, j);
}
