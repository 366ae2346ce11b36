/* tools/tigon/check/coverage.c - what of an operator was compared, over all implementations that a
 * backend has for it. */
#include <stdio.h>
#include <string.h>
#include <tigon/backend.h>

#include "check.h"
#include "share/text.h"
#include "share/types.h"

static int is_output(const pb_op *op, int tensor)
{
    const tg_arg_kind kind = op->info->args[op->tensor[tensor].slot].kind;
    return kind == TG_ARG_OUT || kind == TG_ARG_OUT_OPT;
}

void coverage_outputs(const pb_op *op, uint32_t which, int with, char *text, size_t size)
{
    text[0] = 0;
    for (int i = 0; i < op->ntensors; i++)
        if (is_output(op, i) && (int)(which >> i & 1) == with)
            text_add(text, size, "%s%s", *text ? " " : "", op->tensor[i].name);
}

int coverage_is_kept(const pb_case *c, const char *device)
{
    const int both = pb_case_flag(c, "cpu_cuda");
    return (both || pb_case_flag(c, "cpu")) && strcmp(device, "cpu") &&
           !(both && !strcmp(device, "cuda"));
}

/* Tensors of an operator that no case for the device has. */
static uint32_t not_asked(const catalogue *cat, const pb_op *op, const char *device)
{
    uint32_t missing = ~(uint32_t)0;
    for (int k = 0; k < cat->ncases; k++)
        for (int i = 0; i < op->ntensors && pb_case_is_for(op, &cat->cases[k]); i++)
            if (!coverage_is_kept(&cat->cases[k], device) && !cat->cases[k].bench &&
                !pb_case_drops(&cat->cases[k], op->tensor[i].name))
                missing &= ~(1u << i);
    return missing;
}

static int is_same(const totals *t, int i, int k)
{
    const tg_impl_info *a = tg_impl_at(t->line[i].impl), *b = tg_impl_at(t->line[k].impl);
    return a->op == b->op && !strcmp(a->backend, b->backend);
}

static int is_first(const totals *t, int i)
{
    int k = 0;
    while (!is_same(t, i, k))
        k++;
    return k == i;
}

/* Whether line k is of what runs the calls that the backend of line i gets: of itself, or of a
 * composite, which runs on every device and takes what others leave. */
static int stands_in(const totals *t, int i, int k)
{
    const tg_impl_info *a = tg_impl_at(t->line[i].impl), *b = tg_impl_at(t->line[k].impl);
    return is_same(t, i, k) || (a->op == b->op && (b->takes & TG_TAKES_ANY_DEVICE));
}

/* The lines that count for line i; of one type, or of all for 0. */
static tally sum_of(const totals *t, int i, int type)
{
    tally sum = {.impl = t->line[i].impl, .type = type};
    for (int k = 0; k < t->n; k++)
        if (stands_in(t, i, k) && (!type || t->line[k].type == type)) {
            sum.compared |= t->line[k].compared;
            sum.refused += t->line[k].refused;
        }
    return sum;
}

void coverage_gaps(const totals *t, const catalogue *cat, const char *device, coverage_fn fn,
                   void *arg)
{
    char names[256], gap[512];
    for (int i = 0; i < t->n; i++) {
        if (!is_first(t, i))
            continue;
        const tg_impl_info *impl = tg_impl_at(t->line[i].impl);
        const pb_op *op = catalogue_op(cat, impl->op);
        const tally all = sum_of(t, i, 0);
        coverage_outputs(op, all.compared | not_asked(cat, op, device), 0, names, sizeof names);
        snprintf(gap, sizeof gap, "%s/%s: never compared: %s", impl->backend, op->info->name,
                 names);
        if (names[0])
            fn(arg, gap);
        for (int k = 0; k < DATA_TYPES && all.compared; k++) {
            const tally count = sum_of(t, i, data_types[k]);
            snprintf(gap, sizeof gap, "%s/%s takes no case of %s: %d refused", impl->backend,
                     op->info->name, tg_type_name(data_types[k]), count.refused);
            if (count.refused && !count.compared)
                fn(arg, gap);
        }
    }
}
