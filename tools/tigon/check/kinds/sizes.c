/* tools/tigon/check/kinds/sizes.c - sizes that models use: each dimension by itself beyond
 * 65535 and at others that 16 bits, one block of threads or one page do not hold, and the
 * benchmark's own sizes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kinds.h"

/* One past a limit of 16 bits and well beyond, a row of a wide layer, a vocabulary. */
static const int64_t sizes[] = {1031, 8192, 70001, 131077};
enum { SIZES = sizeof sizes / sizeof *sizes, MOST_ELEMENTS = 3 << 19 };
static const double most_flops = 0x1p24;

/* ---- each dimension ---- */

/* Legal, and neither too large nor too much work for ref. */
static int fits(const trier *t, const pb_case *c, int type)
{
    char error[PB_ERROR];
    problem *p = check_shapes(t->ck->cat, t->op, c, type, error);
    const int ok = check_takes(p) &&
                   problem_memory(p) <= (size_t)MOST_ELEMENTS * tg_type_size(type) &&
                   problem_flops(p) <= most_flops;
    problem_free(p);
    return ok;
}

/* All other dimensions at most `most`. */
static void narrow(pb_case *c, const char *kept, int64_t most)
{
    const pb_case from = *c;
    for (int i = 0; i < from.ntokens; i++) {
        const pb_token *k = &from.token[i];
        if (pb_is_dimension(k) && strcmp(k->name, kept) &&
            pb_case_value(&from, k->name) > (double)most)
            kinds_set_int(c, k->name, most);
    }
}

/* Then one cannot follow the other: both of them large would be far too much. */
static int share_a_tensor(const trier *t, const char *a, const char *b)
{
    for (int i = 0; i < t->op->ntensors; i++)
        if (strstr(t->op->tensor[i].shape, a) && strstr(t->op->tensor[i].shape, b))
            return 1;
    return 0;
}

/* One more dimension follows the first: as large, or half (a rotary table's). */
static int fits_with_another(const trier *t, pb_case *c, const char *name, int64_t n, int type)
{
    const pb_case from = *c;
    for (int i = 0; i < from.ntokens; i++)
        for (int half = 1; half <= 2; half++) {
            const pb_token *k = &from.token[i];
            if (!pb_is_dimension(k) || share_a_tensor(t, k->name, name))
                continue;
            *c = from;
            kinds_set_int(c, k->name, n / half);
            if (fits(t, c, type))
                return 1;
        }
    *c = from;
    return 0;
}

static int find(const trier *t, const base *from, const char *name, int64_t n, pb_case *c)
{
    static const int64_t others[] = {1 << 20, 37, 9, 3, 1};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        for (int even = 0; even < 2; even++) {
            const int64_t size = even ? n / 4096 * 4096 : n;
            *c = from->c;
            narrow(c, name, others[i]);
            kinds_set_int(c, name, size);
            if (size && (fits(t, c, from->type) || fits_with_another(t, c, name, size, from->type)))
                return 1;
        }
    return 0;
}

static void try_dimensions(trier *t, const base *from)
{
    for (int i = 0; i < from->c.ntokens; i++) {
        if (!pb_is_dimension(&from->c.token[i]))
            continue;
        for (int k = 0; k < SIZES; k++) {
            pb_case c;
            if (find(t, from, from->c.token[i].name, sizes[k], &c))
                kinds_check(t, &c, from->type);
        }
    }
}

/* ---- the benchmark's sizes: too large for ref in f64, held against the CPU's
 * implementation, loosely ---- */

enum { MOST_MEMORY = 160 << 20 };
static const double most_work = 0x1p34;

typedef struct comparison {
    int type;
    size_t size;
    ptrdiff_t other; /* from an element to the expected one */
    double squares,
        limit; /* of the expected ones; how far off relative to the typical and the own size */
    double typical, found, expected;
    int64_t wrong, first;
} comparison;

static void add_squares(void *arg, char *row, int64_t first, int64_t cols)
{
    comparison *c = arg;
    (void)first;
    for (int64_t i = 0; i < cols; i++) {
        const double x = pb_load(c->type, row + c->other + (size_t)i * c->size);
        c->squares += isfinite(x) ? x * x : 0;
    }
}

