/* src/grouped/grouped.c - the products of grouped_cpu.h: packing, registers, tasks. Compiled once
 * per level. */
#include "grouped_cpu.h"

/* A block's sums and one word's operands fill the vector registers. */
#if VL == 16
enum { MR = 14, NV = 2 };
#elif VL == 8
enum { MR = 6, NV = 2 };
#elif SIMD_REGISTERS == 32
enum { MR = 8, NV = 2 };
#else
enum { MR = 4, NV = 2 };
#endif
enum {
    NR = NV * VL,
    PER_WORD = 1 + GROUPED_PAIRS,
    WORDS = 512, /* of terms that are packed at once: a panel on the right stays in L1 or L2 */
    ROWS = 168 / MR * MR, /* of a task, with COLS and WORDS: what it has of memory stays in L2 */
    COLS = 512,           /* of a task, from both places */
    TASKS_A_THREAD = 8,   /* are wanted: others wait at the end for the last one */
    /* memory of a worker, in words: of the left factor, the right one, and the sums */
    LEFT = ROWS / MR * (WORDS * MR + VL),
    RIGHT = WORDS * NR,
    MEMORY = LEFT + RIGHT + ROWS * COLS
};

typedef int32_t word __attribute__((may_alias));
typedef int32_t vi_mem __attribute__((vector_size(4 * VL), aligned(4), may_alias));
typedef uint16_t vh_lanes __attribute__((vector_size(2 * VL), aligned(2), may_alias));

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* The size of parts of n, the fewest of at most `most` each, and all multiples of `unit`. */
static inline int64_t even_part(int64_t n, int64_t most, int64_t unit)
{
    const int64_t parts = (n + most - 1) / most;
    return parts < 1 ? unit : round_up((n + parts - 1) / parts, unit);
}

/* ---- packing ---- */

static inline const char *row_at(const grouped_factor *f, int64_t row, int64_t col)
{
    const int64_t at = f->gather ? f->gather[row] / f->top_k : row;
    return f->data + (at * f->stride + col) * el_size(f->type);
}

/* Words of a row from element i on; n elements are there, the rest is 0. */
SIMD_INLINE vi words_of_row(el e, const char *row, int64_t i, int64_t n)
{
    if (!GROUPED_PAIRS)
        return (vi)(n >= VL ? v_load(e, row, i) : v_load_n(e, row, i, n, 0.0f));
    if (n >= 2 * VL)
        return *(const vi_mem *)(row + 2 * i);
    vi x = v_seti(0);
    v_copy_part(&x, row + 2 * i, 2 * n);
    return x;
}

/* Lanes are rows: squares of VL x VL words are transposed in registers. A vector may run past the
 * width: what it writes there is overwritten by the next word's, and panels have room behind. */
SIMD_INLINE void pack_lanes(el e, const grouped_factor *f, int64_t lane0, int64_t lanes,
                            int64_t term0, int64_t terms, int width, int64_t ahead, word *out)
{
    const int64_t words = (terms + PER_WORD - 1) / PER_WORD;
    for (int w = 0; w < width; w += VL) {
        const char *row[VL];
        const int64_t count = least(lanes - w, VL);
        for (int i = 0; i < VL; i++)
            row[i] = i < count ? row_at(f, lane0 + w + i, term0) : NULL;
        for (int64_t p = 0; p < words; p += VL) {
            vi square[VL];
#pragma GCC unroll 16
            for (int i = 0; i < VL; i++)
                square[i] = i < count ? words_of_row(e, row[i], p * PER_WORD, terms - p * PER_WORD)
                                      : v_seti(0);
            v_transpose(square);
            for (int i = 0; ahead && i < VL; i++)
                if (i < count)
                    __builtin_prefetch(row[i] + p * PER_WORD * el_size(e) + ahead, 0, 2);
            const int64_t n = least(words - p, VL);
#pragma GCC unroll 16
            for (int i = 0; i < VL; i++)
                if (i < n)
                    *(vi_mem *)(out + (p + i) * width + w) = square[i];
        }
    }
}

/* VL lanes of two rows as pairs; n lanes are there. */
SIMD_INLINE vi pairs_of_rows(const char *first, const char *second, int64_t n)
{
    vh_lanes a = {0}, b = {0};
    if (n >= VL) {
        a = *(const vh_lanes *)first;
        b = second ? *(const vh_lanes *)second : b;
    } else if (n > 0) {
        v_copy_part(&a, first, 2 * n);
        if (second)
            v_copy_part(&b, second, 2 * n);
    }
    return __builtin_convertvector(a, vi) | __builtin_convertvector(b, vi) << 16;
}

