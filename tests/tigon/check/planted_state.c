/* planted_state.c - faults of what is kept from call to call, and shared by calls at once. */
#define _GNU_SOURCE
#include "planted.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

static void spoil(const call *c)
{
    const tg_tensor *y = first_output(c);
    if (tg_numel(y))
        *start(y) ^= 0x40;
}

/* ---- state between calls ---- */

static tg_status each_200th_call(call *c)
{
    static int calls;
    const tg_status status = right(c);
    if (++calls % 200 == 0)
        spoil(c);
    return status;
}

/* Taken for the last one's result where the addresses are the same. */
static tg_status cached_by_address(call *c)
{
    static _Thread_local const void *x, *y;
    static _Thread_local int64_t n;
    static _Thread_local char kept[4096];
    const tg_tensor *in = first_input(c), *out = first_output(c);
    const int64_t dense = rows(out) * (int64_t)row_bytes(out);
    const int64_t bytes =
        dense && row(out, rows(out) - 1) + row_bytes(out) == start(out) + dense ? dense : 0;
    const int known = bytes > 0 && x == start(in) && y == start(out) && n == bytes;
    const tg_status status = right(c);
    if (known)
        memcpy(start(out), kept, (size_t)n);
    x = start(in);
    y = start(out);
    n = bytes <= (int64_t)sizeof kept ? bytes : 0;
    memcpy(kept, start(out), (size_t)n);
    return status;
}

/* What was set up for the rows of the last call is used for this one's. */
static tg_status rows_of_the_last_call(call *c)
{
    static int64_t last;
    const tg_status status = right(c);
    if (rows(first_output(c)) > 1 && last > rows(first_output(c)) && last % 3 == 0)
        spoil(c);
    last = rows(first_output(c));
    return status;
}

static tg_status other_contexts(call *c)
{
    static const tg_ctx *first;
    const tg_status status = right(c);
    if (!first)
        first = c->ctx;
    if (c->ctx != first)
        spoil(c);
    return status;
}

static tg_status other_threads(call *c)
{
    const tg_status status = right(c);
    if (gettid() != getpid())
        spoil(c);
    return status;
}

/* ---- state of calls at once ---- */

/* A row goes through memory that all calls share. */
static tg_status static_scratch(call *c)
{
    static char scratch[1 << 16];
    const tg_status status = right(c);
    const tg_tensor *y = first_output(c);
    for (int64_t r = 0; row_bytes(y) <= sizeof scratch && r < rows(y); r++) {
        memcpy(scratch, row(y, r), row_bytes(y));
        memcpy(row(y, r), scratch, row_bytes(y));
    }
    return status;
}

/* The first element is kept in a static variable while the others are computed. */
static tg_status static_value(call *c)
{
    static volatile char value;
    const tg_tensor *x = first_input(c);
    if (tg_numel(x))
        value = *start(x);
    const tg_status status = right(c);
    if (tg_numel(x) && value != *start(x))
        spoil(c);
    return status;
}

const fault faults_of_state[] = {
    {"each_200th_call", "state", NULL, each_200th_call},
    {"cached_by_address", "state", NULL, cached_by_address},
    {"rows_of_the_last_call", "state", NULL, rows_of_the_last_call},
    {"other_contexts", "state", NULL, other_contexts},
    {"other_threads", "state", NULL, other_threads},
    {"static_scratch", "threads", NULL, static_scratch},
    {"static_value", "threads", NULL, static_value},
    {0},
};
