/* src/grouped/grouped.c - the products of grouped_cpu.h: tasks. Compiled once per
 * level. */
#include "grouped_few.h"
#include "grouped_steps.h"

static int64_t rows_of(const grouped_product *p, int64_t group)
{
    return p->by_group ? p->rows : p->offset[group + 1] - p->offset[group];
}

static int64_t terms_of(const grouped_product *p, int64_t group)
{
    return p->by_group ? p->offset[group + 1] - p->offset[group] : p->terms;
}

static int64_t most_rows(const grouped_product *p)
{
    return is_turned(p) ? ROWS / NR * NR : ROWS;
}

static int64_t part_of_rows(const job *j, int64_t group)
{
    return even_part(rows_of(j->p, group), most_rows(j->p), is_turned(j->p) ? NR : LEFT_LANES);
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

static void multiply_step(const job *j, const grouped_block *b, const step *s)
{
    const grouped_product *p = j->p;
    if (is_few(p, rows_of(p, b->group))) {
        pack_left_words(0, &p->left, b->row, b->rows, s->term0, s->terms, s->whole);
        memset(s->whole + s->words * MR, 0, sizeof(word) * (FEW_WORDS - 1) * MR);
        multiply_step_of_few(j, b, s->term0, s->terms, s->whole, s->sums);
    } else if (is_turned(p)) {
        multiply_turned(j, b, s);
    } else {
        multiply_straight(j, b, s);
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

/* Whether sums of groups are written panel by panel: past the caches, where a panel's part of a row
 * is whole lines. Elsewhere whole rows of a task are faster. */
static int writes_panels(const grouped_product *p)
{
    if (!p->by_group || p->write != grouped_write)
        return 0;
    const grouped_output *o = p->arg;
    const int64_t size = el_size(o->type);
    return o->stream &&
           ((uintptr_t)o->data | (uintptr_t)(o->stride * size | NR * size)) % LINE == 0;
}

static void compute_task(const job *j, grouped_block *b, word *memory)
{
    const grouped_product *p = j->p;
    const int64_t terms = terms_of(p, b->group);
    const int64_t most = p->by_group || is_turned(p) ? WORDS * PER_WORD : TERMS;
    float *sums = (float *)(memory + WHOLE + PANEL);
    b->sums = sums;
    b->second = sums + round_up(j->cols, NR);
    b->stride = round_up(j->cols, NR) * (p->second ? 2 : 1);
    const int few = is_few(p, rows_of(p, b->group));
    if (few && !p->terms_are_rows) {
        compute_few(j, b, sums);
        p->write(p, b);
        return;
    }
    const int at_once = terms > 0 && writes_panels(p);
    if (terms == 0 || few)
        memset(sums, 0, (size_t)(b->rows * b->stride) * sizeof *sums);
    for (int64_t t = 0; t < terms; t += most) {
        const int64_t n = grouped_least(terms - t, most);
        const step s = {.term0 = t,
                        .terms = n,
                        .words = words_of(n),
                        .behind = terms - t - n,
                        .writes = at_once && t + n == terms,
                        .right_term = t + (p->by_group ? p->offset[b->group] : 0),
                        .add = t > 0,
                        .whole = memory,
                        .panel = memory + WHOLE,
                        .sums = sums};
        multiply_step(j, b, &s);
    }
    if (!at_once)
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
    tiles_open();
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
    tiles_close();
    v_fence();
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

void grouped_run(tg_ctx *ctx, const grouped_memory *memory, const grouped_product *given)
{
    grouped_product all = *given;
    const grouped_product *p = &all;
    all.alike = tg_ctx_batch_invariant(ctx);
    const int64_t lanes = is_turned(p) ? LEFT_LANES : NR, unit = p->unit ? p->unit : lanes;
    const int64_t most = COLS / (p->second ? 2 : 1) / unit * unit;
    const int64_t threads = tg_ctx_threads(ctx);
    job j = {.p = p, .first = memory->first, .memory = memory->words};
    j.cols = even_part(p->cols, most, unit);
    while (count_tasks(&j) < TASKS_A_THREAD * threads && j.cols > unit && j.cols > 2 * NR)
        j.cols = round_up(j.cols / 2, unit);
    tg_parallel_for(ctx, p->cols ? count_tasks(&j) : 0, 1, run_tasks, &j);
}
