/* tools/tigon/check/batch.c - one implementation with a whole batch and with parts of it: the bits
 * of a row's results. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batch.h"

/* ---- elements ---- */

static char *address(const pb_tensor *t, const int64_t *index)
{
    int64_t offset = 0;
    for (int d = 0; d < t->view.ndim; d++)
        offset += index[d] * t->strides[d];
    return (char *)t->view.data + t->view.byte_offset +
           offset * (int64_t)tg_type_size(tg_type_of(&t->view));
}

/* Where element i of the part's tensor stands there and in the whole. */
static void both_places(const batch *b, const batch_part *part, int tensor, int64_t i,
                        char **in_part, char **in_whole)
{
    const pb_tensor *t = &part->p->tensor[tensor];
    const int64_t first = part->first / b->unit, units = b->rows / b->unit;
    int64_t index[TG_MAX_NDIM] = {0}, from[TG_MAX_NDIM] = {0};
    for (int d = t->view.ndim - 1; d >= 0; d--) {
        const int each = b->by_row[tensor][d];
        index[d] = i % t->shape[d];
        i /= t->shape[d];
        from[d] = index[d];
        if (each)
            from[d] = (index[d] / each + first) % units * each + index[d] % each;
    }
    *in_part = address(t, index);
    *in_whole = address(&b->whole->tensor[tensor], from);
}

static int has_rows(const batch *b, int tensor)
{
    int any = 0;
    for (int d = 0; d < TG_MAX_NDIM; d++)
        any |= b->by_row[tensor][d];
    return any != 0;
}

/* ---- parts ---- */

/* Which dimensions count rows: those that are larger with a row more. */
static int find_rows(const catalogue *cat, batch *b, int type, char *error)
{
    pb_case more = b->c;
    batch_resize(b->op, b->axis, 0, b->rows + b->unit, &more);
    problem *p = check_shapes(cat, b->op, &more, type, error);
    for (int i = 0; p && i < b->op->ntensors; i++) {
        const pb_tensor *t = &b->whole->tensor[i];
        for (int d = 0; t->present && d < t->view.ndim; d++)
            b->by_row[i][d] = (int)((p->tensor[i].shape[d] - t->shape[d]));
    }
    problem_free(p);
    return p ? 0 : -1;
}

static void copy_inputs(const batch *b, const batch_part *part)
{
    for (int i = 0; i < b->op->ntensors; i++) {
        const pb_tensor *t = &part->p->tensor[i];
        const int64_t n = t->present && t->read && !t->over ? tg_numel(&t->view) : 0;
        for (int64_t k = 0; k < n; k++) {
            char *to, *from;
            both_places(b, part, i, k, &to, &from);
            memcpy(to, from, tg_type_size(tg_type_of(&t->view)));
        }
    }
}

static int64_t kept_labels(const problem *p)
{
    const pb_tensor *labels = problem_tensor(p, "labels");
    double ignored = -100;
    int64_t kept = 0;
    for (int i = 0; i < p->c->ntokens; i++)
        if (!strcmp(p->c->token[i].name, "ignore_index"))
            ignored = strtod(p->c->token[i].value, NULL);
    for (int64_t i = 0; labels && i < tg_numel(&labels->view); i++)
        kept += pb_get(labels, i) != ignored;
    return kept;
}

/* Losses that are always means: a gradient times so much as makes it that of the whole, where that
 * can be said exactly. */
static int scale_mean(const batch *b, const batch_part *part)
{
    const pb_tensor *dloss = problem_tensor(part->p, "dloss");
    if (strcmp(b->op->group, "jsd") && strcmp(b->op->group, "fused_linear_jsd"))
        return 1;
    int64_t rows = part->rows, all = b->rows;
    if (problem_tensor(part->p, "labels")) {
        rows = kept_labels(part->p);
        all = kept_labels(b->whole);
    }
    if (rows == all)
        return 1;
    double ratio = rows > 0 && all > 0 ? (double)rows / (double)all : 3;
    const double of_loss = dloss ? pb_get(dloss, 0) : 0;
    while (ratio < 1)
        ratio *= 2;
    while (ratio > 1)
        ratio /= 2;
    if (!dloss || ratio != 1)
        return 0;
    pb_set(dloss, 0, of_loss * (double)rows / (double)all);
    return 1;
}

