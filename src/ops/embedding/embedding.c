/* embedding: what the arguments must be. */
#include "core/services.h"

/* t has the shape of indices followed by the width of the table. */
static tg_status expect_looked_up(const char *op, const char *name, const tg_tensor *t,
                                  const tg_tensor *indices, const tg_tensor *table,
                                  const char *table_name)
{
    int same = t->ndim == indices->ndim + 1 && t->shape[t->ndim - 1] == table->shape[1];
    for (int i = 0; same && i < indices->ndim; i++)
        same = t->shape[i] == indices->shape[i];
    if (__builtin_expect(same, 1))
        return TG_OK;
    char found[128], index_text[128], table_text[128];
    return tg_fail(TG_EINVAL,
                   "%s: %s is %s, expected the shape of indices, %s, and then the width of %s, %s",
                   op, name, tg_describe(t, found, sizeof found),
                   tg_describe(indices, index_text, sizeof index_text), table_name,
                   tg_describe(table, table_text, sizeof table_text));
}

tg_status tg_check_embedding_forward(const tg_embedding_forward_args *args)
{
    static const char op[] = "embedding_forward";
    TG_TRY(tg_expect_ndim(op, "weight", args->weight, 2));
    TG_TRY(expect_looked_up(op, "y", args->y, args->indices, args->weight, "weight"));
    return tg_expect_indices(op, "indices", args->indices, args->weight->shape[0], NULL);
}

tg_status tg_check_embedding_backward(const tg_embedding_backward_args *args)
{
    static const char op[] = "embedding_backward";
    TG_TRY(tg_expect_ndim(op, "dweight", args->dweight, 2));
    TG_TRY(expect_looked_up(op, "dy", args->dy, args->indices, args->dweight, "dweight"));
    return tg_expect_indices(op, "indices", args->indices, args->dweight->shape[0], NULL);
}
