/* tools/tigon/check/batch_axes.c - which size of an operator counts what a batch is made of, and
 * what of a case has to be said otherwise so that a row's results depend on no other row by their
 * definition: losses are not reduced, or are sums. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "batch.h"

/* Operators whose size is not the first of "*NAME" in their shapes, else B: with what is added to
 * the case, and what kinds of parts of the batch there are. */
static const struct {
    const char *op; /* its name, which may lack the direction */
    batch_axis axis;
} axes[] = {
    {"adamw", {"", "", 0}},
    {"muon", {"", "", 0}},
    {"newton_schulz", {"", "", 0}},
    {"muon_momentum", {"", "", 0}},
    {"muon_update", {"", "", 0}},
    {"moe_route", {"", "", 0}}, /* places among all tokens */
    {"quantize_block", {"R", "-qt -scale_t", BATCH_ANY}},
    {"quantize_rms_norm", {"R", "-qt -scale_t", BATCH_ANY}},
    {"quantize_swiglu", {"R", "-qt -scale_t", BATCH_ANY}},
    {"quantize_swiglu_gradient", {"R", "-qt -scale_t -yt -scale_yt", BATCH_ANY}},
    {"gemm_block_scaled", {"M", "", BATCH_ANY}},
    {"sum_rows", {"R", "", BATCH_ANY}},
    {"group_norm", {"B", "", BATCH_ANY}},
    {"gemm", {"M", "", BATCH_ANY}},
    {"gemm", {"N", "", BATCH_ANY}},
    {"batched_gemm", {"B", "", BATCH_ANY}},
    {"batched_gemm", {"M", "", BATCH_ANY}},
    {"batched_gemm", {"N", "", BATCH_ANY}},
    {"grouped_gemm", {"M", "", BATCH_IN_ORDER}},
    {"softmax_jsd", {"R", "", BATCH_IN_ORDER}}, /* labels are the whole batch's */
    {"softmax_kl_div", {"R", "", BATCH_IN_ORDER}},
    {"fused_moe_forward", {"T", "-pre -slot -place", BATCH_ANY}},
    {"fused_moe_backward", {"T", "", BATCH_IN_ORDER}},
    {"preference_loss", {"N", "", BATCH_ANY}},
    {"moe_gather_forward", {"M", "-place", BATCH_ANY}},
    {"moe_gather_backward", {"N", "", BATCH_IN_ORDER}},
    {"moe_scatter_forward", {"N", "-slot", BATCH_IN_ORDER}},
    {"moe_scatter_backward", {"M", "", BATCH_IN_ORDER}},
    {"moe_router_backward", {"R", "-dbalance -dz_loss -dprobs", BATCH_ANY}},
    {"flash_attention", {"B", "", BATCH_ANY}},
    {"flash_attention", {"S", "", BATCH_END}},
};

/* The first "*NAME" of the operator's shapes; "B" if one begins with it. */
static int find_axis(const pb_op *op, batch_axis *axis)
{
    static char names[8][PB_NAME]; /* of all operators: few */
    for (int i = 0; i < op->ntensors; i++) {
        const char *star = strchr(op->tensor[i].shape, '*');
        size_t n = 0;
        while (star && (isalnum((unsigned char)star[n + 1]) || star[n + 1] == '_'))
            n++;
        for (int k = 0; n && n < PB_NAME && k < 8; k++) {
            if (!*names[k])
                snprintf(names[k], PB_NAME, "%.*s", (int)n, star + 1);
            if (strlen(names[k]) == n && !strncmp(names[k], star + 1, n)) {
                *axis = (batch_axis){names[k], "", BATCH_ANY};
                return 1;
            }
        }
    }
    *axis = (batch_axis){"B", "", BATCH_ANY};
    for (int i = 0; i < op->ntensors; i++)
        if (!strncmp(op->tensor[i].shape, "B,", 2))
            return 1;
    return 0;
}

static int is_of(const char *op, const char *name)
{
    const size_t n = strlen(name);
    return !strncmp(op, name, n) &&
           (!op[n] || !strcmp(op + n, "_forward") || !strcmp(op + n, "_backward"));
}

int batch_axes(const pb_op *op, batch_axis *into)
{
    int n = 0, named = 0;
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++)
        if (is_of(op->info->name, axes[i].op)) {
            named = 1;
            if (*axes[i].axis.size && n < BATCH_AXES)
                into[n++] = axes[i].axis;
        }
    return named ? n : find_axis(op, into);
}

/* The shape has a size of that name. */
static int names(const char *shape, const char *size)
{
    const size_t n = strlen(size);
    for (const char *at = shape; (at = strstr(at, size)); at++)
        if ((at == shape || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[n]))
            return 1;
    return 0;
}

