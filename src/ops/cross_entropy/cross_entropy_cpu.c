/* cross_entropy on the CPU: from tensors to rows, and the sums over rows. */
#include "cross_entropy_cpu.h"
#include "core/parts.h"

/* ---- a row ---- */

static void zero_row(const ce_job *j, char *dx)
{
    if (j->n) /* there may be no memory otherwise */
        memset(dx, 0, (size_t)(j->n * el_size(j->dtype)));
}

/* ce of a row whose target has the weight w, not yet divided. */
static double row_loss(const ce_job *j, const ce_row *r, double w)
{
    const double ce = (1 - j->o.smoothing) * w * r->base;
    if (j->o.smoothing == 0)
        return ce;
    return ce + ce_smooth_share(&j->o, j->n) * (j->c.class_weights * r->above - r->wx);
}

/* What a slice adds to ce beside the terms of lse; hit: it has the target. */
static double slice_loss(const ce_job *j, const ce_row *r, int hit)
{
    const double ce = hit ? -(1 - j->o.smoothing) * r->x_y : 0;
    if (j->o.smoothing == 0)
        return ce;
    return ce - ce_smooth_share(&j->o, j->n) * r->wx;
}

static void forward_row(const ce_job *j, int64_t row, float *scratch)
{
    const char *x = tg_plane_row(&j->logits, row);
    char *dx = j->dlogits.data ? tg_plane_row(&j->dlogits, row) : NULL;
    const int64_t y = j->target[row];
    ce_row r;
    j->ce[row] = j->z[row] = 0;
    r.lse = 0;
    r.best = -1;
    if (y != j->o.ignore_index) {
        const int64_t place = slice_place(j->o.slice, y, j->n);
        ce_add_row(j, x, place < 0 ? 0 : place, scratch, &r);
        const double f = j->o.token_scaling ? r.p : 1, w = j->weight ? j->weight[y] : 1;
        if (j->o.slice.all) {
            j->ce[row] = slice_loss(j, &r, place >= 0);
        } else {
            j->ce[row] = f * row_loss(j, &r, w);
            j->z[row] = j->o.z != 0 ? f * j->o.z * r.lse * r.lse : 0;
        }
        if (dx)
            ce_write_gradient(j, row, &r, f, dx, scratch);
    } else if (dx) {
        zero_row(j, dx);
    }
    if (j->lse)
        j->lse[row] = (float)r.lse;
    if (j->predicted)
        j->predicted[row] = r.best;
    if (j->accuracy)
        j->accuracy[row] = r.best == y && y != j->o.ignore_index;
}

static void backward_row(const ce_job *j, int64_t row, float *scratch)
{
    const char *x = tg_plane_row(&j->logits, row);
    char *dx = tg_plane_row(&j->dlogits, row);
    const int64_t y = j->target[row];
    if (y == j->o.ignore_index) {
        zero_row(j, dx);
        return;
    }
    ce_row r;
    const int64_t place = slice_place(j->o.slice, y, j->n);
    ce_row_of_lse(j, x, place < 0 ? 0 : place, j->saved[row], scratch, &r);
    ce_write_gradient(j, row, &r, j->o.token_scaling ? r.p : 1, dx, scratch);
}

/* ---- calls ---- */

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

/* kept: how many exponentials, and slopes of softcap, wait for the gradient. */
static ce_layout layout_of(int64_t kept, int capped)
{
    const int64_t line = 16, room = kept > EXPS_BLOCK ? kept : EXPS_BLOCK;
    const int64_t padded = (room + VL - 1) / line * line + 2 * line;
    ce_layout l = {0};
    l.slope = l.p + padded;
    l.capped = l.slope + (capped ? padded : 0);
    l.from = l.capped + (capped ? EXPS_BLOCK + VL : 0);
    l.total = (l.from + kept / EXPS_BLOCK + 2 + line) / line * line;
    return l;
}

static ce_job job_of(const ce_options *o, const tg_tensor *logits, const tg_tensor *target,
                     const tg_tensor *counted, const tg_tensor *class_weight,
                     const tg_tensor *dloss, const tg_tensor *dlogits)
{
    const tg_planes x = tg_planes_of(logits), dx = tg_planes_of(dlogits);
    ce_job j = {.logits = x, .dlogits = dx, .n = x.n, .type = (el)tg_el(x.type)};
    j.dtype = dlogits ? (el)tg_el(dx.type) : EL_F32;
    j.chunk = rows_grain(x.rows, x.n, 1);
    j.stream = rows_stream(dx.rows * dx.n * el_size(j.dtype), dx.data, x.data);
    j.target = tg_data(target);
    j.weight = tg_data(class_weight);
    j.dloss = tg_data(dloss);
    j.o = *o;
    j.c = ce_count(o, counted, j.weight, TG_F32, x.n);
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
    ce_job j = job_of(&o, args->logits, args->target, CE_COUNTED(args), args->class_weight,
                      args->dloss, args->dlogits);
    j.lse = tg_data(args->lse);
    j.predicted = tg_data(args->predicted);
    j.accuracy = tg_data(args->accuracy);
    j.ce = tg_workspace(ctx, (size_t)(rows + 1) * (2 * sizeof(double) + sizeof(float)));
    if (!j.ce)
        return TG_ENOMEM;
    j.z = j.ce + rows;
    if (j.accuracy && !each)
        j.accuracy = (float *)(j.z + rows);
    j.keep = args->dlogits && j.n <= KEPT;
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
    ce_job j = job_of(&o, args->logits, args->target, CE_COUNTED(args), args->class_weight,
                      args->dloss, args->dlogits);
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
