/* src/gemm/gemm_kernel_few.c - products of few rows of a, whose time is that of reading b: nothing
 * of b is packed. Terms are added up in the order of tiles, step by step, so that the bits of a row
 * are those that it has in a product of many. */
#include "gemm_cpu.h"

enum {
    SUMS = 512 * FEW_ROWS,    /* of a block: few rows have many columns, read as they lie */
    SQUARE = VL * WORD_TERMS, /* terms that are transposed at once */
    WORDS = 4,                /* that are added to a block's sums at once */
    BYTES_AHEAD = 512,        /* along a row of b */
    TASK_ELEMENTS = 1 << 16,  /* of b that are worth a task */
};

/* A step of a block: results [0, m) x [j0, j0 + nb). */
typedef struct block {
    product step;
    const word *a; /* its panel */
    float *sums;   /* [rows][cols] */
    int64_t cols;
} block;

/* ---- b's columns are rows in memory ---- */

/* Where the cache is asked for what is read BYTES_AHEAD later: in the same rows, or, behind the
 * step's terms, in those of the next columns. */
static int64_t bytes_ahead(const product *g, int64_t at, int64_t row)
{
    const int64_t left = g->kb * el_size(g->whole.b.type) - at;
    return left > BYTES_AHEAD ? BYTES_AHEAD : VL * row + BYTES_AHEAD - at - left;
}

/* Squares of VL columns are transposed in registers and multiplied from there. whole, a constant:
 * all of the square is there. */
SIMD_INLINE void add_square(el e, int rows, int whole, const char *b, int64_t row, int64_t lanes,
                            int64_t terms, int64_t ahead, const word *a, vf *sum)
{
    vi square[VL];
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++) {
        square[i] = v_seti(0);
        if (whole || i < lanes) {
            square[i] = words_along(e, b + i * row, whole ? SQUARE : terms);
            __builtin_prefetch(b + i * row + ahead, 0, 2);
        }
    }
    v_transpose(square);
    const int64_t words = words_of(terms);
#pragma GCC unroll 16
    for (int i = 0; i < VL; i++)
        if (whole || i < words)
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++)
                sum[r] = add_word(sum[r], a + i * rows + r, square[i]);
}

SIMD_INLINE void sum_columns(el e, int rows, const block *f)
{
    const product *g = &f->step;
    const int64_t size = el_size(e), row = g->whole.b.ld * size;
    for (int64_t c = 0; c < g->nb; c += VL) {
        const char *b = element(&g->whole.b, g->j0 + c, g->p0);
        const int64_t lanes = min64(g->nb - c, VL);
        vf sum[FEW_ROWS];
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
            sum[r] = v_set(0.0f);
        for (int64_t t = 0; t < g->kb; t += SQUARE) {
            const int64_t terms = min64(g->kb - t, SQUARE), at = t * size;
            const word *a = f->a + t / WORD_TERMS * rows;
            const int64_t ahead = bytes_ahead(g, at, row);
            if (lanes == VL && terms == SQUARE)
                add_square(e, rows, 1, b + at, row, VL, SQUARE, ahead, a, sum);
            else
                add_square(e, rows, 0, b + at, row, lanes, terms, ahead, a, sum);
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
            v_store(EL_F32, f->sums + r * f->cols, c, sum[r]);
    }
}

/* ---- b's terms are rows in memory ---- */

/* One word of NR columns, of which n are there, from the rows of its terms. */
SIMD_INLINE void words_of_terms(el e, const char *first, const char *second, int64_t n, vi *x)
{
    if (PAIRS && second && n >= NR) {
        pairs_across(first, second, (word *)x);
        return;
    }
    for (int v = 0; v < NV; v++) {
        const int64_t skip = v * VL * el_size(e), left = n - v * VL;
        x[v] = left > 0 ? words_across(e, first + skip, second ? second + skip : NULL, left)
                        : v_seti(0);
    }
}

/* `words`, a constant, of all columns, from term p of the step on. */
SIMD_INLINE void add_words(el e, int rows, int words, const block *f, int64_t p)
{
    const product *g = &f->step;
    const int64_t size = el_size(e), row = g->whole.b.ld * size;
    const char *b = element(&g->whole.b, g->p0 + p, g->j0);
    const word *a = f->a + p / WORD_TERMS * rows;
    for (int64_t c = 0; c < g->nb; c += NR) {
        vi x[WORDS][NV] __attribute__((aligned(LINE)));
#pragma GCC unroll 4
        for (int w = 0; w < words; w++) {
            const char *first = b + w * WORD_TERMS * row + c * size;
            const int two = PAIRS && p + 2 * w + 1 < g->kb;
            words_of_terms(e, first, two ? first + row : NULL, g->nb - c, x[w]);
            const char *ahead = first + words * WORD_TERMS * row;
            __builtin_prefetch(ahead, 0, 2);
            __builtin_prefetch(PAIRS ? ahead + row : ahead + LINE, 0, 2);
        }
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int v = 0; v < NV; v++) {
                float *at = f->sums + r * f->cols + c;
                vf sum = v_load(EL_F32, at, v * VL);
#pragma GCC unroll 4
                for (int w = 0; w < words; w++)
                    sum = add_word(sum, a + w * rows + r, x[w][v]);
                v_store(EL_F32, at, v * VL, sum);
            }
    }
}

