/* flash_shares.h - the units of the sequences of a kernel's problem; see flash_units.h. */
#ifndef FLASH_SHARES_H
#define FLASH_SHARES_H

#include "flash_sequences.h"
#include "flash_units.h"

/* The weight of a unit of packed rows: something of its own, and its products. */
static inline __aicore__ int64_t flash_weight_of(const flash_units *u, int64_t rows)
{
    enum { OWN = 4 };
    const flash_sequence *s = &u->of;
    const int64_t queries = asc_min_of(s->query_end - s->query, u->chunk);
    const int64_t keys = asc_min_of(s->key_end - s->key, u->tile);
    return OWN + (queries + rows - 1) / rows * ((keys + ASC_LANES - 1) / ASC_LANES);
}

static inline __aicore__ void flash_units_at(const flash_problem *f, flash_units *u, int64_t i)
{
    u->sequence = i;
    flash_units_take(u, flash_sequence_at(f, i));
    if (f->ends_q)
        u->weight = flash_weight_of(u, 2 * f->half);
}

/* The next sequence. */
static inline __aicore__ void flash_units_on(const flash_problem *f, flash_units *u)
{
    u->first += flash_numbers_of(u);
    if (f->ends_q)
        flash_units_at(f, u, u->sequence + 1);
    else /* as the one before */
        u->of.batch = ++u->sequence;
}

/* To the sequence of the first unit that begins with a number, of an earlier one: or else with the
 * next, which the number becomes. */
static inline __aicore__ void flash_units_to(const flash_problem *f, flash_units *u,
                                             int64_t *number)
{
    while (u->sequence<f->sequences && * number> u->first + flash_numbers_of(u) - u->weight) {
        flash_units_on(f, u);
        *number = *number < u->first ? u->first : *number;
    }
}

/* All of them, at the first sequence. */
static inline __aicore__ flash_units flash_units_begin(const flash_problem *f, int64_t cores)
{
    flash_units u = flash_units_of(f->heads / f->shared, f->shared, 2 * f->half, f->tile);
    flash_units_at(f, &u, 0);
    flash_units all = u;
    while (f->ends_q && all.sequence + 1 < f->sequences)
        flash_units_on(f, &all);
    flash_share_out(
        &u, f->ends_q ? all.first + flash_numbers_of(&all) : flash_numbers_of(&u) * f->sequences,
        cores);
    return u;
}

#endif
