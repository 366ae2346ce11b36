/* planted_memory.c - faults of what lies beside the operands. */
#include "planted.h"

static volatile char seen;

static tg_status writes_behind(call *c)
{
    const tg_status status = right(c);
    const tg_tensor *y = first_output(c);
    if (rows(y))
        row(y, rows(y) - 1)[row_bytes(y)] = 0;
    return status;
}

/* Between two rows that do not touch. */
static tg_status writes_between_rows(call *c)
{
    const tg_status status = right(c);
    const tg_tensor *y = first_output(c);
    if (rows(y) > 1 && row(y, 1) > row(y, 0) + row_bytes(y))
        row(y, 0)[row_bytes(y)] = 0;
    return status;
}

static tg_status reads_behind(call *c)
{
    const tg_tensor *x = first_input(c);
    if (rows(x))
        seen = row(x, rows(x) - 1)[row_bytes(x) + 15];
    return right(c);
}

static tg_status reads_before(call *c)
{
    seen = start(first_input(c))[-1];
    return right(c);
}

/* The input is scratch, and put back. */
static tg_status borrows_the_input(call *c)
{
    volatile char *x = start(first_input(c)), first;
    if (!tg_numel(first_input(c)))
        return right(c);
    first = *x;
    *x = 1;
    *x = first;
    return right(c);
}

static tg_status changes_the_input(call *c)
{
    const tg_status status = right(c);
    if (tg_numel(first_input(c)))
        *start(first_input(c)) ^= 1;
    return status;
}

/* Aligned loads from data that begins anywhere. */
static tg_status assumes_alignment(call *c)
{
    const tg_status status = right(c);
    const tg_tensor *y = first_output(c);
    if ((uintptr_t)start(y) % 16 && tg_numel(y))
        memset(start(y), 0, tg_type_size(tg_type_of(y)));
    return status;
}

static tg_status ignores_strides(call *c)
{
    const tg_status status = right(c);
    const tg_tensor *y = first_output(c);
    if (rows(y) > 1 && row(y, 1) > row(y, 0) + row_bytes(y) + 16 * tg_type_size(tg_type_of(y)))
        memset(row(y, 1), 0, row_bytes(y));
    return status;
}

const fault faults_of_memory[] = {
    {"writes_behind", "memory", NULL, writes_behind},
    {"writes_between_rows", "memory", NULL, writes_between_rows},
    {"reads_behind", "memory", NULL, reads_behind},
    {"reads_before", "memory", NULL, reads_before},
    {"borrows_the_input", "memory", NULL, borrows_the_input},
    {"changes_the_input", "memory", NULL, changes_the_input},
    {"assumes_alignment", "memory", NULL, assumes_alignment},
    {"ignores_strides", "memory", NULL, ignores_strides},
    {0},
};
