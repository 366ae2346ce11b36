/* tools/tigon/report/result.c - points 5 to 7: parity, performance, risks; from what ran. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "report.h"

/* ---- 5: parity ---- */

void report_parity(report *r)
{
    static const char *const columns[] = {"implementation", "dtype",     "passed",    "failed",
                                          "skipped",        "max error", "tolerance", NULL};
    doc_section(r->d, "parity", "Parity, forward and backward");
    doc_table(r->d, "implementations", columns);
    for (int i = 0; i < r->nops; i++)
        for (int k = 0; k < r->parity[i].n; k++) {
            const tally *l = &r->parity[i].line[k];
            doc_cell(r->d, "%s", tg_impl_at(l->impl)->full_name);
            doc_cell(r->d, "%s", tg_type_name(l->type));
            doc_cell(r->d, "%d", l->passed);
            doc_cell(r->d, "%d", l->failed);
            doc_cell(r->d, "%d", l->skipped);
            doc_cell(r->d, "%.2g", l->error);
            doc_cell(r->d, "%.2g", l->tolerance);
        }
    doc_note(r->d, "The small cases of tigon check, against ref in f64; the error is that of the "
                   "element closest to its tolerance. The model checks every access and flag.");
}

/* ---- 6: performance ---- */

static double gbytes(double bytes, double us)
{
    return us > 0 ? 1e-3 * bytes / us : 0;
}

/* Time over what the needed bytes take at the chip's full bandwidth. */
static double over_memory(const report_run *run, const tg_npu_launch *sum)
{
    const double best = 1e6 * run->bytes / sum->hbm_bytes_per_second;
    return run->bytes > 0 && sum->hbm_bytes_per_second > 0 ? sum->us / best : 0;
}

void report_performance(report *r)
{
    static const char *const columns[] = {"operator", "dtype",     "shapes",    "sizes",
                                          "clock",    "first us",  "steady us", "low us",
                                          "high us",  "MB needed", "MB copied", "GB/s used",
                                          "% of HBM", "bound",     NULL};
    doc_section(r->d, "performance", "Performance");
    doc_table(r->d, "runs", columns);
    for (int k = 0; k < r->nruns; k++) {
        const report_run *run = &r->run[k];
        const tg_npu_launch sum = report_sum(run);
        if (!run->nlaunches || run->failed[0])
            continue;
        const double over = over_memory(run, &sum);
        doc_cell(r->d, "%s", run->op->info->name);
        doc_cell(r->d, "%s", tg_type_name(run->type));
        doc_cell(r->d, "%s", run->group);
        doc_cell(r->d, "%s", run->shape);
        doc_cell(r->d, "%s", sum.clock);
        doc_cell(r->d, "%.1f", run->first_us);
        doc_cell(r->d, "%.1f", sum.us);
        doc_cell(r->d, "%.1f", sum.low_us);
        doc_cell(r->d, "%.1f", sum.high_us);
        doc_cell(r->d, "%.2f", 1e-6 * run->bytes);
        doc_cell(r->d, "%.2f", 1e-6 * (double)(sum.read_bytes + sum.write_bytes));
        doc_cell(r->d, "%.0f", gbytes(run->bytes, sum.us));
        doc_cell(r->d, "%.0f", over > 0 ? 100 / over : 0);
        doc_cell(r->d, "%s", sum.bound);
    }
    doc_note(r->d, "Times are the device's, of the clock named; model: no card was used. A host's "
                   "launch is in none of them. steady: the third call, which finds in the L2 "
                   "cache what the second has left. low to high: either reading of facts that no "
                   "published figure settles. Above 100 %%, data stays in the L2 cache.");
}

/* ---- 7: risks ---- */

static int unsettled(report *r)
{
    int found = 0;
    for (int k = 0; k < r->nruns; k++) {
        const tg_npu_launch sum = report_sum(&r->run[k]);
        if (r->run[k].failed[0] || sum.high_us <= 1.1 * sum.low_us)
            continue;
        doc_note(r->d, "%s, %s: unsettled facts of the hardware make %.1f to %.1f us of it",
                 r->run[k].op->info->name, r->run[k].group, sum.low_us, sum.high_us);
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
static int chips_of(report *r, const report_run *run, const report_launch *l, int half)
{
    char names[128] = "";
    for (int c = 0; c < tg_npu_chip_count(); c++) {
        const tg_npu_chip *chip = tg_npu_chip_at(c);
        const size_t used = strlen(names);
        tg_ub_problem p = l->problem;
        p.cores = chip->vector_cores;
        p.ub_bytes = tg_ub_usable_bytes(8 * chip->ub_bytes / (half ? 2 : 1));
        if (!some_kernel_fits(run->op, &p))
            snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", chip->name);
    }
    if (names[0])
        doc_note(r->d, "%s, %s, on %s%s: no tile of any kernel of the operator fits", l->kernel,
                 run->group, names, half ? " with half the UB" : "");
    return names[0] != '\0';
}

static int chips(report *r)
{
    int found = 0;
    for (int k = 0; k < r->nruns; k++)
        for (int i = 0; i < r->run[k].nlaunches; i++) {
            const report_launch *l = &r->run[k].launch[i];
            if (l->info.plan)
                found += chips_of(r, &r->run[k], l, 0) || chips_of(r, &r->run[k], l, 1);
        }
    return found;
}

static int bounds(report *r)
{
    int found = 0;
    for (int k = 0; k < r->nruns; k++) {
        const report_run *run = &r->run[k];
        const tg_npu_launch sum = report_sum(run);
        if (!run->failed[0] && (!strcmp(sum.bound, "vector") || !strcmp(sum.bound, "scalar"))) {
            doc_note(r->d,
                     "%s, %s: bound by its %s instructions, %.1f times what its bytes take at full "
                     "bandwidth",
                     run->op->info->name, run->group, sum.bound, over_memory(run, &sum));
            found++;
        }
        if (run->failed[0]) {
            doc_note(r->d, "%s, %s: does not run: %s", run->op->info->name, run->group,
                     run->failed);
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

static int coverage(report *r)
{
    static const int types[] = {TG_F32, TG_BF16, TG_F16};
    int found = 0;
    for (int i = 0; i < r->nops; i++) {
        const totals *t = &r->parity[i];
        const char *op = tg_op_at(r->op[i])->name;
        for (int k = 0; k < 3; k++)
            if (!has_type(t, types[k])) {
                doc_note(r->d, "%s: %s is not covered", op, tg_type_name(types[k]));
                found++;
            }
        if (t->skipped) {
            doc_note(r->d, "%s: %d of %d cases are refused and fall back", op, t->skipped,
                     t->passed + t->failed + t->skipped);
            found++;
        }
        if (t->failed) {
            doc_note(r->d, "%s: %d cases DISAGREE with the reference: tigon check %s", op,
                     t->failed, op);
            found++;
        }
    }
    return found;
}

static int no_card(report *r)
{
    const tg_probe *probes;
    const int n = tg_device_probes(&probes);
    for (int i = 0; i < n; i++)
        if (!strcmp(probes[i].device, "npu") && probes[i].count > 0)
            return 0;
    doc_note(r->d, "No card is here: nothing above was run on one");
    return 1;
}

void report_risks(report *r)
{
    doc_section(r->d, "risks", "Risks");
    if (coverage(r) + bounds(r) + unsettled(r) + chips(r) + no_card(r) == 0)
        doc_note(r->d, "None was found");
}
