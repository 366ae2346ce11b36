/* fused_neighborhood_attention: what is computed on the band, products and weighted sums. */
#include "fused_neighborhood_attention_cpu.h"

/* ---- products of queries and keys ---- */

SIMD_INLINE void na_ask_rows(const na_ahead *a, int64_t i, int64_t count)
{
    const char *row = a->row + i * a->step;
    for (int64_t r = 0; r < count; r++, row += a->step)
        for (int64_t byte = 0; byte < a->bytes; byte += 64)
            v_prefetch(row + byte);
}

/* Of every four lanes: halves of pairs of a, then of b; the first two of a and of b; and quads of
 * a and b by turns. */
#define NA_ONE(i) (((i) & ~3) + ((i)&3) / 2 + ((i)&1) * VL)
#define NA_ONE_NEXT(i) (NA_ONE(i) + 2)
#define NA_TWO(i) (((i) & ~3) + ((i)&1) + ((i)&3) / 2 * VL)
#define NA_TWO_NEXT(i) (NA_TWO(i) + 2)
#define NA_FOUR(i) (((i) & ~3) * 2 + ((i)&3))
#define NA_FOUR_NEXT(i) (NA_FOUR(i) + 4)

/* Lane i: the sum of the lanes of x[i]. Each step adds halves and halves the number of vectors. */
SIMD_INLINE vf na_sums(vf x[VL])
{
#pragma GCC unroll 8
    for (int i = 0; i < VL; i += 2)
        x[i] = V_SHUFFLE(x[i], x[i + 1], NA_ONE) + V_SHUFFLE(x[i], x[i + 1], NA_ONE_NEXT);
#pragma GCC unroll 4
    for (int i = 0; i < VL; i += 4)
        x[i] = V_SHUFFLE(x[i], x[i + 2], NA_TWO) + V_SHUFFLE(x[i], x[i + 2], NA_TWO_NEXT);
#if VL > 4
#pragma GCC unroll 2
    for (int step = 4; step < VL; step *= 2)
#pragma GCC unroll 2
        for (int i = 0; i < VL; i += 2 * step)
            x[i] =
                V_SHUFFLE(x[i], x[i + step], NA_FOUR) + V_SHUFFLE(x[i], x[i + step], NA_FOUR_NEXT);
#endif
    return x[0];
}

void na_products(const na_sizes *n, const na_tile *t, const float *a, const float *b, float *band,
                 const na_ahead *ahead, int asked)
{
    const int64_t panels = n->panels, step = n->window * VL, last = t->last;
    for (int64_t i = 0; i < t->count; i += NA_QUERIES) {
        for (int m = 0; m < asked; m++)
            na_ask_rows(&ahead[m], i, NA_QUERIES);
        for (int64_t place = t->first; place < last; place += NA_PLACES) {
            vf sum[VL];
#pragma GCC unroll 16
            for (int m = 0; m < VL; m++)
                sum[m] = v_set(0.0f);
            const float *x = a + i * VL, *y = b + (i + place) * VL;
            for (int64_t c = 0; c < panels; c++, x += NA_TILE * VL, y += step) {
                vf query[NA_QUERIES];
#pragma GCC unroll 4
                for (int m = 0; m < NA_QUERIES; m++)
                    query[m] = v_load(EL_F32, x, m * VL);
#pragma GCC unroll 8
                for (int j = 0; j < NA_QUERIES + NA_PLACES - 1; j++) {
                    const vf key = v_load(EL_F32, y, j * VL);
#pragma GCC unroll 4
                    for (int m = 0; m < NA_QUERIES; m++)
                        if (j - m >= 0 && j - m < NA_PLACES)
                            sum[(j - m) * NA_QUERIES + m] += query[m] * key;
                }
            }
            const vf sums = na_sums(sum);
#pragma GCC unroll 4
            for (int m = 0; m < NA_PLACES; m++)
                memcpy(band + (place + m) * NA_TILE + i, (const float *)&sums + m * NA_QUERIES,
                       NA_QUERIES * sizeof *band);
        }
    }
}

/* ---- sums of rows, weighted by the band ---- */

/* Where a sum's weights are: that of row r at weights[r * by_row]; and its rows [begin, end). */
typedef struct na_term {
    const float *weights;
    int64_t begin, end;
} na_term;

typedef struct na_panels {
    float *data;
    int64_t step; /* floats from panel to panel */
} na_panels;

SIMD_INLINE void na_add_row(int panels, float weight, const float *row, int64_t step, vf sum[4])
{
#pragma GCC unroll 4
    for (int p = 0; p < panels; p++)
        sum[p] += v_set(weight) * v_load(EL_F32, row, p * step);
}