static void remember(problem *p)
{
    for (int i = 0; i < p->nbuffers; i++)
        if (p->buffer[i].initial)
            memcpy(p->buffer[i].initial, p->buffer[i].base, p->buffer[i].bytes);
}

/* 0 if the rows are no batch of their own. */
static int add_part(const catalogue *cat, batch *b, const pb_options *options, int64_t first,
                    int64_t rows)
{
    char error[PB_ERROR];
    const int64_t end = first + rows;
    const int kind = b->axis->kind;
    if (rows < 1 || (kind == BATCH_IN_ORDER && end > b->rows) ||
        (kind == BATCH_END && end != b->rows))
        return 0;
    for (int i = 0; i < b->nparts; i++)
        if (b->part[i].first == first && b->part[i].rows == rows)
            return 0;
    batch_part *part = &b->part[b->nparts];
    pb_options hollow = *options;
    hollow.hollow = 1;
    *part = (batch_part){.first = first, .rows = rows, .c = b->c};
    batch_resize(b->op, b->axis, first, rows, &part->c);
    part->p = problem_create(cat, b->op, &part->c, &hollow, error);
    if (!part->p)
        return 0;
    copy_inputs(b, part);
    part->of_whole = scale_mean(b, part);
    if (batch_renumber(b, part) || !check_takes(part->p)) {
        problem_free(part->p);
        return 0;
    }
    remember(part->p);
    b->nparts++;
    return 1;
}

