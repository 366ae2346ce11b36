/* grpo_loss.asc.c - from log-probabilities of tokens to losses, or to the gradient of
 * log-probabilities; and log-probabilities by saved lse. There is one number a token here, against
 * V logits in the launches beside: pieces of tokens follow each other without overlap. A block has
 * whole sequences, and leaves its part of a sum; a second launch adds the parts in their order. */
#include "cross_entropy_gradient.h"
#include "grpo_policy.h"

/* A call, but for its options that are one number. */
static inline __aicore__ grpo_job grpo_job_of(ASC_PARAMS(GRPO_POLICY))
{
    grpo_job job = {0};
    job.policy = policy;
    job.flags = flags;
    job.forward = !dlogp;
    job.has_old = old_logp != 0;
    job.has_ref = ref_logp != 0;
    job.beta = asc_f32(beta);
    job.low = asc_f32(low);
    job.high = asc_f32(high);
    job.delta = asc_f32(delta);
    job.pos = asc_f32(pos);
    job.neg = asc_f32(neg);
    job.lambda_pos = asc_f32(lambda_pos);
    job.lambda_neg = asc_f32(lambda_neg);
    job.upstream = dloss && !(flags & GRPO_DLOSS_EACH) ? dloss[0] : 1.0f;
    job.logp = ASC_SCRATCH(logp);
    job.ratio = ASC_SCRATCH(ratio);
    job.each_upstream = ASC_SCRATCH(upstream);
    job.rho = ASC_SCRATCH(rho);
    job.loss = ASC_SCRATCH(loss);
    job.kl = ASC_SCRATCH(kl);
    job.clipped = ASC_SCRATCH(clipped);
    job.direct = ASC_SCRATCH(direct);
    job.by_rho = ASC_SCRATCH(by_rho);
    job.a = ASC_SCRATCH(a);
    job.b = ASC_SCRATCH(b);
    job.kept = ASC_UB(int32_t, kept_at, 0);
    job.rated = rated ? ASC_UB(int32_t, rated_at, 0) : job.kept;
    job.lanes = ASC_SCRATCH(lanes);
    job.value = ASC_SCRATCH(value);
    return job;
}

/* again: some tokens were computed anew. */
static inline __aicore__ grpo_memory grpo_memory_of(int again, ASC_PARAMS(GRPO_POLICY))
{
    grpo_memory m = {0};
    m.old = (__gm__ char *)old_logp;
    m.ref = (__gm__ char *)ref_logp;
    m.old_stride = old_logp_stride;
    m.ref_stride = ref_logp_stride;
    m.old_type = old_type;
    m.ref_type = ref_type;
    m.old_at = old_in_at;
    m.ref_at = ref_in_at;
    m.logp = logp;
    m.logp_again = again ? logp_again : 0;
    m.ratio = flags & GRPO_RATIO_EACH ? is_ratio : 0;
    m.ratio_stride = is_ratio_stride;
    m.upstream = flags & GRPO_DLOSS_EACH ? dloss : 0;
    m.upstream_stride = dloss_stride;
    m.length = columns;
    m.selected = selected;
    m.rated = rated;
    m.targets = ASC_UB(int64_t, selected_at, 0);
    m.rated_targets = rated ? ASC_UB(int64_t, rated_in_at, 0) : 0;
    m.again = ASC_SCRATCH(again);
    m.old32 = ASC_SCRATCH(old);
    m.ref32 = ASC_SCRATCH(ref);
    return m;
}

/* What the n tokens that are open, from `at` on, have of loss, clipped and kl leaves, or is added
 * to the block's sums. */
static inline __aicore__ void grpo_losses_out(const grpo_job *job, const grpo_sequence *s,
                                              __gm__ float *loss, __gm__ float *clipped,
                                              __gm__ float *kl, uint32_t n)
{
    grpo_clear_left_out(job, job->loss, n);
    grpo_clear_left_out(job, job->clipped, n);
    if (job->has_ref)
        grpo_clear_left_out(job, job->kl, n);
    asc_sync();
    grpo_loss_out(job, GRPO_LOSS, loss, job->loss, s->weight, n);
    grpo_loss_out(job, GRPO_CLIPPED, clipped, job->clipped, 1.0f, n);
    if (job->has_ref)
        grpo_loss_out(job, GRPO_KL, kl, job->kl, 1.0f, n);
}

