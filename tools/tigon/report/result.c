/* tools/tigon/report/result.c - points 5 and 6: parity and performance, from what ran. */
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

double report_over_memory(const report_run *run, const tg_npu_launch *sum)
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
        const double over = report_over_memory(run, &sum);
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
