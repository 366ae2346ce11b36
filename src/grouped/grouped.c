/* src/grouped/grouped.c - the products of grouped_cpu.h: tasks. Compiled once per
 * level. */
#include "grouped_few.h"

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

/* Columns of a task of a group of so many rows, from each place. */
static int64_t cols_of(const job *j, int64_t rows)
{
    const grouped_product *p = j->p;
    const int few = is_few(p, rows) && rows > 0;
    const int64_t lanes = is_turned(p) && !few ? LEFT_LANES : NR;
    const int64_t unit = p->unit ? p->unit : lanes;
    const int64_t most = few && p->terms_are_rows ? FEW_SUMS / rows : COLS / (p->second ? 2 : 1);
    const int64_t part = even_part(p->cols, most / unit * unit, unit);
    return round_up((part + j->parts - 1) / j->parts, unit);
}

static void multiply_step(const job *j, const grouped_block *b, const step *s)
{
    const grouped_product *p = j->p;
    const int64_t rows = rows_of(p, b->group);
    if (is_few(p, rows) && is_turned(p))
        multiply_few_columns(p, b, s, s->cols);
    else if (is_few(p, rows))
        multiply_few_terms(p, b, s, s->cols);
    else if (is_turned(p))
        multiply_turned(p, b, s);
    else
        multiply_straight(p, b, s);
}

/* Terms of a step: what has packed room, in parts that all groups add up alike. */
static int64_t most_terms(const grouped_product *p, int64_t rows)
{
    if (!p->by_group && !is_turned(p))
        return TERMS;
    return WORDS * WORD_TERMS * (is_few(p, rows) ? ROWS / few_height(rows) : 1);
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
    const int64_t rows = rows_of(p, b->group), terms = terms_of(p, b->group);
    const int64_t most = most_terms(p, rows), cols = round_up(cols_of(j, rows), NR);
    float *sums = (float *)(memory + WHOLE + PANEL);
    b->sums = sums;
    b->second = sums + cols;
    b->stride = cols * (p->second ? 2 : 1);
    const int at_once = terms > 0 && writes_panels(p);
    if (terms == 0)
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
                        .sums = sums,
                        .cols = cols};
        multiply_step(j, b, &s);
    }
    if (!at_once)
        p->write(p, b);
}

/* Task n, which belongs to a group from b's on. */
static void find_task(const job *j, int64_t n, grouped_block *b)
{
    const grouped_product *p = j->p;
    while (n >= j->first[b->group + 1])
        b->group++;
    const int64_t rows = rows_of(p, b->group), part = part_of_rows(j, b->group);
    const int64_t down = (rows + part - 1) / part, index = n - j->first[b->group];
    const int64_t i = index % down * part, cols = cols_of(j, rows);
    b->row = (p->by_group ? 0 : p->offset[b->group]) + i;
    b->rows = grouped_least(rows - i, part);
    b->col = index / down * cols;
    b->cols = grouped_least(p->cols - b->col, cols);
}

static void run_tasks(void *arg, int64_t begin, int64_t end, int worker)
{
    const job *j = arg;
    word *memory = j->memory + worker * MEMORY;
    grouped_block b = {0}, next = {0};
    find_task(j, begin, &next);
    tiles_open();
    for (int64_t n = begin; n < end; n++) {
        b = next;
        if (n + 1 < j->first[j->p->groups]) {
            find_task(j, n + 1, &next);
            if (is_turned(j->p)) {
                const grouped_factor f = matrix_of(j->p, next.group);
                b.then = grouped_row_at(&f, next.col, 0);
            }
        }
        compute_task(j, &b, memory);
    }
    tiles_close();
    v_fence();
}

/* How many tasks there are of columns cut into so many parts. */
static int64_t count_tasks(job *j)
{
    const grouped_product *p = j->p;
    j->first[0] = 0;
    for (int64_t e = 0; e < p->groups; e++) {
        const int64_t rows = rows_of(p, e), part = part_of_rows(j, e), cols = cols_of(j, rows);
        j->first[e + 1] = j->first[e] + (rows + part - 1) / part * ((p->cols + cols - 1) / cols);
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
    all.alike = tg_ctx_batch_invariant(ctx);
    job j = {.p = &all, .first = memory->first, .memory = memory->words, .parts = 1};
    if (all.cols == 0)
        return;
    const int64_t wanted = TASKS_A_THREAD * tg_ctx_threads(ctx);
    const int64_t across = grouped_least(all.cols, COLS / (all.second ? 2 : 1));
    while (count_tasks(&j) < wanted && across / j.parts > 2 * NR)
        j.parts *= 2;
    tg_parallel_for(ctx, count_tasks(&j), 1, run_tasks, &j);
}