ASC_KERNEL grpo_policy_f32(ASC_PARAMS(GRPO_POLICY))
{
    (void)tile_rows;
    asc_modes_set();
    asc_dcci_entire_all(); /* the scalar unit reads advantages, ratios, upstream */
    grpo_job job = grpo_job_of(ASC_NAMES(GRPO_POLICY));
    const float all = terms_share(counts, ASC_SCRATCH(counted), count_blocks);
    asc_sync(); /* the memory becomes that of the next */
    const float anew = terms_share(again_counts, ASC_SCRATCH(counted), again_blocks);
    const grpo_memory m = grpo_memory_of(again_blocks && anew != 0.0f, ASC_NAMES(GRPO_POLICY));
    for (int i = GRPO_LOSS; i <= GRPO_CLIPPED; i++)
        asc_duplicate(grpo_lanes(&job, i), 0.0f, ASC_LANES);
    for (int64_t b = asc_get_block_idx(); b < rows; b += asc_get_block_num()) {
        const grpo_sequence s = grpo_sequence_of(
            &job, &m, b, tile_columns, advantages[b],
            is_ratio && !(flags & GRPO_RATIO_EACH) ? is_ratio[b * is_ratio_stride] : 1.0f, weighs,
            asc_f32(weight), all);
        const float shared =
            dlogp && (flags & GRPO_SEQUENCE) ? grpo_shared(&job, &m, &s, b, tile_columns) : 0.0f;
        for (int64_t at = 0; at < columns; at += tile_columns) {
            const uint32_t n = (uint32_t)asc_min_of(tile_columns, columns - at);
            grpo_open(&job, &m, b, at, n);
            grpo_tokens(&job, &s, n);
            if (dlogp) {
                grpo_gradient(&job, &s, shared, n);
                asc_sync();
                asc_copy_ub2gm_align(dlogp + b * columns + at, job.direct, n * 4);
                continue;
            }
            grpo_losses_out(&job, &s, loss ? loss + b * loss_stride + at : 0,
                            clipped ? clipped + b * clipped_stride + at : 0,
                            kl ? kl + b * kl_stride + at : 0, n);
        }
    }
    if (sums)
        for (int i = 0; i < 3; i++) {
            asc_sync();
            terms_leave(sums + asc_get_block_idx() * GRPO_SUMS + i * TERMS_PARTIAL, job.value,
                        grpo_lanes(&job, GRPO_LOSS + i));
        }
    asc_modes_clear();
}

ASC_KERNEL grpo_total_f32(ASC_PARAMS(GRPO_TOTAL))
{
    __ubuf__ float *copy = ASC_SCRATCH(sums), *value = ASC_SCRATCH(value);
    float total[3] = {0.0f, 0.0f, 0.0f};
    (void)rows;
    (void)columns;
    (void)tile_rows;
    (void)tile_columns;
    asc_modes_set();
    const float share = asc_f32(mean) * terms_share(counts, ASC_SCRATCH(counted), count_blocks);
    if (blocks > 0)
        asc_copy_gm2ub_align(copy, sums, (uint32_t)(blocks * GRPO_SUMS * 4));
    asc_sync();
    for (int64_t b = 0; b < blocks; b++)
        for (int i = 0; i < 3; i++)
            total[i] += copy[b * GRPO_SUMS + i * TERMS_PARTIAL];
    value[0] = total[0];
    value[TERMS_PARTIAL] = total[1] * share;
    value[2 * TERMS_PARTIAL] = total[2] * share;
    asc_sync();
    asc_copy_ub2gm_align(loss, value, 4);
    if (kl)
        asc_copy_ub2gm_align(kl, value + TERMS_PARTIAL, 4);
    if (clipped)
        asc_copy_ub2gm_align(clipped, value + 2 * TERMS_PARTIAL, 4);
    asc_modes_clear();
}

#define ASC_TEMPLATE "losses/grpo_loss.asc.h"
#include "shared/asc_each_type.h"
