/* tools/tigon/bench/bench.h - parts of `tigon bench`.
 *
 * A cell is one thing to measure: an operator's mode at one size, type and state of the caches. A
 * provider is one way to run it. Both meet in bench_measure(), which times all providers and the
 * machine's limits in interleaved rounds.
 */
#ifndef TIGON_BENCH_H
#define TIGON_BENCH_H

#include <stdint.h>
#include <tigon/tigon.h>

#include "formats/json.h"
#include "limits/limits.h"
#include "problem/problem.h"
#include "share/json_read.h"

enum {
    BENCH_PROVIDERS = 8,
    BENCH_PARTS = 2, /* operators in a cell: forward, backward */
    BENCH_GEMMS = 8, /* different products in an operator */
    BENCH_TEXT = 256,
    BENCH_SOC = 32
};

typedef enum bench_mode { BENCH_FORWARD, BENCH_BACKWARD, BENCH_FULL, BENCH_MODES } bench_mode;
extern const char *const bench_mode_names[BENCH_MODES];

typedef struct bench_provider {
    char name[PB_NAME];
    tg_ctx *ctx;
} bench_provider;

/* 1 if it runs what a call runs by itself, and not a backend of its name. */
int bench_is_tigon(const bench_provider *p);

typedef struct bench_settings {
    const catalogue *cat;
    tg_ctx *ctx; /* of the probes of limits; all providers use as many threads as it has */
    int nproviders;
    bench_provider provider[BENCH_PROVIDERS];
    int threads;
    const char *clock; /* "wall" or "cpu" */
    int64_t rounds;    /* 0: as many as fit the budget */
    double budget;     /* seconds a cell, roughly */
    int checks, limits;
    int modelled;     /* the device is the model of a card: its launches tell their times */
    evictor *evictor; /* made when first needed */
} bench_settings;

/* ---- cells ---- */

typedef struct bench_cell {
    const char *group;
    bench_mode mode;
    char size[PB_NAME]; /* "large"; "" for --shape */
    int type, cold;
    char shape[BENCH_TEXT];
    int nparts;
    pb_case part_case[BENCH_PARTS];
    problem *part[BENCH_PARTS];
    double bytes, flops;
} bench_cell;

/* 1 if the group has an operator for the mode. */
int bench_has_mode(const catalogue *cat, const char *group, bench_mode mode);
/* Makes the problems; 0, or -1 with the error. text: the case. */
int bench_cell_open(bench_cell *cell, const bench_settings *s, const char *text, char *error);
void bench_cell_close(bench_cell *cell);
/* The parts, one after the other, with the arguments that bench_cell_args() gave; work may go
 * on behind the call. */
typedef struct bench_args {
    const void *part[BENCH_PARTS];
} bench_args;
tg_status bench_cell_run(const bench_cell *cell, const bench_args *args, tg_ctx *ctx);
/* Arguments where the context's first implementation of each part takes them; device
 * memory is filled anew. */
tg_status bench_cell_args(const bench_cell *cell, tg_ctx *ctx, bench_args *args);
/* What a plain loop must move for a part, and the part's products (returns how many). */
memory_work bench_memory_work(const problem *p);
int bench_gemm_work(const problem *p, gemm_work *work);
/* Value of an expression in the problem's sizes; 0 if it cannot be read. */
double bench_value(const problem *p, const char *expression);

/* ---- checks ---- */

/* Compares tigon with ref on the case with small first dimensions, and with unfused as it stands.
 * 0; 1 if a result is wrong, with the reason; 2 if something could not be compared, with why. */
int bench_check(const bench_settings *s, bench_cell *cell, char *why);

/* ---- measuring ---- */

typedef struct quantiles {
    double q20, q50, q80; /* seconds */
} quantiles;

typedef struct bench_result {
    int provider; /* number in the settings */
    int ran;
    char impl[BENCH_TEXT];
    char why[PB_ERROR]; /* why it did not run */
    quantiles time;
    double first; /* seconds of the first call of all, on the model of a card */
    double gbps, fraction_of_limit, gflops, fraction_of_gemm; /* NaN where there is none */
    double peak_bytes;                                        /* outputs and workspace */
} bench_result;

