/* tools/tigon/report/risks.c - point 7: risks, from what ran, and for each kind of
 * them what to do next. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

/* ---- next steps: one for each kind of risk and operator ---- */

typedef enum risk {
    DISAGREES,
    DOES_NOT_RUN,
    NO_TILE,
    UNCOVERED,
    REFUSED,
    SLOW,
    UNSETTLED,
    NO_CARD,
    RISKS
} risk;

static const char *const todo[RISKS] = {
    [DISAGREES] = "find the first case and element that differ, and mend the kernel",
    [DOES_NOT_RUN] = "see which buffer is too large for this shape, and cut the tile",
    [NO_TILE] = "see which buffer limits the tile; let it share memory, or cut rows into pieces",
    [UNCOVERED] = "compile the kernel for the type and name the type in the backend's table",
    [REFUSED] = "see which cases fall back; take their options, or tell why not in the README",
    [SLOW] = "see which source lines take the cycles (lines.csv), and spend fewer there",
    [UNSETTLED] = "measure the shape on a card, which settles the fact",
    [NO_CARD] = "check on a card what was run on the model, then measure there"};

typedef struct step {
    risk kind;
    int op;
    char type[240]; /* the command */
} step;

enum { STEPS = RISKS * REPORT_OPS };
typedef struct steps {
    int n;
    step list[STEPS];
} steps;

/* What to do about a risk of an operator; the first command of a kind stays. */
static void next(steps *s, risk kind, int op, const char *format, ...)
{
    va_list list;
    for (int i = 0; i < s->n; i++)
        if (s->list[i].kind == kind && s->list[i].op == op)
            return;
    if (s->n == STEPS)
        return;
    step *to = &s->list[s->n++];
    *to = (step){.kind = kind, .op = op};
    va_start(list, format);
    vsnprintf(to->type, sizeof to->type, format, list);
    va_end(list);
}

static int by_urgency(const void *a, const void *b)
{
    const step *x = a, *y = b;
    return x->kind != y->kind ? (int)x->kind - (int)y->kind : x->op - y->op;
}

static void write_steps(report *r, steps *s)
{
    static const char *const columns[] = {"operator", "next step", "type", NULL};
    qsort(s->list, (size_t)s->n, sizeof *s->list, by_urgency);
    doc_table(r->d, "steps", columns);
    for (int i = 0; i < s->n; i++) {
        doc_cell(r->d, "%s", tg_op_at(s->list[i].op)->name);
        doc_cell(r->d, "%s", todo[s->list[i].kind]);
        doc_cell(r->d, "%s", s->list[i].type);
    }
}

/* ---- risks ---- */

static int unsettled(report *r, steps *s)
{
    int found = 0;
    for (int k = 0; k < r->nruns; k++) {
        const tg_npu_launch sum = report_sum(&r->run[k]);
        if (r->run[k].failed[0] || sum.high_us <= 1.1 * sum.low_us)
            continue;
        doc_note(r->d, "%s, %s: unsettled facts of the hardware make %.1f to %.1f us of it",
                 r->run[k].op->info->name, r->run[k].group, sum.low_us, sum.high_us);
        next(s, UNSETTLED, r->run[k].op->id,
             "tigon bench %s --device npu --shape \"%s\" --dtype %s", r->run[k].op->info->name,
             r->run[k].shape, tg_type_name(r->run[k].type));
        found++;
    }
    return found;
}

/* One of the operator's kernels has a tile for this problem. */
static int some_kernel_fits(const pb_op *op, const tg_ub_problem *problem)
{
    const size_t n = strlen(op->info->name);
    tg_ub_layout layout;
    for (int i = 0; i < tg_ub_kernel_count(); i++) {
        const tg_ub_kernel *k = tg_ub_kernel_at(i);
        if (!strncmp(k->name, op->info->name, n) && k->name[n] == '.' &&
            !tg_ub_plan(k, problem, &layout))
            return 1;
    }
    return 0;
}

