/* cross_entropy on the CPU: from tensors to rows, and the sums over rows. */
#include "core/parts.h"
#include "cross_entropy_gradient.h"

static void forward_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const ce_job *j = arg;
    for (int64_t row = begin; row < end; row++)
        forward_row(j, row, j->scratch + worker * j->at.total);
    if (j->stream)
        v_fence();
}

static void backward_rows(void *arg, int64_t begin, int64_t end, int worker)
{
    const ce_job *j = arg;
    for (int64_t row = begin; row < end; row++)
        backward_row(j, row, j->scratch + worker * j->at.total);
    if (j->stream)
        v_fence();
}

static ce_job job_of(const ce_options *o, const tg_tensor *logits, const tg_tensor *target,
                     const tg_tensor *class_weight, const tg_tensor *dloss,
                     const tg_tensor *dlogits)
{
    const tg_planes x = tg_planes_of(logits), dx = tg_planes_of(dlogits);
    ce_job j = {.logits = x, .dlogits = dx, .n = x.n, .type = (el)tg_el(x.type)};
    j.dtype = dlogits ? (el)tg_el(dx.type) : EL_F32;
    /* neighbouring rows to one worker: the end of a row prefetches the start of the next */
    j.chunk = x.rows / 256 + 16384 / (x.n + 1) + 1;
    j.stream = x.data != dx.data && tg_streams(dx.rows * dx.n * el_size(j.dtype));
    j.target = tg_data(target);
    j.weight = tg_data(class_weight);
    j.dloss = tg_data(dloss);
    j.o = *o;
    j.c = ce_count(o, j.target, x.rows, j.weight, TG_F32, x.n);
    return j;
}

static tg_status scratch_for(tg_ctx *ctx, ce_job *j)
{
    j->at = layout_of(j->keep ? j->n : 0, j->o.softcap > 0);
    j->scratch = tg_workspace(ctx, (size_t)(j->at.total * tg_ctx_threads(ctx)) * sizeof(float));
    return j->scratch ? TG_OK : TG_ENOMEM;
}

/* In row order, so that the sum does not depend on who computed the rows. */
static void reduce(const ce_job *j, int64_t rows, float *loss, float *z_loss, float *accuracy)
{
    double ce = 0, z = 0, hits = 0;
    for (int64_t r = 0; r < rows; r++) {
        ce += j->ce[r];
        z += j->z[r];
        hits += j->accuracy ? j->accuracy[r] : 0;
    }
    loss[0] = (float)(ce * j->c.per_ce + z * j->c.per_z);
    if (z_loss)
        z_loss[0] = (float)(z * j->c.per_z);
    if (accuracy)
        accuracy[0] = j->c.n ? (float)(hits / (double)j->c.n) : 0;
}

static void each_row(const ce_job *j, int64_t rows, float *loss, float *z_loss)
{
    for (int64_t r = 0; r < rows; r++) {
        loss[r] = (float)(j->ce[r] + j->z[r]);
        if (z_loss)
            z_loss[r] = (float)j->z[r];
    }
}

static tg_status forward(tg_ctx *ctx, const tg_cross_entropy_forward_args *args)
{
    const ce_options o = CE_OPTIONS(args);
    const int64_t rows = tg_numel(args->target);
    const int each = o.reduction == TG_NONE;
    ce_job j =
        job_of(&o, args->logits, args->target, args->class_weight, args->dloss, args->dlogits);
    j.lse = tg_data(args->lse);
    j.predicted = tg_data(args->predicted);
    j.accuracy = tg_data(args->accuracy);
    j.ce = tg_workspace(ctx, (size_t)(rows + 1) * (2 * sizeof(double) + sizeof(float)));
    if (!j.ce)
        return TG_ENOMEM;
    j.z = j.ce + rows;
    if (j.accuracy && !each)
        j.accuracy = (float *)(j.z + rows);
    j.keep = args->dlogits && j.n <= CE_KEPT;
    TG_TRY(scratch_for(ctx, &j));
    if (tg_reserving(ctx))
        return TG_OK;
    tg_parallel_for(ctx, rows, j.chunk, forward_rows, &j);
    if (each)
        each_row(&j, rows, tg_data(args->loss), tg_data(args->z_loss));
    else
        reduce(&j, rows, tg_data(args->loss), tg_data(args->z_loss), tg_data(args->accuracy));
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_cross_entropy_backward_args *args)
{
    const ce_options o = CE_OPTIONS(args);
    ce_job j =
        job_of(&o, args->logits, args->target, args->class_weight, args->dloss, args->dlogits);
    j.saved = tg_data(args->lse);
    TG_TRY(scratch_for(ctx, &j));
    if (tg_reserving(ctx))
        return TG_OK;
    tg_parallel_for(ctx, tg_numel(args->target), j.chunk, backward_rows, &j);
    return TG_OK;
}

TG_CPU_IMPLS(cross_entropy) = {
    TG_CPU_IMPL_IF(cross_entropy_forward, TG_TAKES_FLOATS | TG_TAKES_PLANES, NULL, forward),
    TG_CPU_IMPL_IF(cross_entropy_backward, TG_TAKES_FLOATS | TG_TAKES_PLANES, NULL, backward),
    TG_IMPLS_END};