/* Two sums next to each other in out, over `panels` panels. The rows of b begin and end
 * with those of a, or one later: what both need, from b.begin to a.end, is loaded once.
 * add: to what out holds. */
SIMD_INLINE void na_weigh_two(int panels, int add, int64_t by_row, na_term a, na_term b,
                              na_panels from, na_panels to)
{
    vf x[4], y[4];
#pragma GCC unroll 4
    for (int p = 0; p < panels; p++) {
        x[p] = add ? v_load(EL_F32, to.data, p * to.step) : v_set(0.0f);
        y[p] = add ? v_load(EL_F32, to.data, p * to.step + VL) : v_set(0.0f);
    }
    const float *first = a.weights + a.begin * by_row, *second = b.weights + b.begin * by_row;
    const float *row = from.data + a.begin * VL;
    if (a.begin < b.begin) {
        na_add_row(panels, *first, row, from.step, x);
        first += by_row;
        row += VL;
    }
    for (int64_t r = b.begin; r < a.end; r++, first += by_row, second += by_row, row += VL) {
        const vf u = v_set(*first), w = v_set(*second);
#pragma GCC unroll 4
        for (int p = 0; p < panels; p++) {
            const vf both = v_load(EL_F32, row, p * from.step);
            x[p] += u * both;
            y[p] += w * both;
        }
    }
    if (a.end < b.end)
        na_add_row(panels, *second, row, from.step, y);
#pragma GCC unroll 4
    for (int p = 0; p < panels; p++) {
        v_store(EL_F32, to.data, p * to.step, x[p]);
        v_store(EL_F32, to.data, p * to.step + VL, y[p]);
    }
}

/* Sums over keys, for queries [begin, end) of the tile and one more if their number is odd:
 * out_i = sum over places of band[place][i] row_(i + place). rows: a window; out: a tile. */
SIMD_INLINE void na_over_keys(int panels, const na_tile *t, const float *band, na_panels rows,
                              na_panels out, int64_t begin, int64_t end)
{
    out.data += begin * VL;
    for (int64_t i = begin; i < end; i += 2, out.data += 2 * VL) {
        const na_term a = {band - (NA_TILE - 1) * i, i + t->first, i + t->last};
        const na_term b = {a.weights - (NA_TILE - 1), a.begin + 1, a.end + 1};
        na_weigh_two(panels, 0, NA_TILE, a, b, rows, out);
    }
}

/* Sums over queries, for rows [begin, end) of a window and one more if their number is odd:
 * out_j (+)= sum over queries of band[j - query][query] row_query. rows: a tile; out: a window. */
SIMD_INLINE void na_over_queries(int panels, const na_tile *t, const float *band, na_panels rows,
                                 na_panels out, int add, int64_t begin, int64_t end)
{
    out.data += begin * VL;
    for (int64_t j = begin; j < end; j += 2, out.data += 2 * VL) {
        na_term two[2];
        for (int m = 0; m < 2; m++) {
            const int64_t low = na_max(0, j + m - t->last + 1);
            two[m] = (na_term){band + (j + m) * NA_TILE, low,
                               na_max(low, na_min(t->count, j + m - t->first + 1))};
        }
        na_weigh_two(panels, add, 1 - NA_TILE, two[0], two[1], rows, out);
    }
}

/* Both, for all panels: as many at a time as sums fit into registers. */
void na_sum_keys(const na_sizes *n, const na_tile *t, const float *band, const float *window,
                 float *tile, int64_t begin, int64_t end)
{
    na_panels rows = {(float *)window, n->window * VL}, out = {tile, NA_TILE * VL};
    for (int64_t left = n->panels, now; left > 0; left -= now) {
        now = left >= 4 ? 4 : 1;
        if (now == 4)
            na_over_keys(4, t, band, rows, out, begin, end);
        else
            na_over_keys(1, t, band, rows, out, begin, end);
        rows.data += now * rows.step;
        out.data += now * out.step;
    }
}

void na_sum_queries(const na_sizes *n, const na_tile *t, const float *band, const float *tile,
                    float *window, int add, int64_t begin, int64_t end)
{
    na_panels rows = {(float *)tile, NA_TILE * VL}, out = {window, n->window * VL};
    for (int64_t left = n->panels, now; left > 0; left -= now) {
        now = left >= 4 ? 4 : 1;
        if (now == 4)
            na_over_queries(4, t, band, rows, out, add, begin, end);
        else
            na_over_queries(1, t, band, rows, out, add, begin, end);
        rows.data += now * rows.step;
        out.data += now * out.step;
    }
}