static void compare_row(void *arg, char *row, int64_t first, int64_t cols)
{
    comparison *c = arg;
    for (int64_t i = 0; i < cols; i++) {
        const char *at = row + (size_t)i * c->size;
        const double x = pb_load(c->type, at), y = pb_load(c->type, at + c->other);
        if (x == y || (x != x && y != y) || fabs(x - y) <= c->limit * (fabs(y) + c->typical))
            continue;
        if (c->wrong++)
            continue;
        c->first = first + i;
        c->found = x;
        c->expected = y;
    }
}

/* Elements far from the CPU's: not written, or of another place. */
static comparison compare_tensor(const problem *p, const pb_tensor *x, const unsigned char *bits)
{
    const int64_t n = tg_numel(&x->view);
    comparison c = {.type = tg_type_of(&x->view)};
    for (int i = 0; i < x->buffer; i++)
        bits += p->buffer[i].bytes;
    c.size = tg_type_size(c.type);
    c.other = bits - p->buffer[x->buffer].base;
    c.limit = 16 * type_unit(c.type) + 0x1p-10;
    pb_each_row(x, add_squares, &c);
    c.typical = sqrt(c.squares / (double)(n ? n : 1));
    pb_each_row(x, compare_row, &c);
    return c;
}

static void compare(trier *t, const problem *p, const unsigned char *bits)
{
    for (int i = 0; i < t->op->ntensors; i++) {
        const pb_tensor *x = &p->tensor[i];
        if (!x->present || !x->written || tg_type_of(&x->view) == TG_I64)
            continue;
        const comparison c = compare_tensor(p, x, bits);
        if (!c.wrong)
            continue;
        char name[128];
        element_name(x, c.first, name, sizeof name);
        kinds_failed(t, p->c, p->type,
                     "%s is %.9g, the CPU's implementation has %.9g (%lld elements are far off)",
                     name, c.found, c.expected, (long long)c.wrong);
        return;
    }
    kinds_passed(t);
}

static size_t bench_memory(const trier *t, const pb_case *c, int type)
{
    char error[PB_ERROR];
    problem *p = check_shapes(t->ck->cat, t->op, c, type, error);
    const int fits =
        check_takes(p) && problem_memory(p) <= MOST_MEMORY && problem_flops(p) <= most_work;
    const size_t memory = fits ? problem_memory(p) : 0;
    problem_free(p);
    return memory;
}

static void try_bench(trier *t, const pb_case *c, int type)
{
    char error[PB_ERROR];
    pb_options options = checker_options(t->ck, type);
    options.saved = PB_SAVED_CALL;
    problem *p = problem_create(t->ck->cat, t->op, c, &options, error);
    unsigned char *bits = p && !problem_call(t->ck->judge, p) ? bits_copy(p) : NULL;
    if (bits && problem_impl_accepts(t->ck->ctx, t->impl, p)) {
        problem_reset(p);
        const tg_status status = problem_run_impl(t->ck->ctx, t->impl, p);
        if (status && status != TG_EUNSUPPORTED)
            kinds_failed(t, c, type, "%s: %s", tg_status_name(status), tg_last_error());
        else if (!status)
            compare(t, p, bits);
    }
    free(bits);
    problem_free(p);
}

/* The largest that is not too large, in the type in which it has most elements. */
static void try_largest_bench(trier *t)
{
    const pb_case *best = NULL;
    size_t most = 0;
    int type = 0;
    for (int i = 0; i < t->ck->cat->ncases; i++) {
        const pb_case *c = &t->ck->cat->cases[i];
        for (int k = 0; k < DATA_TYPES && c->bench && pb_case_is_for(t->op, c); k++) {
            if (!bases_richest(t, data_types[k]) || !checker_takes(t->ck, c, data_types[k]))
                continue;
            const size_t memory = bench_memory(t, c, data_types[k]);
            if (memory > most) {
                most = memory;
                best = c;
                type = data_types[k];
            }
        }
    }
    if (best)
        try_bench(t, best, type);
}

void kind_sizes(trier *t)
{
    for (int k = 0; k < DATA_TYPES; k++) {
        const base *from = bases_richest(t, data_types[k]);
        if (from)
            try_dimensions(t, from);
    }
    if (!t->ck->s.quick)
        try_largest_bench(t);
}
