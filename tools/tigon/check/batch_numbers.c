/* tools/tigon/check/batch_numbers.c - integers of a part of a batch that count its rows, or number
 * them: the experts' rows of grouped products. */
#include <stdlib.h>
#include <string.h>

#include "batch.h"

/* grouped_gemm: the rows of the groups before each. */
static int offsets(const batch *b, const batch_part *part)
{
    const pb_tensor *from = problem_tensor(b->whole, "offset"),
                    *to = problem_tensor(part->p, "offset");
    for (int64_t e = 0; e < tg_numel(&to->view); e++) {
        const double rows = pb_get(from, e) - (double)part->first;
        pb_set(to, e, rows < 0 ? 0 : rows > (double)part->rows ? (double)part->rows : rows);
    }
    return 0;
}

/* fused_moe_backward: where the experts' rows of the part's tokens stand. Places keep their order,
 * and those of other tokens fall out. */
static int places(const batch *b, const batch_part *part)
{
    const pb_tensor *whole_place = problem_tensor(b->whole, "place"),
                    *place = problem_tensor(part->p, "place");
    const pb_tensor *slot = problem_tensor(part->p, "slot"),
                    *offset = problem_tensor(part->p, "offset");
    const pb_tensor *pre = problem_tensor(part->p, "pre"),
                    *whole_pre = problem_tensor(b->whole, "pre");
    const int64_t all = tg_numel(&whole_place->view), n = tg_numel(&place->view);
    if (n == 0)
        return 0;
    const int64_t k = n / part->rows, columns = pre ? tg_numel(&pre->view) / n : 0;
    const int64_t skipped = part->first * k;
    int64_t *old = calloc((size_t)all + 1, sizeof *old); /* the part's rows before an old place */
    if (!old)
        return -1;
    for (int64_t i = 0; i < n; i++) {
        const double at = pb_get(whole_place, skipped + i);
        if (at < 0) {
            free(old);
            return -1; /* dropped by a capacity */
        }
        old[(int64_t)at + 1] = 1;
    }
    for (int64_t i = 0; i < all; i++)
        old[i + 1] += old[i];
    for (int64_t i = 0; i < n; i++) {
        const int64_t from = (int64_t)pb_get(whole_place, skipped + i), to = old[from];
        pb_set(place, i, (double)to);
        pb_set(slot, to, (double)i);
        for (int64_t c = 0; c < columns; c++)
            pb_set(pre, to * columns + c, pb_get(whole_pre, from * columns + c));
    }
    for (int64_t e = 0; e < tg_numel(&offset->view); e++)
        pb_set(offset, e, (double)old[(int64_t)pb_get(problem_tensor(b->whole, "offset"), e)]);
    free(old);
    return 0;
}

int batch_renumber(const batch *b, const batch_part *part)
{
    if (!strcmp(b->op->group, "grouped_gemm"))
        return offsets(b, part);
    if (!strcmp(b->op->info->name, "fused_moe_backward"))
        return places(b, part);
    return 0;
}
