/* tools/tigon/check/batch_cases.c - `tigon check --batch-invariant`: the implementations of an
 * operator with a case, in each of its sizes that count rows. */
#include <stdio.h>
#include <string.h>
#include <tigon/backend.h>

#include "batch.h"
#include "checker.h"

/* An implementation that promises nothing is no failure; what is found of it is told. */
static outcome try_without_promise(checker *ck, int impl, batch *b)
{
    tg_ctx_set_batch_invariant(ck->ctx, 0);
    outcome o = batch_check(ck->ctx, impl, b, &ck->s);
    tg_ctx_set_batch_invariant(ck->ctx, 1);
    char why[CHECK_WHY];
    snprintf(why, sizeof why, "%.600s", o.why);
    snprintf(o.why, sizeof o.why, "promises nothing; %.600s",
             o.verdict == PASSED ? "no bit differs" : why);
    o.verdict = SKIPPED;
    return o;
}

/* All implementations of one operator with the rows of one size. */
static void check_rows(checker *ck, const pb_case *c, batch *b, const int *impls, int nimpls)
{
    for (int i = 0; i < nimpls; i++) {
        const char *ceiling[CEILINGS];
        const int n = ceilings_of(&ck->under, ck->ctx, impls[i], ceiling);
        for (int k = 0; k < n; k++) {
            ceilings_set(ck->ctx, ceiling[k]);
            const int promises = (tg_impl_at(impls[i])->takes & TG_BATCH_INVARIANT) != 0;
            if (promises ? !tg_impl_supported(ck->ctx, impls[i]) : !ck->s.verbose)
                continue;
            outcome o = promises ? batch_check(ck->ctx, impls[i], b, &ck->s)
                                 : try_without_promise(ck, impls[i], b);
            checker_record(ck, impls[i], b->whole->type, o.verdict == FAILED ? &b->c : c, &o);
        }
        ceilings_set(ck->ctx, NULL);
    }
}

/* On a device, rows of a product are its result's, which the first factor has as rows, too. */
static int has_rows(const checker *ck, const pb_op *op, const pb_case *c, const batch_axis *axis)
{
    if (!strcmp(checker_device(ck), "cpu") || !strstr(op->group, "gemm"))
        return 1;
    return strcmp(axis->size, "N") && !(!strcmp(axis->size, "M") && pb_case_value(c, "trans_a"));
}

void checker_batches(checker *ck, const pb_op *op, const pb_case *c, const int *impls, int nimpls)
{
    char error[PB_ERROR];
    batch_axis axis[BATCH_AXES];
    const int n = batch_axes(op, axis);
    for (int k = 0; k < DATA_TYPES; k++)
        for (int i = 0; i < n && checker_takes(ck, c, data_types[k]); i++) {
            if (!has_rows(ck, op, c, &axis[i]))
                continue;
            pb_options options = checker_options(ck, data_types[k]);
            options.most = ck->s.quick ? QUICK_BYTES : 0;
            batch *b = batch_create(ck->cat, op, &axis[i], c, &options, error);
            if (b)
                check_rows(ck, c, b, impls, nimpls);
            batch_free(b);
        }
}