/* The problem of a launch on every chip of the table, with all of its buffer or a half of it. */
static int chips_of(report *r, const report_run *run, const report_launch *l, int half, steps *s)
{
    char names[128] = "";
    int64_t capacity = 0;
    for (int c = 0; c < tg_npu_chip_count(); c++) {
        const tg_npu_chip *chip = tg_npu_chip_at(c);
        const size_t used = strlen(names);
        tg_ub_problem p = l->problem;
        p.cores = chip->vector_cores;
        p.ub_bytes = tg_ub_usable_bytes(8 * chip->ub_bytes / (half ? 2 : 1));
        if (some_kernel_fits(run->op, &p))
            continue;
        capacity = 8 * chip->ub_bytes / (half ? 2 : 1);
        snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", chip->name);
    }
    if (names[0])
        doc_note(r->d, "%s, %s, on %s%s: no tile of any kernel of the operator fits", l->kernel,
                 run->group, names, half ? " with half the UB" : "");
    if (names[0])
        next(s, NO_TILE, run->op->id,
             "tigon ub-check %s --shape %" PRId64 "x%" PRId64
             " --dtype %s --capacity-bits %" PRId64,
             l->info.plan->name, l->problem.rows, l->problem.columns, tg_type_name(run->type),
             capacity);
    return names[0] != '\0';
}

static int chips(report *r, steps *s)
{
    int found = 0;
    for (int k = 0; k < r->nruns; k++)
        for (int i = 0; i < r->run[k].nlaunches; i++) {
            const report_launch *l = &r->run[k].launch[i];
            if (l->info.plan)
                found += chips_of(r, &r->run[k], l, 0, s) || chips_of(r, &r->run[k], l, 1, s);
        }
    return found;
}

static int bounds(report *r, steps *s)
{
    int found = 0;
    for (int k = 0; k < r->nruns; k++) {
        const report_run *run = &r->run[k];
        const tg_npu_launch sum = report_sum(run);
        if (!run->failed[0] && (!strcmp(sum.bound, "vector") || !strcmp(sum.bound, "scalar"))) {
            doc_note(r->d,
                     "%s, %s: bound by its %s instructions, %.1f times what its bytes take at full "
                     "bandwidth",
                     run->op->info->name, run->group, sum.bound, report_over_memory(run, &sum));
            next(s, SLOW, run->op->id, "tigon profile %s --shape \"%s\" --dtype %s",
                 run->op->info->name, run->shape, tg_type_name(run->type));
            found++;
        }
        if (run->failed[0]) {
            doc_note(r->d, "%s, %s: does not run: %s", run->op->info->name, run->group,
                     run->failed);
            next(s, DOES_NOT_RUN, run->op->id,
                 "TIGON_VERBOSE=1 tigon bench %s --device npu-model --size %s --dtype %s",
                 run->op->info->name, run->group, tg_type_name(run->type));
            found++;
        }
    }
    return found;
}

static int has_type(const totals *t, int type)
{
    for (int i = 0; i < t->n; i++)
        if (t->line[i].type == type && t->line[i].passed)
            return 1;
    return 0;
}

static int coverage(report *r, steps *s)
{
    static const int types[] = {TG_F32, TG_BF16, TG_F16};
    int found = 0;
    for (int i = 0; i < r->nops; i++) {
        const totals *t = &r->parity[i];
        const char *op = tg_op_at(r->op[i])->name;
        for (int k = 0; k < 3; k++)
            if (!has_type(t, types[k])) {
                doc_note(r->d, "%s: %s is not covered", op, tg_type_name(types[k]));
                next(s, UNCOVERED, r->op[i], "tigon list %s", op);
                found++;
            }
        if (t->skipped) {
            doc_note(r->d, "%s: %d of %d cases are refused and fall back", op, t->skipped,
                     t->passed + t->failed + t->skipped);
            next(s, REFUSED, r->op[i], "tigon check --device npu-model --quick --verbose %s", op);
            found++;
        }
        if (t->failed) {
            doc_note(r->d, "%s: %d cases DISAGREE with the reference", op, t->failed);
            next(s, DISAGREES, r->op[i], "tigon check --device npu-model --quick --verbose %s", op);
            found++;
        }
    }
    return found;
}

static int no_card(report *r, steps *s)
{
    const tg_probe *probes;
    const int n = tg_device_probes(&probes);
    for (int i = 0; i < n; i++)
        if (!strcmp(probes[i].device, "npu") && probes[i].count > 0)
            return 0;
    doc_note(r->d, "No card is here: nothing above was run on one");
    for (int i = 0; i < r->nops; i++) {
        const char *op = tg_op_at(r->op[i])->name;
        next(s, NO_CARD, r->op[i],
             "tigon check --device npu --strict %s && tigon bench --device npu %s", op, op);
    }
    return 1;
}

void report_risks(report *r)
{
    steps s = {0};
    doc_section(r->d, "risks", "Risks and next steps");
    if (coverage(r, &s) + bounds(r, &s) + unsettled(r, &s) + chips(r, &s) + no_card(r, &s) == 0)
        doc_note(r->d, "None was found");
    write_steps(r, &s);
}
