/* softmax_kl_div on the CPU: from tensors to rows, and the sum over rows. */
#include "softmax_kl_div_cpu.h"

#include <string.h>

#include "core/parts.h"
#include "rows/next.h"
#include "rows/rows.h"
#include "softmax_kl_div.h"

typedef struct job {
    const skl *f;
    operand logits, target, dlogits;
    skl_row row;           /* but for where it is */
    skl_gradient gradient; /* the same */
    int near;              /* a row, its gradient and the next row fit the second cache */
    double *row_loss;      /* of each row */
} job;

static void run_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const job *j = arg;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        skl_row r = j->row;
        skl_gradient g = j->gradient;
        skl_sums s;
        g.out = j->f->dlogits ? row_at(&j->dlogits, i) : NULL;
        j->row_loss[i] = 0;
        if (r.n && !batch_ignores(&j->f->batch, i)) {
            r.x = row_at(&j->logits, i);
            r.target = row_at(&j->target, i);
            if (j->near && i + 1 < end) {
                r.next_x = row_at(&j->logits, i + 1);
                r.next_target = row_at(&j->target, i + 1);
            }
            skl_sum_row(&r, &s);
            j->row_loss[i] = skl_finish_row(&r, &s, &g);
        } else if (g.out && r.n) {
            memset(g.out, 0, (size_t)(r.n * el_size(g.type)));
        }
    }
    if (j->gradient.stream)
        v_fence();
}

/* 1 if the gradient goes past the cache: all types are the same, and all rows whole vectors. */
static int streams(const skl *f)
{
    const tg_rows out = tg_rows_of(f->dlogits);
    const int type = tg_type_of(f->logits);
    if (!f->dlogits || tg_type_of(f->target) != type || tg_type_of(f->dlogits) != type)
        return 0;
    const int64_t size = el_size(el_of(f->logits));
    return out.data != tg_data(f->target) && out.stride % VL == 0 &&
           v_streamable(el_of(f->logits), out.data) &&
           rows_stream(out.rows * out.n * size, out.data, tg_data(f->logits));
}

static job job_of(const skl *f, double scale)
{
    const double dloss = f->dloss ? *(const float *)tg_data(f->dloss) : 1;
    job j = {.f = f,
             .logits = operand_of(f->logits),
             .target = operand_of(f->target),
             .dlogits = operand_of(f->dlogits),
             .row = {.type = el_of(f->logits),
                     .target_type = el_of(f->target),
                     .n = f->batch.n,
                     .degree = (float)(1 / f->temperature),
                     .eps = (float)f->eps},
             .gradient = {.type = f->dlogits ? el_of(f->dlogits) : EL_F32,
                          .scale = dloss * scale / f->temperature * f->grad_scale,
                          .losses = f->loss != NULL,
                          .stream = streams(f)}};
    j.near = j.row.n * (2 * (el_size(j.row.type) + el_size(j.row.target_type)) +
                        (f->dlogits ? el_size(j.gradient.type) : 0)) <=
             NEXT_ROOM;
    /* the tail of a sharp softmax, whose products would be subnormal, which is slow; below
     * 2^-26, f16 has nothing */
    j.gradient.floor = j.gradient.type == EL_F16 ? 0x1p-26f : 0x1p-110f;
    return j;
}

static tg_status run(tg_ctx *ctx, const skl *f)
{
    const int64_t rows = f->batch.rows;
    const double scale = skl_scale(f);
    job j = job_of(f, scale);
    j.row_loss = tg_workspace(ctx, (size_t)(rows + 1) * sizeof(double));
    if (!j.row_loss)
        return TG_ENOMEM;
    if (tg_reserving(ctx))
        return TG_OK;
    tg_parallel_for(ctx, rows, rows_grain(rows, f->batch.n, 1), run_rows, &j);
    double loss = 0; /* in the order of the rows, whoever computed them */
    for (int64_t r = 0; r < rows; r++)
        loss += j.row_loss[r];
    if (f->loss)
        *(float *)tg_data(f->loss) = (float)(loss * scale);
    return TG_OK;
}

static tg_status forward(tg_ctx *ctx, const tg_softmax_kl_div_forward_args *args)
{
    const skl f = skl_forward(args);
    return run(ctx, &f);
}

static tg_status backward(tg_ctx *ctx, const tg_softmax_kl_div_backward_args *args)
{
    const skl f = skl_backward(args);
    return run(ctx, &f);
}

TG_CPU_IMPLS(softmax_kl_div) = {TG_CPU_IMPL(softmax_kl_div_forward, forward),
                                TG_CPU_IMPL(softmax_kl_div_backward, backward), TG_IMPLS_END};
