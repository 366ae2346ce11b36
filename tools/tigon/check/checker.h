/* tools/tigon/check/checker.h - what the files of the command `tigon check` itself share. */
#ifndef TIGON_CHECKER_H
#define TIGON_CHECKER_H

#include "check.h"
#include "share/types.h"

enum { MOST_WANTED = 64 };

/* Operators and implementations that are asked for, by the beginnings of their names; none: all. */
typedef struct wanted {
    int n;
    char **name;
    int first_impl;           /* implementations before it are not checked (--backend) */
    int was_run[MOST_WANTED]; /* something was checked for this name */
} wanted;

typedef struct process_state process_state;
/* What only grows when something is never given back: bytes, pages, numbers. */
typedef struct process_size {
    int64_t heap, mapped, files, threads;
} process_size;

typedef struct checker {
    check_settings s;
    const catalogue *cat;
    tg_ctx *ctx;   /* runs the implementations */
    tg_ctx *judge; /* runs ref and the yardstick: with --backend a context without the plug-in */
    wanted wanted;
    ceilings under;
    int ntypes, types[TYPES_LISTED]; /* that were asked for */
    int as_json;
    totals sum;
    process_state *before; /* the first call; for the kinds */
    process_size before_size;
} checker;

/* ---- operator.c ---- */

/* The context that judges what runs in ck->ctx: itself, or where that has a device or a plug-in one
 * without, since a device would not take the yardstick's parts in host memory. Returns -1 with
 * tg_last_error(). */
int checker_open_judge(checker *ck, int has_backend);
void checker_close_judge(checker *ck);

/* All implementations of one operator. */
void checker_operator(checker *ck, int id);
/* The device whose implementations are checked; "" where they are a plug-in's. */
const char *checker_device(const checker *ck);
/* Those that are to be checked; returns how many. */
int checker_impls(const checker *ck, int op, int *impls, int max);
/* The case is to be checked in this type. */
int checker_takes(const checker *ck, const pb_case *c, int type);
/* How problems are made here. */
pb_options checker_options(const checker *ck, int type);
/* NULL after it was told, or if the problem is too large for --quick. */
problem *checker_problem(checker *ck, const pb_op *op, const pb_case *c, int type);
/* A line about one implementation and case. */
void checker_tell(const checker *ck, const char *what, const char *who, int type, const pb_case *c,
                  const char *why);
/* What became of an implementation with a case: told, and counted. */
void checker_record(checker *ck, int impl, int type, const pb_case *c, outcome *o);
/* --batch-invariant: a case of an operator in all types, as a whole and in parts. */
void checker_batches(checker *ck, const pb_op *op, const pb_case *c, const int *impls, int nimpls);
/* A failure of no single case: a family without cases, for example. */
void checker_fail(checker *ck, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The cases of an operator that are not for the benchmark, then those with bare options. */
typedef void (*checker_case_fn)(void *arg, const pb_case *c);
int checker_each_case(checker *ck, const pb_op *op, checker_case_fn fn, void *arg);

/* ---- wanted.c ---- */

int wanted_impl(const wanted *w, int impl);
/* The operator is asked for by its own name, or nothing is. */
int wanted_operator(const wanted *w, const char *op);
/* All implementations of an operator are checked if any is. */
int wanted_whole_operators(const wanted *w);
void wanted_note(wanted *w, int impl);
/* A name that no implementation has (the message says so), or for which nothing was run; NULL
 * if there is none. */
const char *wanted_unknown(const wanted *w);
const char *wanted_not_run(const wanted *w);

/* ---- parts.c ---- */

/* The composites that stand on the plug-in's implementations. 0, or -1 after a
 * message on stderr. */
int check_parts(checker *ck);

/* ---- kinds/kinds.c ---- */

/* Before the first call: what the process is like. */
void check_kinds_prepare(checker *ck);
/* Each kind with each implementation of the plug-in. 0, or -1 after a message on stderr. */
int check_kinds(checker *ck);

#endif
