/* cross_entropy_ring.h - what of cross_entropy's rows in pieces is of no type; see
 * cross_entropy.asc.c. */
#ifndef CROSS_ENTROPY_RING_H
#define CROSS_ENTROPY_RING_H

#include "cross_entropy.args.h"
#include "cross_entropy_best.h"
#include "cross_entropy_gradient.h"
#include "cross_entropy_results.h"

/* Where the results go: of every row, or NULL. */
typedef struct ce_outputs {
    __gm__ float *lse, *loss, *z_loss, *accuracy;
    __gm__ int64_t *predicted;
    __ubuf__ int64_t *predictions;
} ce_outputs;

static inline __aicore__ void ce_put(__gm__ float *to, const ce_job *job, int lanes, int64_t rows)
{
    if (to)
        asc_copy_ub2gm_align(to, ce_at(job, lanes), (uint32_t)(rows * 4));
}

/* Once in CE_BATCH rows, so that a barrier of all pipes is cheap. */
static inline __aicore__ void ce_end_batch(const ce_job *job, const ce_outputs *out, int64_t row,
                                           int64_t rows)
{
    ce_results(job);
    asc_sync();
    ce_put(out->lse ? out->lse + row : out->lse, job, CE_ROWS_LSE, rows);
    ce_put(out->loss + row, job, CE_ROWS_LOSS, rows);
    ce_put(out->z_loss ? out->z_loss + row : out->z_loss, job, CE_ROWS_Z, rows);
    ce_put(out->accuracy ? out->accuracy + row : out->accuracy, job, CE_ROWS_RIGHT, rows);
    if (out->predicted)
        asc_copy_ub2gm_align(out->predicted + row, out->predictions, (uint32_t)(rows * 8));
    asc_sync();
}

/* The scalar part of a row: all that does not depend on its logits. */
static inline __aicore__ ce_row ce_row_of(const ce_job *job, int64_t row, __gm__ int64_t *target,
                                          __gm__ float *class_weight, __gm__ float *dloss,
                                          __gm__ float *lse)
{
    ce_row r = {0};
    r.target = target[row];
    if (r.target == job->ignore_index)
        return r;
    const float g = job->grad_scale * (dloss ? dloss[job->flags & CE_EACH ? row : 0] : 1.0f);
    const float smooth = job->smoothing == 0.0f /* whatever g is */
                             ? 0.0f
                             : g * (job->smoothing / (float)job->columns) * job->per_ce;
    r.weight = class_weight ? class_weight[r.target] : 1.0f;
    r.hit = g * (1.0f - job->smoothing) * r.weight * job->per_ce;
    r.bias = smooth;
    r.smooth = smooth * job->class_weights;
    r.z = job->z == 0.0f ? 0.0f : 2.0f * g * job->z * job->per_z;
    r.lse = job->flags & (CE_SAVED | CE_TRIED) ? lse[row] : 0.0f;
    return r;
}

/* The block HIT, after softcap with its slope, from the element that came with the first piece. */
static inline __aicore__ void ce_take_hit(const ce_job *job, __ubuf__ float *element)
{
    asc_spread(ce_at(job, CE_HIT), element, 1);
    if (job->softcap > 0.0f) {
        ASC_THEN();
        ce_cap(ce_at(job, CE_HIT), ce_at(job, CE_HIT_SLOPE), ce_at(job, CE_HIT_SCRATCH),
               ce_at(job, CE_HIT), job->softcap, 1, 8);
    }
}

#endif