SIMD_INLINE void sum_terms(el e, int rows, const block *f)
{
    const int64_t terms = f->step.kb;
    int64_t p = 0;
    memset(f->sums, 0, (size_t)(rows * f->cols) * sizeof *f->sums);
    for (; p + WORDS * WORD_TERMS <= terms; p += WORDS * WORD_TERMS)
        add_words(e, rows, WORDS, f, p);
    for (; p < terms; p += WORD_TERMS)
        add_words(e, rows, 1, f, p);
}

/* ---- blocks ---- */

SIMD_INLINE void sum_rows(el e, const block *f)
{
#define OF(rows)                                                      \
    if (f->step.height == (rows) || (rows) == FEW_ROWS) {             \
        if (f->step.whole.b.trans)                                    \
            sum_columns(e, (rows) < FEW_ROWS ? (rows) : FEW_ROWS, f); \
        else                                                          \
            sum_terms(e, (rows) < FEW_ROWS ? (rows) : FEW_ROWS, f);   \
        return;                                                       \
    }
    OF(1)
    OF(2)
    OF(4)
    OF(FEW_ROWS)
#undef OF
}

/* Columns [j, j + cols), of all terms, step by step as tiles are. */
static void compute_block(const product *g, int64_t j, int64_t cols)
{
    float sums[SUMS] __attribute__((aligned(LINE)));
    float between[SUMS];
    block f = {.step = *g, .a = g->packed_a, .sums = sums, .cols = SUMS / g->height};
    product *s = &f.step;
    s->j0 = j, s->nb = cols;
    for (s->p0 = 0; s->p0 < g->whole.k; s->p0 += s->kb) {
        s->kb = min64(g->most_kb, g->whole.k - s->p0);
        if (PAIRS)
            sum_rows(EL_BF16, &f);
        else
            EL_SPECIALIZE(s->whole.b.type, sum_rows, &f);
        const places p = places_of(&s->whole, s->whole.c.type == EL_F32 ? NULL : between, 0, j,
                                   f.cols, s->p0 == 0, s->p0 + s->kb == s->whole.k);
        const task t = {.g = s, .from = p.from, .to = p.to};
        gemm_store_rows(&t, s->mb, cols, sums, f.cols);
        f.a += panel_a(s);
    }
}

/* Panels of NR columns. */
static void compute(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const product *g = arg;
    const int64_t last = min64(end * NR, g->whole.n);
    const int64_t cols = SUMS / g->height;
    for (int64_t j = begin * NR; j < last; j += cols)
        compute_block(g, j, min64(last - j, cols));
}

int64_t gemm_few_words(const product *g)
{
    return ceil_div(g->whole.k, g->most_kb) * (words_of(g->most_kb) * g->height + VL);
}

void gemm_few(product *g)
{
    product s = *g;
    s.i0 = 0, s.mb = g->whole.m;
    for (s.p0 = 0; s.p0 < s.whole.k; s.p0 += s.kb) {
        s.kb = min64(s.most_kb, s.whole.k - s.p0);
        gemm_pack_a(&s, 0, 1, 0);
        s.packed_a += panel_a(&s);
    }
    g->i0 = 0, g->mb = g->whole.m;
    share_work(g->whole.ctx, ceil_div(g->whole.n, NR), ceil_div(TASK_ELEMENTS, NR * g->whole.k),
               compute, g);
}
