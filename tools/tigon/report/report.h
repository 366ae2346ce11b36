/* tools/tigon/report/report.h - what the files of `tigon report` share. */
#ifndef TIGON_REPORT_H
#define TIGON_REPORT_H

#include <tigon/npu.h>

#include "check/check.h"
#include "doc.h"
#include "record.h"

enum { REPORT_OPS = 8, REPORT_GROUPS = 3, REPORT_LAUNCHES = 6, REPORT_ARGUMENTS = 48 };

/* A launch, its plan and arguments by value: what the library told of it is gone by now. */
typedef struct report_launch {
    char kernel[96];
    tg_npu_launch info; /* plan: NULL if it has none of its own */
    tg_ub_problem problem;
    tg_ub_layout layout;
    int64_t used[TG_UB_BUFFERS]; /* bytes of each buffer of the plan */
    int narguments;
    tg_npu_argument argument[REPORT_ARGUMENTS];
} report_launch;

/* The third call of one operator: L2 holds what the second has left. */
typedef struct report_run {
    const pb_op *op;
    const char *group; /* "small", "medium", "large" */
    int type;
    char shape[128];
    double bytes;     /* that it must move */
    char failed[256]; /* why it did not run; "" */
    double first_us;  /* of all launches of the first call */
    int nlaunches;
    report_launch launch[REPORT_LAUNCHES];
} report_run;

typedef struct report {
    const catalogue *cat;
    tg_ctx *ctx, *cpu;
    int type, nops, op[REPORT_OPS];
    int nruns;
    report_run run[REPORT_OPS * REPORT_GROUPS];
    totals parity[REPORT_OPS];
    record record; /* of what ran for both: the sums are the largest group's third call */
    doc *d;
} report;

/* Runs one operator on the benchmark's shapes of three groups, rows left out where
 * tensors would be large. */
void report_measure(report *r, const pb_op *op);
/* Checks operator i of the report in the small cases of tigon check. */
void report_check(report *r, int i);
/* Run k is of the largest group of its operator. */
int report_is_largest(const report *r, int k);
/* All launches of a run together. */
tg_npu_launch report_sum(const report_run *run);

/* Time over what the needed bytes take at the chip's full bandwidth. */
double report_over_memory(const report_run *run, const tg_npu_launch *sum);

/* The points, in their order. */
void report_files(report *r);
void report_api(report *r);
void report_symbols(report *r); /* of the second */
void report_optimisations(report *r);
void report_tiling(report *r);
void report_parity(report *r);
void report_performance(report *r);
void report_risks(report *r);

#endif