static void add_parts(const catalogue *cat, batch *b, const pb_options *options)
{
    const int64_t u = b->unit, n = b->rows / u; /* of units */
    const struct {
        int64_t first, rows;
    } parts[] = {{0, n / 2}, {n - n / 2, n / 2}, {n / 3, (n + 2) / 3},
                 {0, 1},     {n - 1, 1},         {n / 2, 1},
                 {n / 3, n}, {n / 2, 2 * n + 1}, {n - 1, 8 * n + 3}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (n > 1 && (i < 8 || problem_memory(b->whole) <= QUICK_BYTES))
            add_part(cat, b, options, parts[i].first * u, parts[i].rows * u);
}

/* What is computed of no columns may be left as it was. */
static int is_empty(const problem *p)
{
    int empty = 0;
    for (int i = 0; i < p->op->ntensors; i++)
        empty |= p->tensor[i].present && tg_numel(&p->tensor[i].view) == 0;
    return empty;
}

batch *batch_create(const catalogue *cat, const pb_op *op, const batch_axis *axis, const pb_case *c,
                    const pb_options *options, char *error)
{
    batch *b = calloc(1, sizeof *b);
    *error = 0;
    if (!b)
        return NULL;
    b->op = op;
    b->axis = axis;
    const int has_rows = batch_case(op, axis, c, &b->c);
    b->rows = (int64_t)pb_case_value(&b->c, axis->size);
    b->unit = batch_unit(op, axis, &b->c);
    b->whole = has_rows ? problem_create(cat, op, &b->c, options, error) : NULL;
    if (b->whole && !is_empty(b->whole) && check_takes(b->whole) &&
        !find_rows(cat, b, options->type, error)) {
        add_parts(cat, b, options);
        return b;
    }
    *error = 0; /* what is no case with these options is none */
    batch_free(b);
    return NULL;
}

void batch_free(batch *b)
{
    for (int i = 0; b && i < b->nparts; i++)
        problem_free(b->part[i].p);
    if (b)
        problem_free(b->whole);
    free(b);
}

/* ---- results ---- */

/* Outputs that have rows, and are the rows': not those that number them. */
static int is_compared(const batch *b, const batch_part *part, int tensor)
{
    static const char *const not_of_rows[] = {"pre", "slot", "place", "dk", "dv"};
    const pb_tensor *t = &b->whole->tensor[tensor];
    const int whole_keys = strcmp(b->axis->size, "S") || strcmp(b->op->group, "flash_attention");
    for (size_t i = 0; i < sizeof not_of_rows / sizeof *not_of_rows; i++)
        if (!strcmp(t->decl->name, not_of_rows[i]) && (i < 3 || !whole_keys))
            return 0;
    const tg_arg_kind kind = b->op->info->args[t->decl->slot].kind;
    const int updated = b->op->info->args[t->decl->slot].reads;
    const int is_output = kind == TG_ARG_OUT || kind == TG_ARG_OUT_OPT || updated;
    const int gradient = t->decl->name[0] == 'd' && !part->of_whole;
    return t->present && is_output && has_rows(b, tensor) && !gradient;
}

static int same(int type, const char *x, const char *y)
{
    if (!memcmp(x, y, tg_type_size(type)))
        return 1;
    const double a = pb_load(type, x), b = pb_load(type, y);
    return a != a && b != b;
}

static int compare(const batch *b, const batch_part *part, outcome *o)
{
    for (int i = 0; i < b->op->ntensors; i++) {
        const pb_tensor *t = &part->p->tensor[i];
        const int type = tg_type_of(&t->view);
        const int64_t n = is_compared(b, part, i) ? tg_numel(&t->view) : 0;
        o->compared |= n > 0 ? 1u << i : 0;
        for (int64_t k = 0; k < n; k++) {
            char *x, *y, name[80];
            both_places(b, part, i, k, &x, &y);
            if (same(type, x, y))
                continue;
            element_name(t, k, name, sizeof name);
            snprintf(o->why, sizeof o->why,
                     "%s is %.9g in a batch of %lld (%s=), and %.9g where row %lld of it is the "
                     "first of %lld",
                     name, pb_load(type, y), (long long)b->rows, b->axis->size, pb_load(type, x),
                     (long long)part->first, (long long)part->rows);
            o->verdict = FAILED;
            return -1;
        }
    }
    return 0;
}

static int run(tg_ctx *ctx, int impl, problem *p, int threads, outcome *o)
{
    problem_reset(p);
    tg_ctx_set_threads(ctx, threads);
    if (!problem_impl_accepts(ctx, impl, p)) {
        o->refused = 1;
        snprintf(o->why, sizeof o->why, "the implementation does not accept this problem");
        return -1;
    }
    const tg_status status = problem_run_impl(ctx, impl, p);
    if (status == TG_OK)
        return 0;
    o->verdict = status == TG_EUNSUPPORTED ? SKIPPED : FAILED;
    o->refused = status == TG_EUNSUPPORTED;
    snprintf(o->why, sizeof o->why, "%s: %.500s", tg_status_name(status), tg_last_error());
    return -1;
}

outcome batch_check(tg_ctx *ctx, int impl, batch *b, const check_settings *s)
{
    outcome o = {.verdict = SKIPPED};
    if (run(ctx, impl, b->whole, (int)s->threads, &o))
        return o;
    for (int i = 0; i < b->nparts; i++) {
        const batch_part *part = &b->part[i];
        if (run(ctx, impl, part->p, i % 3 + 1, &o)) {
            if (o.refused) {
                o.verdict = FAILED;
                snprintf(o.why, sizeof o.why,
                         "takes a batch of %lld rows (%s), but not %lld of them: %.300s",
                         (long long)b->rows, b->axis->size, (long long)part->rows, tg_last_error());
            }
            return o;
        }
        if (compare(b, part, &o))
            return o;
    }
    o.verdict = o.compared ? PASSED : SKIPPED;
    return o;
}