/* Terms are rows: lanes lie side by side. */
SIMD_INLINE void pack_terms(el e, const grouped_factor *f, int64_t lane0, int64_t lanes,
                            int64_t term0, int64_t terms, int width, int64_t ahead, word *out)
{
    for (int64_t p = 0; p < terms; p += PER_WORD, out += width) {
        const char *first = row_at(f, term0 + p, lane0);
        const char *second =
            GROUPED_PAIRS && p + 1 < terms ? row_at(f, term0 + p + 1, lane0) : NULL;
        if (ahead) {
            __builtin_prefetch(first + ahead, 0, 2);
            if (second)
                __builtin_prefetch(second + ahead, 0, 2);
        }
        for (int w = 0; w < width; w += VL) {
            const int64_t n = lanes - w < 0 ? 0 : lanes - w;
            vi x;
            if (GROUPED_PAIRS)
                x = pairs_of_rows(first + 2 * w, second ? second + 2 * w : NULL, n);
            else
                x = (vi)(n >= VL ? v_load(e, first, w) : v_load_n(e, first, w, n, 0.0f));
            *(vi_mem *)(out + w) = x;
        }
    }
}

SIMD_INLINE void pack_panel(el e, int terms_are_rows, const grouped_factor *f, int64_t lane0,
                            int64_t lanes, int64_t term0, int64_t terms, int width, int64_t ahead,
                            word *out)
{
    if (terms_are_rows)
        pack_terms(e, f, lane0, lanes, term0, terms, width, ahead, out);
    else
        pack_lanes(e, f, lane0, lanes, term0, terms, width, ahead, out);
}

static void pack_left(int terms_are_rows, const grouped_factor *f, int64_t lane0, int64_t lanes,
                      int64_t term0, int64_t terms, word *out)
{
    /* A whole vector of lanes is read if it is there: the next word overwrites what is not the
     * panel's. */
    const int64_t count = least(lanes, MR > VL ? MR : VL);
    if (GROUPED_PAIRS)
        pack_panel(EL_BF16, terms_are_rows, f, lane0, count, term0, terms, MR, 0, out);
    else
        EL_SPECIALIZE(f->type, pack_panel, terms_are_rows, f, lane0, count, term0, terms, MR, 0,
                      out);
}

/* Meanwhile the memory of the next panel is asked for. */
static void pack_right(int terms_are_rows, const grouped_factor *f, int64_t lane0, int64_t lanes,
                       int64_t term0, int64_t terms, word *out)
{
    const int64_t next = terms_are_rows ? 2 * NR : f->gather ? 0 : NR * f->stride;
    const int64_t ahead = next * el_size(f->type);
    if (GROUPED_PAIRS)
        pack_panel(EL_BF16, terms_are_rows, f, lane0, least(lanes, NR), term0, terms, NR, ahead,
                   out);
    else
        EL_SPECIALIZE(f->type, pack_panel, terms_are_rows, f, lane0, least(lanes, NR), term0, terms,
                      NR, ahead, out);
}

/* ---- registers ---- */

SIMD_INLINE vf multiply_add(vf sum, word left, vf right)
{
#if defined(SIMD_BF16_DOT)
    return v_dot_bf16(sum, v_seti(left), (vi)right);
#else
    float x;
    memcpy(&x, &left, sizeof x);
    return sum + v_set(x) * right;
#endif
}

/* sums of `count` lanes of a left panel, a constant up to MR, with a right panel: new ones, or
 * added to those that are there. */
SIMD_INLINE void multiply_panels(int count, const word *left, const word *right, int64_t words,
                                 int add, float *sums, int64_t stride)
{
    vf sum[MR][NV];
#pragma GCC unroll 16
    for (int r = 0; r < count; r++)
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++)
            sum[r][v] = v_set(0.0f);
    for (int64_t p = 0; p < words; p++, left += MR, right += NR) {
        vf x[NV];
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++)
            x[v] = (vf) * (const vi_mem *)(right + v * VL);
#pragma GCC unroll 16
        for (int r = 0; r < count; r++)
#pragma GCC unroll 4
            for (int v = 0; v < NV; v++)
                sum[r][v] = multiply_add(sum[r][v], left[r], x[v]);
    }
#pragma GCC unroll 16
    for (int r = 0; r < count; r++)
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++) {
            float *to = sums + r * stride;
            v_store(EL_F32, to, v * VL, add ? v_load(EL_F32, to, v * VL) + sum[r][v] : sum[r][v]);
        }
}

/* The same for any number of lanes: those that fill a panel up to a constant are computed too, and
 * `sums` has room for them. */
