/* tools/tigon/check/kinds/kinds.h - what `tigon check --backend FILE --strict` tries beyond
 * the families' cases: kinds of faults that single calls of small sizes do not show. Each kind
 * is tried with every implementation of the plug-in, in each type that it takes.
 * docs/numerics.md describes them. */
#ifndef TIGON_CHECK_KINDS_H
#define TIGON_CHECK_KINDS_H

#include "check/checker.h"

/* A case that the implementation takes in this type. */
typedef struct base {
    pb_case c;
    int type;
    size_t bytes; /* of its tensors */
} base;

/* One implementation while its kinds are tried. */
typedef struct trier {
    checker *ck;
    const pb_op *op;
    int impl;
    int kind;
    kinds_line *line;
    int nbases;
    base
        *bases; /* small cases of ordinary values, those of one type together, the smallest first */
} trier;

/* ---- bases.c ---- */

/* 0, or -1 if memory is short. */
int bases_find(trier *t);
void bases_free(trier *t);
/* At most max bases of a type, spread over all of its sizes; returns how many. */
int bases_of(const trier *t, int type, const base **into, int max);
/* The base of a type that a program's call resembles most: of those whose sizes are free, the one
 * with most tensors and fewest options; NULL if there is none. */
const base *bases_richest(const trier *t, int type);

/* ---- kinds.c ---- */

/* The case in this type: NULL if the operator's check or the implementation refuses it, or if it is
 * too large for --quick. What is wrong with a problem that should be there counts as a failure. */
problem *kinds_problem(trier *t, const pb_case *c, int type, uint64_t seed);
/* The problem and all that is asked of an implementation; what came of it is
 * noted. 1 if it was run. */
int kinds_check(trier *t, const pb_case *c, int type);
/* One thing that was tried: passed, or failed for this reason. */
void kinds_passed(trier *t);
void kinds_failed(trier *t, const pb_case *c, int type, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Runs the implementation on the problem as it was before its first call; 0, or -1 after the
 * failure was noted. */
int kinds_run(trier *t, tg_ctx *ctx, problem *p);
/* A context as the checker's own; NULL if there is none. */
tg_ctx *kinds_context(const trier *t, int threads);
/* The case with a dimension or option set anew. */
void kinds_set(pb_case *c, const char *name, const char *value);
void kinds_set_int(pb_case *c, const char *name, int64_t value);
/* The values of an option that are tried, as a case writes them; returns how many. */
enum { KINDS_VALUES = 24 };
int kinds_values(const tg_arg_info *option, char value[][PB_NAME]);

/* ---- pages.c: a problem's buffers on pages of their own ---- */

typedef struct pages pages;
/* The buffers are moved to the end of their pages, or to the beginning; the pages beside
 * them can be neither read nor written, those of inputs alone not written. NULL if there is
 * no memory for it. */
pages *pages_place(const problem *p, int at_end);
const void *pages_args(const pages *g);
/* The next access to the middle of the tensor's buffer calls fn once, before it happens. */
void pages_trip(pages *g, int tensor, void (*fn)(void *arg), void *arg);
/* 1 with where, if a call since pages_place() touched what it must not. */
int pages_touched(const pages *g, char *where, size_t size);
/* What the call wrote, into the problem's own buffers. */
void pages_fetch(const pages *g);
void pages_free(pages *g);

/* ---- process.c: what belongs to the process and not to a call ---- */

/* process_state is checker.h's. Before a call the state is put back, so that what an earlier call
 * has changed shows again; text on stdout and stderr is taken until process_end(). That returns 1
 * and what, if the process is no longer as it was saved. */
process_state *process_save(void);
void process_begin(process_state *s);
int process_end(process_state *s, char *what, size_t size);

/* growth.c; process_size is checker.h's, too. files and threads are NO_FILE_LEFT where none is left
 * to open, by which both are counted. */
enum { NO_FILE_LEFT = INT32_MAX };
void process_measure(process_size *s);

/* ---- the kinds ---- */

void kind_sizes(trier *t);
void kind_options(trier *t);
void kind_types(trier *t);
void kind_range(trier *t);
void kind_accuracy(trier *t);
void kind_memory(trier *t);
void kind_state(trier *t);
void kind_threads(trier *t);
void kind_process(trier *t);

#endif
