/* embedding as an eager framework runs it: index_select forward; backward fills with zeros and then
 * adds one row after the other, in the type of dweight. */
#include <string.h>

#include "eager.h"

enum { CHUNK = 32768 }; /* elements */

static mat row_at(mat m, int64_t i)
{
    m.data = element_at(m.data, m.type, i * m.stride);
    m.rows = 1;
    return m;
}

typedef struct selection {
    mat table, y;
    const int64_t *index;
} selection;

static void select_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const selection *s = arg;
    for (int64_t i = begin; i < end && s->y.cols > 0;
         i++) /* without columns there may be no memory */
        memcpy(row_at(s->y, i).data, row_at(s->table, s->index[i]).data,
               (size_t)s->y.cols * tg_type_size(s->y.type));
}

static tg_status forward(tg_ctx *ctx, const tg_embedding_forward_args *args)
{
    selection s = {eager_rows(args->weight), eager_rows(args->y), tg_data(args->indices)};
    const int64_t cols = s.y.cols > 0 ? s.y.cols : 1;
    unfused_host->parallel_for(ctx, s.y.rows, cols < CHUNK ? CHUNK / cols : 1, select_rows, &s);
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_embedding_backward_args *args)
{
    eager e = eager_begin(ctx);
    const mat dy = eager_rows(args->dy), dweight = eager_rows(args->dweight);
    const int64_t *index = tg_data(args->indices);
    if (!args->accumulate)
        eager_fill(&e, dweight, 0.0);
    for (int64_t i = 0; i < dy.rows; i++) {
        const mat row = row_at(dweight, index[i]);
        eager_binary(&e, EAGER_ADD, row, row, row_at(dy, i));
    }
    return eager_end(&e);
}

UNFUSED_IMPLS(embedding) = {
    UNFUSED_IMPL(embedding_forward, forward),
    UNFUSED_IMPL(embedding_backward, backward),
    TG_IMPLS_END,
};
