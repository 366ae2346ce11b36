/* tools/tigon/check/kinds/memory.c - memory beside the operands: other strides and starts,
 * and tensors that end where their page ends or begin where it begins, between pages that
 * nobody may touch. */
#include <stdlib.h>
#include <string.h>

#include "kinds.h"
#include "share/impl_device.h"

enum { BASES = 6 };

/* Rows apart by an odd number of elements, and a start that is a multiple of nothing. */
static void try_layouts(trier *t, const base *b)
{
    static const int layouts[][2] = {{1, 0}, {0, 1}, {5, 3}, {24, 8}};
    for (int i = 0; i < 4; i++) {
        pb_case c = b->c;
        kinds_set_int(&c, "pad", layouts[i][0]);
        kinds_set_int(&c, "offset", layouts[i][1]);
        kinds_check(t, &c, b->type);
    }
}

static void try_pages(trier *t, const base *b, int at_end)
{
    char error[PB_ERROR], where[256];
    const uint64_t seed = (uint64_t)t->ck->s.seed;
    problem *p = kinds_problem(t, &b->c, b->type, seed);
    truth *truth = p ? truth_create(t->ck->judge, p, seed, error) : NULL;
    pages *g = truth ? pages_place(p, at_end) : NULL;
    if (g) {
        const tg_status status = problem_run_args(t->ck->ctx, t->impl, pages_args(g));
        pages_fetch(g);
        if (status && status != TG_EUNSUPPORTED)
            kinds_failed(t, &b->c, b->type, "%s: %s", tg_status_name(status), tg_last_error());
        else if (pages_touched(g, where, sizeof where))
            kinds_failed(t, &b->c, b->type, "a call touches %s", where);
        else if (!status) {
            const outcome o = check_written(t->ck->ctx, t->impl, p, truth);
            if (o.verdict == PASSED)
                kinds_passed(t);
            else
                kinds_failed(t, &b->c, b->type, "with buffers of their own pages: %s", o.why);
        }
    }
    pages_free(g);
    truth_free(truth);
    problem_free(p);
}

void kind_memory(trier *t)
{
    const int host = impl_memory(t->ck->ctx, t->impl) == TG_DEVICE_CPU;
    for (int k = 0; k < DATA_TYPES; k++) {
        const base *from[BASES], *rich = bases_richest(t, data_types[k]);
        const int n = bases_of(t, data_types[k], from, BASES);
        for (int i = 0; i <= n; i++) {
            const base *b = i < n ? from[i] : rich;
            if (!b)
                continue;
            try_layouts(t, b);
            for (int at_end = 0; host && at_end < 2; at_end++)
                try_pages(t, b, at_end);
        }
    }
}
