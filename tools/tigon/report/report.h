/* tools/tigon/report/report.h - what the files of `tigon report` share. */
#ifndef TIGON_REPORT_H
#define TIGON_REPORT_H

#include <tigon/npu.h>

#include <tigon/npu.h>

#include "check/check.h"
#include "doc.h"
#include "source.h"

enum { REPORT_OPS = 8, REPORT_GROUPS = 3, REPORT_LAUNCHES = 6 };

/* A launch, and its plan by value: what the library told of it is gone by now. */
typedef struct report_launch {
    char kernel[96];
    tg_npu_launch info; /* plan: NULL if it has none of its own */
    tg_ub_problem problem;
    tg_ub_layout layout;
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
    doc *d;
} report;

/* Runs one operator on the benchmark's shapes of three groups, rows left out where tensors would be large. */
void report_measure(report *r, const pb_op *op);
/* All launches of a run together. */
tg_npu_launch report_sum(const report_run *run);

/* Time over what the needed bytes take at the chip's full bandwidth. */
double report_over_memory(const report_run *run, const tg_npu_launch *sum);

/* The points, in their order. 0, or -1 after a message. */
int report_files_and_calls(report *r);
void report_symbols(report *r); /* of the second */
void report_optimisations(report *r);
void report_tiling(report *r);
void report_parity(report *r);
void report_performance(report *r);
void report_risks(report *r);

#endif