static void multiply(int64_t lanes, const word *left, const word *right, int64_t words, int add,
                     float *sums, int64_t stride)
{
    if (lanes > MR / 2)
        multiply_panels(MR, left, right, words, add, sums, stride);
    else if (lanes > 4 || MR / 2 < 4)
        multiply_panels(MR / 2, left, right, words, add, sums, stride);
    else if (lanes > 2)
        multiply_panels(4 < MR ? 4 : MR, left, right, words, add, sums, stride);
    else if (lanes > 1)
        multiply_panels(2, left, right, words, add, sums, stride);
    else
        multiply_panels(1, left, right, words, add, sums, stride);
}

/* ---- tasks ---- */

typedef struct job {
    const grouped_product *p;
    int64_t *first; /* task of each group, and behind the last */
    int64_t cols;   /* most of a task, from each place */
    word *memory;
} job;

static int64_t rows_of(const grouped_product *p, int64_t group)
{
    return p->by_group ? p->rows : p->offset[group + 1] - p->offset[group];
}

static int64_t terms_of(const grouped_product *p, int64_t group)
{
    return p->by_group ? p->offset[group + 1] - p->offset[group] : p->terms;
}

static int64_t part_of_rows(const job *j, int64_t group)
{
    return even_part(rows_of(j->p, group), ROWS, MR);
}

/* Panels on the right of a task: those of the second place come behind those of the first. */
static void multiply_step(const job *j, const grouped_block *b, int64_t term0, int64_t terms,
                          int64_t first_term, word *left, word *right, float *sums)
{
    const grouped_product *p = j->p;
    const int64_t words = (terms + PER_WORD - 1) / PER_WORD, panel = round_up(words, VL) * MR + VL;
    const int64_t matrix = p->by_group ? 0 : b->group * p->right_rows;
    const int64_t right_term = p->by_group ? first_term + term0 : term0;
    const int rows_are_terms = p->by_group || p->terms_are_rows;
    for (int64_t i = 0; i < b->rows; i += MR)
        pack_left(p->by_group, &p->left, b->row + i, b->rows - i, right_term, terms,
                  left + i / MR * panel);
    for (int place = 0; place < (p->second ? 2 : 1); place++)
        for (int64_t k = 0; k < b->cols; k += NR) {
            const int64_t lane = b->col + k + place * p->second;
            grouped_factor f = p->right;
            f.data += matrix * f.stride * el_size(f.type);
            pack_right(rows_are_terms, &f, lane, b->cols - k, right_term, terms, right);
            float *to = sums + k + place * round_up(j->cols, NR);
            for (int64_t i = 0; i < b->rows; i += MR)
                multiply(b->rows - i, left + i / MR * panel, right, words, term0 > 0,
                         to + i * b->stride, b->stride);
        }
}

static void compute_task(const job *j, grouped_block *b, word *memory)
{
    const grouped_product *p = j->p;
    const int64_t terms = terms_of(p, b->group), step = WORDS * PER_WORD;
    float *sums = (float *)(memory + LEFT + RIGHT);
    b->sums = sums;
    b->second = sums + round_up(j->cols, NR);
    b->stride = round_up(j->cols, NR) * (p->second ? 2 : 1);
    if (terms == 0)
        memset(sums, 0, (size_t)(b->rows * b->stride) * sizeof *sums);
    for (int64_t t = 0; t < terms; t += step)
        multiply_step(j, b, t, least(terms - t, step), p->by_group ? p->offset[b->group] : 0,
                      memory, memory + LEFT, sums);
    p->write(p, b);
}

static void run_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    const job *j = arg;
    const grouped_product *p = j->p;
    word *memory = j->memory + worker * MEMORY;
    int64_t group = 0;
    while (begin >= j->first[group + 1])
        group++;
    for (int64_t n = begin; n < end; n++) {
        while (n >= j->first[group + 1])
            group++;
        const int64_t rows = rows_of(p, group), part = part_of_rows(j, group);
        const int64_t down = (rows + part - 1) / part, index = n - j->first[group];
        const int64_t i = index % down * part, k = index / down * j->cols;
        grouped_block b = {.group = group,
                           .row = (p->by_group ? 0 : p->offset[group]) + i,
                           .rows = least(rows - i, part),
                           .col = k,
                           .cols = least(p->cols - k, j->cols)};
        compute_task(j, &b, memory);
    }
}

/* How many tasks there are with so many columns each. */
static int64_t count_tasks(job *j)
{
    const grouped_product *p = j->p;
    const int64_t across = (p->cols + j->cols - 1) / j->cols;
    j->first[0] = 0;
    for (int64_t e = 0; e < p->groups; e++) {
        const int64_t part = part_of_rows(j, e);
        j->first[e + 1] = j->first[e] + (rows_of(p, e) + part - 1) / part * across;
    }
    return j->first[p->groups];
}

