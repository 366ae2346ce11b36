/* src/grouped/grouped.c - the products of grouped_cpu.h: registers, tasks. Compiled once per
 * level. */
#include "grouped_few.h"
#include "grouped_panels.h"

/* ---- registers ---- */

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

static void multiply_step_of_few(const job *j, const grouped_block *b, int64_t term0, int64_t terms,
                                 const word *left, float *sums)
{
    const grouped_product *p = j->p;
    grouped_factor f = p->right;
    f.data += b->group * p->right_rows * f.stride * el_size(f.type);
    for (int place = 0; place < (p->second ? 2 : 1); place++) {
        float *to = sums + place * round_up(j->cols, NR);
        const int64_t lane = b->col + place * p->second;
        if (GROUPED_PAIRS)
            multiply_few_terms(EL_BF16, &f, b->rows, lane, b->cols, term0, terms, left, to,
                               b->stride);
        else
            EL_SPECIALIZE(f.type, multiply_few_terms, &f, b->rows, lane, b->cols, term0, terms,
                          left, to, b->stride);
    }
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
    if (is_few(p, rows_of(p, b->group))) {
        memset(left + words * MR, 0, sizeof(word) * (FEW_WORDS - 1) * MR);
        multiply_step_of_few(j, b, term0, terms, left, sums);
        return;
    }
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

static void compute_few(const job *j, const grouped_block *b, float *sums)
{
    for (int place = 0; place < (j->p->second ? 2 : 1); place++) {
        float *to = sums + place * round_up(j->cols, NR);
        if (GROUPED_PAIRS)
            multiply_few(EL_BF16, j->p, b, place, to);
        else
            EL_SPECIALIZE(j->p->right.type, multiply_few, j->p, b, place, to);
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
    const int few = is_few(p, rows_of(p, b->group));
    if (few && !p->terms_are_rows) {
        compute_few(j, b, sums);
        p->write(p, b);
        return;
    }
    if (terms == 0 || few)
        memset(sums, 0, (size_t)(b->rows * b->stride) * sizeof *sums);
    for (int64_t t = 0; t < terms; t += step)
        multiply_step(j, b, t, grouped_least(terms - t, step),
                      p->by_group ? p->offset[b->group] : 0, memory, memory + LEFT, sums);
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
                           .rows = grouped_least(rows - i, part),
                           .col = k,
                           .cols = grouped_least(p->cols - k, j->cols)};
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