int batch_has_results(const pb_op *op)
{
    batch_axis axis[BATCH_AXES];
    const int n = batch_axes(op, axis);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < op->ntensors; k++) {
            const tg_arg_kind kind = op->info->args[op->tensor[k].slot].kind;
            if ((kind == TG_ARG_OUT || kind == TG_ARG_OUT_OPT) &&
                names(op->tensor[k].shape, axis[i].size))
                return 1;
        }
    return 0;
}

/* ---- cases ---- */

static const tg_arg_info *option(const pb_op *op, const char *name)
{
    for (int i = 0; i < op->info->nargs; i++)
        if (op->info->args[i].kind >= TG_ARG_F64 && !strcmp(op->info->args[i].name, name))
            return &op->info->args[i];
    return NULL;
}

/* The number of a choice by its name; -1: there is none. */
static int64_t choice(const tg_arg_info *option, const char *name)
{
    for (const tg_choice *k = option ? option->choices : NULL; k && k->name; k++)
        if (!strcmp(k->name, name))
            return k->value;
    return -1;
}

static void set(pb_case *c, const char *name, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    pb_case_add(c, PB_SET, name, text);
}

/* Losses of rows, or their sum, rather than a mean. */
static void unreduce(const pb_op *op, pb_case *c)
{
    const tg_arg_info *reduction = option(op, "reduction");
    const int64_t none = choice(reduction, "none"), sum = choice(reduction, "sum");
    if (none >= 0 || sum >= 0)
        set(c, "reduction", none >= 0 ? none : sum);
}

/* The case gives a number where the operator says *NAME. */
static int says_numbers(const pb_op *op, const batch_axis *axis, const pb_case *c)
{
    char star[PB_NAME + 1];
    int starred = 0;
    snprintf(star, sizeof star, "*%s", axis->size);
    for (int i = 0; i < op->ntensors; i++)
        starred |= strstr(op->tensor[i].shape, star) != NULL;
    for (int i = 0; starred && i < c->ntokens; i++)
        if (c->token[i].kind == PB_SHAPE && isdigit((unsigned char)c->token[i].value[0]))
            return 1;
    return 0;
}

/* An input lies in the place of another one: both are rows of one batch, or columns. */
static int shares_inputs(const pb_op *op, const pb_case *c)
{
    for (int i = 0; i < c->ntokens; i++)
        for (int k = 0; k < op->info->nargs && c->token[i].kind == PB_OVER; k++)
            if (!strcmp(op->info->args[k].name, c->token[i].name) &&
                op->info->args[k].kind <= TG_ARG_OPT)
                return 1;
    return 0;
}

/* Rows are the last dimension's: sparsemax may have another one. */
static int is_of_columns(const pb_case *c)
{
    for (int i = 0; i < c->ntokens; i++)
        if (c->token[i].kind == PB_SET && !strcmp(c->token[i].name, "dim") &&
            strcmp(c->token[i].value, "-1"))
            return 1;
    return 0;
}

int batch_case(const pb_op *op, const batch_axis *axis, const pb_case *given, pb_case *c)
{
    *c = *given;
    unreduce(op, c);
    const int64_t rows = (int64_t)pb_case_value(c, axis->size);
    if (option(op, "batch_rows") && !pb_case_value(c, "batch_rows"))
        set(c, "batch_rows", rows);
    for (const char *at = axis->drops; *at; at += strcspn(at, " "), at += *at == ' ')
        if (*at == '-') {
            char name[PB_NAME];
            snprintf(name, sizeof name, "%.*s", (int)strcspn(at + 1, " "), at + 1);
            pb_case_add(c, PB_DROP, name, "");
        }
    const int random = pb_case_value(c, "dropout") != 0,
              dropped = pb_case_value(c, "capacity") != 0;
    const int squares = pb_case_value(c, "square") != 0; /* of 128 rows each */
    return rows > 1 && !random && !dropped && !squares && !says_numbers(op, axis, given) &&
           !shares_inputs(op, given) && !is_of_columns(given);
}

void batch_resize(const pb_op *op, const batch_axis *axis, int64_t first, int64_t rows, pb_case *c)
{
    const int64_t groups = (int64_t)pb_case_value(c, "M"),
                  before = (int64_t)pb_case_value(c, axis->size);
    set(c, axis->size, rows);
    if (!strncmp(op->info->name, "rms_norm", 8) && !strcmp(axis->size, "R") && groups > 1)
        set(c, "M", rows * groups / before);
    if (option(op, "first_row"))
        set(c, "first_row", (int64_t)pb_case_value(c, "first_row") + first);
}

/* The rows that belong together: of rms_norm with a scale for several rows, as many. */
int64_t batch_unit(const pb_op *op, const batch_axis *axis, const pb_case *c)
{
    const int64_t groups = (int64_t)pb_case_value(c, "M"),
                  rows = (int64_t)pb_case_value(c, axis->size);
    const int grouped = !strncmp(op->info->name, "rms_norm", 8) && groups > 1;
    return grouped && rows % groups == 0 ? rows / groups : 1;
}