typedef struct bench_results {
    bench_cell *cell;
    int rounds;
    double limit_gbps;                   /* of the best plain loop; NaN without */
    double limit_gbps_20, limit_gbps_80; /* quantiles of it over the rounds */
    char limit_name[BENCH_TEXT];
    double gemm_gflops; /* of the products alone; NaN without */
    char gemm_name[BENCH_TEXT];
    char soc[BENCH_SOC]; /* the chip that is modelled; "" on a device that runs */
    int checked;         /* 1 right, 0 wrong, -1 not compared */
    char check[PB_ERROR];
    bench_result result[BENCH_PROVIDERS];
} bench_results;

/* One thing to time. inner: calls in a sample, set by the calibration. */
typedef struct timed {
    void (*run)(void *arg);
    void (*wait)(
        void *arg); /* returns when the work has ended; NULL: run() itself returns only then */
    void *arg;
    tg_ctx *ctx; /* of a device with memory of its own, whose clock tells the time; else NULL */
    int inner;
    int warm;        /* 1: always with warm caches, since what is wanted is a rate */
    double once;     /* seconds of a call, roughly */
    double *samples; /* seconds, of each round; to be freed */
    quantiles time;
} timed;
/* Times all in turns; returns the number of rounds, 0 for out of memory: then there are no
 * samples. */
int bench_time(timed *list, int n, const bench_settings *s, int cold);
void bench_time_free(timed *list, int n);
/* Of n samples, which stay as they are; NaN for want of memory. */
quantiles bench_quantiles(const double *samples, int n);

/* One untimed run: which implementations the provider takes, and how much memory. 0 if it does
 * not run, with why. */
int bench_first_run(const bench_provider *p, const bench_cell *cell, bench_args *args,
                    bench_result *result);
/* What follows from the time and the limits. */
void bench_rate(bench_result *result, const bench_results *r);
void bench_measure_modelled(const bench_settings *s, bench_results *r);
/* 0, or -1 with the error. */
int bench_measure(bench_settings *s, bench_cell *cell, bench_results *r, char *error);

/* ---- reports ---- */

/* The processor's name, the card's, or the modelled chip's. */
const char *bench_device(const bench_settings *s, const bench_results *r);

void bench_table_head(const bench_settings *s, const bench_results *r);
void bench_table_rows(const bench_settings *s, const bench_results *r);

void bench_json(json *j, const bench_settings *s, const bench_results *r);

/* Liger's "Benchmark Data": curves over x. */
typedef struct sweep_point {
    double x;
    double y50, y20, y80; /* NaN: missing */
} sweep_point;

typedef struct sweep_curve {
    char kernel[PB_NAME], provider[PB_NAME], mode[PB_NAME];
    const char *metric, *unit;
    char x_name[PB_NAME], extra[BENCH_TEXT];
    int count;
    sweep_point *points;
} sweep_curve;

typedef struct sweep {
    int count;
    sweep_curve *curve;
    char timestamp[32], device[128];
} sweep;

/* Adds a cell's results at x. -1: out of memory. */
int sweep_add(sweep *w, const bench_settings *s, const bench_results *r, const char *x_name,
              double x);
/* A curve of which no point ran says nothing; it is left out. */
int sweep_is_empty(const sweep_curve *c);
void sweep_print(const sweep *w);
/* Merges into a CSV file by Liger's rule of which rows are the same measurement; 0, or
 * -1 after a message. */
int sweep_save(const sweep *w, const char *path, int overwrite);
void sweep_free(sweep *w);

/* ---- other work of the command ---- */

/* check + dispatch, in nanoseconds a call. Returns the exit status. */
int bench_dispatch(bench_settings *s, char **groups, int n, int as_json);
/* Says on stderr what changed since an earlier run's records. 1 if a provider got slower by more
 * than `allowed` (0.1 is 10 %), and so against the machine's limit, which may
 * itself have changed. */
int bench_compare(const json_value *baseline, const bench_settings *s, const bench_results *r,
                  double allowed);

#endif
