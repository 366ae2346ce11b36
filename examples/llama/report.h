/* report.h - what a run tells: progress, a log in JSON lines, its history, its costs. */
#ifndef LLAMA_REPORT_H
#define LLAMA_REPORT_H

#include <stdint.h>

#include "model.h"

/* What happened, step by step; index s holds what came after s steps. NaN where nothing was
 * measured. Lies in memory that is shared with child processes. */
typedef struct history {
    int64_t steps, done;
    double tokens_per_s; /* of the median step */
    double held_out;     /* the last one */
    int64_t peak_bytes;
    int64_t device_bytes;   /* of a device with memory of its own; 0 elsewhere */
    int64_t returned_bytes; /* that it has copied to the host */
    float data[];           /* steps + 1 of each row below */
} history;

history *history_new(int64_t steps);
float *history_loss(history *h);
float *history_norm(history *h);
float *history_held_out(history *h);
float *history_seconds(history *h);
float *history_gemms(history *h); /* seconds of the step's products alone */

/* One finished step. */
typedef struct event {
    int64_t step; /* from 1 */
    double loss, norm, lr, seconds, tokens;
} event;

typedef struct report {
    const options *o;
    const char *label;
    void *log;    /* FILE */
    int log_lost; /* it could not be written to its end: the run goes on without */
    int64_t first_step;
    double begin, shown;
    int terminal;
} report;

void report_open(report *r, const options *o, const char *label, int64_t first_step);
void report_step(report *r, const event *e);
void report_held_out(report *r, int64_t step, double loss);
/* A line that does not disturb the progress bar. */
void report_say(report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What the whole run came to, as the log's last line. */
void report_close(report *r, const history *h);

/* Median of the steps' times; moves the values around in a copy of its own. */
double median(const float *values, int64_t n);

/* The table of costs of the steps after `first` up to `last`, and what their GEMMs alone took. */
void report_costs(const model *m, history *h, int64_t first, int64_t last);

#endif