tg_status grouped_reserve(tg_ctx *ctx, int64_t groups, grouped_memory *memory)
{
    memory->first = tg_workspace(ctx, (size_t)(groups + 1) * sizeof *memory->first);
    memory->words = tg_workspace(ctx, (size_t)(MEMORY * tg_ctx_threads(ctx)) * sizeof(word));
    return memory->first && memory->words ? TG_OK : TG_ENOMEM;
}

void grouped_run(tg_ctx *ctx, const grouped_memory *memory, const grouped_product *p)
{
    const int64_t unit = p->unit ? p->unit : NR, threads = tg_ctx_threads(ctx);
    job j = {.p = p, .first = memory->first, .memory = memory->words};
    j.cols = even_part(p->cols, COLS / (p->second ? 2 : 1), unit);
    while (count_tasks(&j) < TASKS_A_THREAD * threads && j.cols > unit && j.cols > 2 * NR)
        j.cols = round_up(j.cols / 2, unit);
    tg_parallel_for(ctx, p->cols ? count_tasks(&j) : 0, 1, run_tasks, &j);
}

/* ---- what products need besides ---- */

tg_status grouped_floats(tg_ctx *ctx, const tg_tensor *t, const float **floats)
{
    *floats = NULL;
    if (!t)
        return TG_OK;
    *floats = tg_data(t);
    if (tg_type_of(t) == TG_F32)
        return TG_OK;
    const int64_t n = tg_numel(t);
    const void *from = tg_data(t);
    float *to = tg_workspace(ctx, (size_t)(n + 1) * sizeof *to);
    if (!to)
        return TG_ENOMEM;
    const el e = (el)tg_el(tg_type_of(t));
    for (int64_t i = 0; i < n; i += VL) {
        const int64_t part = least(n - i, VL);
        v_store_n(EL_F32, to, i, part,
                  e == EL_BF16 ? v_load_n(EL_BF16, from, i, part, 0.0f)
                               : v_load_n(EL_F16, from, i, part, 0.0f));
    }
    *floats = to;
    return TG_OK;
}

typedef struct row_sums {
    const grouped_factor *rows;
    const float *factor;
    const int64_t *offset;
    char *to;
    el type;
    int64_t cols, across, accumulate;
} row_sums;

enum { SUM_COLS = 128 };

SIMD_INLINE void sum_part(el e, const row_sums *s, int64_t group, int64_t col)
{
    const int64_t n = least(s->cols - col, SUM_COLS);
    vf sum[SUM_COLS / VL];
    for (int v = 0; v < SUM_COLS / VL; v++)
        sum[v] = v_set(0.0f);
    for (int64_t j = s->offset[group]; j < s->offset[group + 1]; j++) {
        const char *row = row_at(s->rows, j, col);
        const vf factor = v_set(s->factor ? s->factor[j] : 1.0f);
        for (int v = 0; v * VL < n; v++)
            sum[v] += factor * v_load_n(e, row, v * VL, least(n - v * VL, VL), 0.0f);
    }
    char *to = s->to + (group * s->cols + col) * el_size(s->type);
    float floats[SUM_COLS];
    for (int v = 0; v < SUM_COLS / VL; v++)
        v_store(EL_F32, floats, v * VL, sum[v]);
    for (int64_t i = 0; i < n; i++)
        el_set(s->type, to, i, floats[i] + (s->accumulate ? el_get(s->type, to, i) : 0.0f));
}

static void sum_parts(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const row_sums *s = arg;
    for (int64_t n = begin; n < end; n++)
        EL_SPECIALIZE(s->rows->type, sum_part, s, n / s->across, n % s->across * SUM_COLS);
}

void grouped_sum_rows(tg_ctx *ctx, const grouped_factor *rows, const float *factor, int64_t groups,
                      const int64_t *offset, const tg_tensor *to, int64_t accumulate)
{
    if (!to)
        return;
    const int64_t cols = to->shape[1], across = (cols + SUM_COLS - 1) / SUM_COLS;
    row_sums s = {rows, factor, offset,    tg_data(to), (el)tg_el(tg_type_of(to)),
                  cols, across, accumulate};
    tg_parallel_for(ctx, groups * across, 1, sum_parts, &s);
}

static void clear_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const tg_rows *t = arg;
    for (int64_t row = begin; row < end; row++)
        memset(t->data + row * t->stride * (int64_t)tg_type_size(t->type), 0,
               (size_t)t->n * tg_type_size(t->type));
}

void grouped_clear(tg_ctx *ctx, const tg_tensor *t, int64_t first)
{
    if (!t)
        return;
    tg_rows rows = tg_rows_of(t);
    rows.data += first * rows.stride * (int64_t)tg_type_size(rows.type);
    tg_parallel_for(ctx, rows.rows - first, 65536 / (rows.n + 1) + 1, clear_rows, &rows);
}
