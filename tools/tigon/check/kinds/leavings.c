/* tools/tigon/check/kinds/leavings.c - what a call leaves behind in the process: its state changed,
 * or memory, files and threads that become more with every call. */
#include <stdio.h>

#include "kinds.h"
#include "share/impl_device.h"

/* Rounds of so many calls: what grows in each of them but the first, which may set up something, is
 * never given back. */
enum { ROUNDS = 4, CALLS = 32, BASES = 4, BYTES_A_CALL = 8 };

/* ---- state ---- */

static void try_state(trier *t, const base *b, problem *p)
{
    char what[256] = "";
    problem_reset(p);
    process_begin(t->ck->before);
    const tg_status status = impl_memory(t->ck->ctx, t->impl) == TG_DEVICE_CPU
                                 ? tg_impl_run(t->ck->ctx, t->impl, problem_args(p))
                                 : problem_run_impl(t->ck->ctx, t->impl, p);
    if (process_end(t->ck->before, what, sizeof what))
        kinds_failed(t, &b->c, b->type, "a call leaves the process in another state: %s", what);
    else if (!status)
        kinds_passed(t);
}

/* ---- growth ---- */

typedef int (*round_fn)(trier *t, problem *p);

static int call_again(trier *t, problem *p)
{
    for (int i = 0; i < CALLS; i++)
        if (kinds_run(t, t->ck->ctx, p))
            return -1;
    return 0;
}

static int call_in_contexts(trier *t, problem *p)
{
    for (int i = 0; i < CALLS; i++) {
        tg_ctx *ctx = kinds_context(t, 1);
        const int bad = !ctx || kinds_run(t, ctx, p);
        problem_leave(p);
        tg_ctx_destroy(ctx);
        if (bad)
            return -1;
    }
    return 0;
}

/* The least that each round but the first has added. */
static int measure(trier *t, problem *p, round_fn round, process_size *least)
{
    process_size before, after;
    for (int i = 0; i < ROUNDS; i++) {
        process_measure(&before);
        if (round(t, p))
            return -1;
        process_measure(&after);
        const process_size grown = {after.heap - before.heap, after.mapped - before.mapped,
                                    after.files - before.files, after.threads - before.threads};
        if (i < 2)
            *least = grown;
        least->heap = grown.heap < least->heap ? grown.heap : least->heap;
        least->mapped = grown.mapped < least->mapped ? grown.mapped : least->mapped;
        least->files = grown.files < least->files ? grown.files : least->files;
        least->threads = grown.threads < least->threads ? grown.threads : least->threads;
    }
    return 0;
}

/* More than any set-up takes since the first call: a leak may have come to its end, where no
 * more are to be had. */
static int has_run_out(const trier *t, const process_size *now)
{
    enum { MOST_FILES = 128, MOST_THREADS = 256 };
    const process_size *before = &t->ck->before_size;
    return now->files - before->files > MOST_FILES || now->threads - before->threads > MOST_THREADS;
}

static void try_growth(trier *t, const base *b, problem *p, round_fn round, const char *where)
{
    process_size grown;
    if (measure(t, p, round, &grown))
        return;
    const int heap = grown.heap >= BYTES_A_CALL, mapped = grown.mapped >= CALLS;
    process_size now;
    process_measure(&now);
    if (has_run_out(t, &now)) {
        if (now.files == NO_FILE_LEFT)
            kinds_failed(t, &b->c, b->type, "no file is left to open: calls leave files open");
        else
            kinds_failed(t, &b->c, b->type, "%lld files are open and %lld threads run",
                         (long long)now.files, (long long)now.threads);
        return;
    }
    if (!heap && !mapped && grown.files <= 0 && grown.threads <= 0) {
        kinds_passed(t);
        return;
    }
    kinds_failed(t, &b->c, b->type,
                 "%d calls%s leave behind %lld bytes of the heap, %lld mapped pages, %lld open "
                 "files, %lld threads",
                 CALLS, where, (long long)(heap ? grown.heap : 0),
                 (long long)(mapped ? grown.mapped : 0), (long long)grown.files,
                 (long long)grown.threads);
}

void kind_process(trier *t)
{
    for (int k = 0; k < DATA_TYPES; k++) {
        const base *from[BASES];
        const int n = bases_of(t, data_types[k], from, BASES);
        for (int i = 0; i < n; i++) {
            problem *p = kinds_problem(t, &from[i]->c, from[i]->type, (uint64_t)t->ck->s.seed);
            if (p && t->ck->before) {
                try_state(t, from[i], p);
                try_growth(t, from[i], p, call_again, "");
                problem_leave(p);
                if (i % 3 == 0)
                    try_growth(t, from[i], p, call_in_contexts, " in contexts of their own");
            }
            problem_free(p);
        }
    }
}
