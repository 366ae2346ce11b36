/* embedding, reference: the definition, element by element. */
#include "core/services.h"

static tg_status forward(tg_ctx *ctx, const tg_embedding_forward_args *args)
{
    (void)ctx;
    const tg_rows weight = tg_rows_of(args->weight), y = tg_rows_of(args->y);
    const int64_t *index = tg_data(args->indices);
    for (int64_t i = 0; i < y.rows; i++)
        for (int64_t j = 0; j < y.n; j++)
            tg_set(y.data, y.type, i * y.stride + j,
                   tg_get(weight.data, weight.type, index[i] * weight.stride + j));
    return TG_OK;
}

/* Each row of dweight is the sum in double over the list of its positions. */
static tg_status backward(tg_ctx *ctx, const tg_embedding_backward_args *args)
{
    const tg_rows dy = tg_rows_of(args->dy), dweight = tg_rows_of(args->dweight);
    const int64_t *index = tg_data(args->indices);
    double *sum = tg_workspace(ctx, (size_t)dweight.n * sizeof *sum + 1);
    /* where in indices the next position with the same value is; the heads of the lists by value */
    int64_t *head = tg_workspace(ctx, (size_t)dweight.rows * sizeof *head + 1);
    int64_t *next = tg_workspace(ctx, (size_t)dy.rows * sizeof *next + 1);
    if (!sum || !head || !next)
        return TG_ENOMEM;
    for (int64_t v = 0; v < dweight.rows; v++)
        head[v] = -1;
    for (int64_t i = dy.rows - 1; i >= 0; i--) {
        next[i] = head[index[i]];
        head[index[i]] = i;
    }
    for (int64_t v = 0; v < dweight.rows; v++) {
        if (args->accumulate && head[v] < 0)
            continue; /* keeps its bits */
        for (int64_t j = 0; j < dweight.n; j++)
            sum[j] =
                args->accumulate ? tg_get(dweight.data, dweight.type, v * dweight.stride + j) : 0.0;
        for (int64_t i = head[v]; i >= 0; i = next[i])
            for (int64_t j = 0; j < dweight.n; j++)
                sum[j] += tg_get(dy.data, dy.type, i * dy.stride + j);
        for (int64_t j = 0; j < dweight.n; j++)
            tg_set(dweight.data, dweight.type, v * dweight.stride + j, sum[j]);
    }
    return TG_OK;
}

TG_REF_IMPLS(embedding) = {
    TG_REF_IMPL(embedding_forward, forward),
    TG_REF_IMPL(embedding_backward, backward),
    TG_IMPLS_END,
};
