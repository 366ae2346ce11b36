/* tools/tigon/check/kinds/range.c - results at the ends of a type's range: beyond its largest
 * number, subnormal, NaN. */
#include <math.h>
#include <string.h>

#include "kinds.h"

/* Of f16 large inputs suffice for results beyond 65504; f32 and bf16 have the same range, whose end
 * intermediates would meet as well: only NaN and small values are tried there. */
static const struct {
    const char *fill;
    int f16_only;
} fills[] = {{"nan", 0}, {"tiny", 0}, {"large", 1}};

static int takes_fill(const trier *t, int tensor, const pb_case *c)
{
    const pb_decl *d = &t->op->tensor[tensor];
    const tg_arg_info *a = &t->op->info->args[d->slot];
    const int is_input = a->kind == TG_ARG_IN || a->kind == TG_ARG_OPT;
    return is_input && !pb_is_integer(d) && !d->fill[0] && !pb_case_drops(c, d->name);
}

static void try_fill(trier *t, const base *b, const char *fill)
{
    pb_case all = b->c;
    pb_case_remove(&all, PB_FILL, NULL);
    for (int i = 0; i < t->op->ntensors; i++) {
        pb_case c = b->c;
        if (!takes_fill(t, i, &c))
            continue;
        pb_case_remove(&c, PB_FILL, t->op->tensor[i].name);
        pb_case_add(&c, PB_FILL, t->op->tensor[i].name, fill);
        pb_case_add(&all, PB_FILL, t->op->tensor[i].name, fill);
        kinds_check(t, &c, b->type);
    }
    kinds_check(t, &all, b->type);
}

/* Products of bf16 may read subnormals as 0: where the family's cases allow it, so do these. */
static int may_flush(const trier *t)
{
    for (int i = 0; i < t->ck->cat->ncases; i++)
        if (pb_case_is_for(t->op, &t->ck->cat->cases[i]) &&
            pb_case_flag(&t->ck->cat->cases[i], "daz"))
            return 1;
    return 0;
}

void kind_range(trier *t)
{
    for (int k = 0; k < DATA_TYPES; k++) {
        const base *rich = bases_richest(t, data_types[k]);
        base b = rich ? *rich : (base){0};
        if (rich && may_flush(t))
            pb_case_add(&b.c, PB_FLAG, "daz", "");
        for (size_t i = 0; rich && i < sizeof fills / sizeof *fills; i++)
            if (!fills[i].f16_only || b.type == TG_F16)
                try_fill(t, &b, fills[i].fill);
    }
}
