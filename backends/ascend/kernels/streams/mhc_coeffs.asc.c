/* mhc_coeffs.asc.c - coefficients of tokens from the products of their rows with phi, and from
 * their gradients those of the products. Arithmetic is f32 in UB, where a tile's matrices stay
 * until the last step: of the steps nothing goes to memory. */
#include "mhc_coeffs.h"

/* ---- forward ---- */

/* numbers: of tokens as memory has them; x: of lines; out: what leaves. */
typedef struct mhc_forward {
    mhc_tile t;
    float alpha[3];
    __ubuf__ uint32_t *to_lines, *to_out;
    __ubuf__ float *numbers, *rstd, *ones, *spread, *x, *sums, *out;
} mhc_forward;

static inline __aicore__ void mhc_forward_begin(mhc_forward *f)
{
    mhc_tile *t = &f->t;
    f->to_lines = mhc_table_in(t, t->streams + 2, t->together);
    __ubuf__ int32_t *table = (__ubuf__ int32_t *)mhc_take(t, t->apart);
    mhc_first_token(t, table, 0, 1);
    mhc_first_token(t, table + t->line, 1, 1);
    mhc_first_token(t, table + 2 * t->line, 2, t->streams);
    f->to_out = mhc_table_out(t, table, t->apart);
    f->numbers = mhc_take(t, t->together);
    f->rstd = mhc_take(t, 1);
    f->ones = mhc_take(t, 1);
    f->spread = mhc_take(t, 8);
    f->x = mhc_take(t, MHC_COLUMNS(t->streams));
    f->sums = mhc_take(t, t->streams);
    f->out = mhc_take(t, t->apart);
}

/* From squares and sums of products rstd, mix, and mix in lines. */
static inline __aicore__ void mhc_mix(const mhc_forward *f, float mean, float eps)
{
    const uint32_t tokens = (uint32_t)(f->t.groups * MHC_GROUP);
    asc_mul_scalar(f->rstd, f->rstd, mean, tokens);
    ASC_THEN();
    asc_inverse_roots(f->rstd, f->ones, tokens, eps);
    asc_spread(f->spread, f->rstd, tokens);
    ASC_THEN();
    mhc_by_token(&f->t, f->numbers, f->spread);
    ASC_THEN();
    asc_gather(f->x, f->numbers, f->to_lines, (uint32_t)MHC_COLUMNS(f->t.streams) * tokens);
    ASC_THEN();
}

ASC_KERNEL mhc_coeffs_forward_f32(ASC_PARAMS(MHC_COEFFS_FORWARD))
{
    const int64_t at_once = tile_groups * MHC_GROUP, all = streams * streams;
    mhc_forward f;
    f.t = mhc_tile_of(streams, tile_groups, iterations, asc_f32(sinkhorn_eps), ASC_SCRATCH(lines));
    mhc_begin(&f.t, tile_width, alpha_pre, alpha_post, alpha_res, f.alpha);
    mhc_forward_begin(&f);
    const uint32_t row = (uint32_t)f.t.row;
    for (int64_t task = asc_get_block_idx(); task * tile_groups < groups;
         task += asc_get_block_num()) {
        const int64_t first = task * at_once, count = asc_min_of(at_once, tokens - first);
        asc_sync(); /* few numbers: nothing is gained by overlap */
        mhc_in(f.numbers, sums, first, count, MHC_COLUMNS(streams), f.t.together);
        mhc_in(f.rstd, squares + first, 0, 1, count, 0);
        asc_sync();
        mhc_mix(&f, asc_f32(mean), asc_f32(rms_eps));
        ASC_FENCE(PIPE_V, PIPE_MTE3);
        if (mix)
            mhc_out(mix, f.numbers, first, count, MHC_COLUMNS(streams), f.t.together);
        if (rstd)
            mhc_out(rstd + first, f.rstd, 0, 1, count, 0);
        mhc_logits(&f.t, f.x, bias, f.alpha);
        mhc_logistic(f.x, f.out, 2 * row);
        asc_add_scalar(f.x, f.x, asc_f32(pre_eps), row);
        asc_mul_scalar(f.x + row, f.x + row, asc_f32(post_multiplier), row);
        mhc_softmax(&f.t, f.x + 2 * row, f.sums);
        mhc_iterate(&f.t, f.x + 2 * row, f.sums, 0);
        asc_gather(f.out, f.x, f.to_out, (uint32_t)(f.t.apart * at_once));
        ASC_FENCE(PIPE_V, PIPE_MTE3);
        mhc_out(h_pre, f.out, first, count, streams, f.t.apart);
        mhc_out(h_post, f.out + f.t.line, first, count, streams, f.t.apart);
        mhc_out(h_res, f.out + 2 * f.t.line, first, count, all, f.t.apart);
    }
    asc_sync();
    asc_modes_clear();
}

/* ---- backward ---- */

/* numbers: of tokens as memory has them, mix at first and z in the end; given: dh_pre, dh_post and
 * dh_res, each in whole blocks. logits: of pre and post, and the softmax of those of res. by_bias,
 * by_alpha: sums over tiles. */
typedef struct mhc_backward {
    mhc_tile t;
    float alpha[3];
    __ubuf__ uint32_t *to_lines, *to_matrix, *to_numbers;
    __ubuf__ float *numbers, *given, *rstd, *spread, *mix, *logits, *g, *product, *x, *sums,
        *weighed;
    __ubuf__ float *pull, *by_bias, *by_alpha, *wide, *divisors;
    __ubuf__ bfloat16_t *narrow; /* where z is wanted in parts */
} mhc_backward;

static inline __aicore__ void mhc_backward_begin(mhc_backward *b, int in_parts)
{
    mhc_tile *t = &b->t;
    const int64_t columns = MHC_COLUMNS(t->streams), all = t->streams * t->streams;
    b->to_lines = mhc_table_in(t, t->streams + 2, t->together);
    b->to_matrix = mhc_table_in(t, t->streams, t->apart);
    __ubuf__ int32_t *table = (__ubuf__ int32_t *)mhc_take(t, t->together);
    mhc_first_token(t, table, 0, t->streams + 2);
    b->to_numbers = mhc_table_out(t, table, t->together);
    b->numbers = mhc_take(t, t->together);
    b->given = mhc_take(t, t->apart);
    b->rstd = mhc_take(t, 1);
    b->spread = mhc_take(t, 8);
    b->mix = mhc_take(t, columns);
    b->logits = mhc_take(t, columns);
    b->g = mhc_take(t, columns);
    b->product = mhc_take(t, all);
    b->x = mhc_take(t, all);
    b->sums = mhc_take(t, t->streams);
    b->weighed = mhc_take(t, t->streams);
    b->pull = mhc_take(t, 1);
    b->by_bias = mhc_take(t, columns);
    b->by_alpha = mhc_take(t, 3 * t->streams);
    b->wide = mhc_take(t, in_parts ? t->together : 0);
    b->narrow = (__ubuf__ bfloat16_t *)mhc_take(t, in_parts ? t->together / 2 * 3 : 0);
    b->divisors = t->free;
}

/* g of pre, or of post, whose logits lie in row `part`; or 0. */
static inline __aicore__ void mhc_gate_back(const mhc_backward *b, int64_t part, int given,
                                            float multiplier)
{
    const uint32_t row = (uint32_t)b->t.row;
    __ubuf__ float *g = b->g + part * b->t.row;
    if (!given) {
        asc_duplicate(g, 0.0f, row);
        ASC_THEN();
        return;
    }
    asc_gather(g, b->given + part * b->t.line, b->to_matrix, row);
    ASC_THEN();
    asc_mul_scalar(g, g, multiplier, row);
    ASC_THEN();
    mhc_logistic_back(g, b->logits + part * b->t.row, b->product, row);
}

/* g of res; or 0. */
static inline __aicore__ void mhc_matrix_back(const mhc_backward *b, int given)
{
    const uint32_t n = mhc_matrix(&b->t);
    __ubuf__ float *g = b->g + 2 * b->t.row, *p = b->logits + 2 * b->t.row;
    if (!given) {
        asc_duplicate(g, 0.0f, n);
        ASC_THEN();
        return;
    }
    asc_gather(g, b->given + 2 * b->t.line, b->to_matrix, n);
    mhc_softmax(&b->t, p, b->sums);
    asc_add_scalar(b->x, p, 0.0f, n);
    ASC_THEN();
    mhc_iterate(&b->t, b->x, b->divisors, 1);
    mhc_iterate_back(&b->t, g, b->x, p, b->divisors, b->product, b->sums);
}

/* What the tile adds to the sums over tokens; pull, of which rstd is there, and z in lines, in the
 * place of g. */
static inline __aicore__ void mhc_sums_back(const mhc_backward *b, float mean)
{
    const mhc_tile *t = &b->t;
    const int64_t row = t->row;
    const uint32_t n = (uint32_t)row, all = (uint32_t)((t->streams + 2) * row),
                   tokens = (uint32_t)(t->groups * MHC_GROUP);
    __ubuf__ float *by_mix = b->logits;
    asc_add(b->by_bias, b->by_bias, b->g, all);
    asc_mul(by_mix, b->g, b->mix, all);
    ASC_THEN();
    asc_add(b->by_alpha, b->by_alpha, by_mix, 2 * n);
    asc_mul_scalar(b->weighed, by_mix, b->alpha[0], n);
    ASC_THEN();
    for (int64_t r = 1; r < t->streams + 2; r++) {
        if (r >= 2)
            asc_add(b->by_alpha + 2 * row, b->by_alpha + 2 * row, by_mix + r * row, n);
        asc_axpy(b->weighed, by_mix + r * row, b->alpha[r < 2 ? r : 2], n);
        ASC_THEN();
    }
    MHC_FOLD(asc_add, t, mhc_rows_of(t), b->pull, b->weighed, tokens, 0.0f);
    asc_mul(b->pull, b->pull, b->rstd, tokens);
    ASC_THEN();
    asc_mul(b->pull, b->pull, b->rstd, tokens);
    ASC_THEN();
    asc_mul_scalar(b->pull, b->pull, -mean, tokens);
    for (int64_t r = 0; r < t->streams + 2; r++)
        asc_mul_scalar(b->g + r * row, b->g + r * row, b->alpha[r < 2 ? r : 2], n);
    ASC_THEN();
}

/* z of the tile, as memory has it. */
static inline __aicore__ void mhc_z(const mhc_backward *b)
{
    const int64_t tokens = b->t.groups * MHC_GROUP;
    asc_gather(b->numbers, b->g, b->to_numbers, (uint32_t)(b->t.together * tokens));
    asc_spread(b->spread, b->rstd, tokens);
    ASC_THEN();
    mhc_by_token(&b->t, b->numbers, b->spread);
    ASC_THEN();
}

/* z of the tile, which has left and is used up, as sums of three bf16. */
static inline __aicore__ void mhc_parts_out(const mhc_backward *b, __gm__ bfloat16_t *to,
                                            int64_t first, int64_t count)
{
    const int64_t columns = MHC_COLUMNS(b->t.streams), n = b->t.together * b->t.groups * MHC_GROUP;
    ASC_FENCE(PIPE_MTE3, PIPE_V);
    for (int part = 0; part < 3; part++) {
        asc_float2bfloat16_rn(b->narrow + part * n, b->numbers, (uint32_t)n);
        ASC_THEN();
        asc_bfloat162float(b->wide, b->narrow + part * n, (uint32_t)n);
        ASC_THEN();
        asc_sub(b->numbers, b->numbers, b->wide, (uint32_t)n);
        ASC_THEN();
    }
    ASC_FENCE(PIPE_V, PIPE_MTE3);
    for (int part = 0; part < 3; part++)
        asc_copy_rows_out(to + (first * 3 + part) * columns, (uint64_t)(b->narrow + part * n),
                          count, columns * 2, 3 * columns * 2, b->t.together * 2);
}

/* The block's sums: those of bias, and each alpha's in a block of its own. */
static inline __aicore__ void mhc_partials_out(const mhc_backward *b, __gm__ float *to)
{
    const mhc_tile *t = &b->t;
    const int64_t line = t->streams * MHC_GROUP, columns = MHC_COLUMNS(t->streams);
    __ubuf__ float *folded = b->logits;
    asc_duplicate(folded, 0.0f, (uint32_t)(columns * MHC_GROUP));
    ASC_THEN();
    for (int64_t group = 0; group < t->groups; group++) {
        for (int64_t r = 0; r < t->streams + 2; r++)
            asc_add(folded + r * line, folded + r * line, b->by_bias + r * t->row + group * line,
                    (uint32_t)line);
        ASC_THEN();
    }
    asc_datablock_reduce_sum(b->numbers, folded, (uint32_t)(columns * MHC_GROUP));
    ASC_THEN();
    for (int64_t part = 0; part < 3; part++) {
        asc_duplicate(b->spread, 0.0f, ASC_LANES);
        ASC_THEN();
        ASC_FOLD(asc_add, b->spread, b->by_alpha + part * t->row, 1, t->row, 0);
        ASC_THEN();
        asc_repeat_reduce_sum(b->numbers + t->together + part * 8, b->spread, ASC_LANES);
        ASC_THEN();
    }
    ASC_FENCE(PIPE_V, PIPE_MTE3);
    mhc_out(to, b->numbers, 0, 1, t->together + 24, 0);
}

ASC_KERNEL mhc_coeffs_backward_f32(ASC_PARAMS(MHC_COEFFS_BACKWARD))
{
    const int64_t at_once = tile_groups * MHC_GROUP, columns = MHC_COLUMNS(streams);
    mhc_backward b;
    b.t = mhc_tile_of(streams, tile_groups, iterations, asc_f32(sinkhorn_eps), ASC_SCRATCH(lines));
    mhc_begin(&b.t, tile_width, alpha_pre, alpha_post, alpha_res, b.alpha);
    mhc_backward_begin(&b, parts != 0);
    for (int64_t task = asc_get_block_idx(); task * tile_groups < groups;
         task += asc_get_block_num()) {
        const int64_t first = task * at_once, count = asc_min_of(at_once, tokens - first);
        asc_sync();
        if (count < at_once) { /* what is not there adds nothing to the sums */
            asc_duplicate(b.numbers, 0.0f, (uint32_t)(b.t.together * at_once));
            asc_duplicate(b.given, 0.0f, (uint32_t)(b.t.apart * at_once));
            asc_duplicate(b.rstd, 0.0f, (uint32_t)at_once);
            asc_sync();
        }
        mhc_in(b.numbers, mix, first, count, columns, b.t.together);
        mhc_in(b.rstd, rstd + first, 0, 1, count, 0);
        if (dh_pre)
            mhc_in(b.given, dh_pre, first, count, streams, b.t.apart);
        if (dh_post)
            mhc_in(b.given + b.t.line, dh_post, first, count, streams, b.t.apart);
        if (dh_res)
            mhc_in(b.given + 2 * b.t.line, dh_res, first, count, streams * streams, b.t.apart);
        asc_sync();
        asc_gather(b.mix, b.numbers, b.to_lines, (uint32_t)(columns * at_once));
        ASC_THEN();
        asc_add_scalar(b.logits, b.mix, 0.0f, (uint32_t)(columns * at_once));
        ASC_THEN();
        mhc_logits(&b.t, b.logits, bias, b.alpha);
        mhc_gate_back(&b, 0, dh_pre != 0, 1.0f);
        mhc_gate_back(&b, 1, dh_post != 0, asc_f32(post_multiplier));
        mhc_matrix_back(&b, dh_res != 0);
        mhc_sums_back(&b, asc_f32(mean));
        mhc_z(&b);
        ASC_FENCE(PIPE_V, PIPE_MTE3);
        mhc_out(z, b.numbers, first, count, columns, b.t.together);
        mhc_out(pull + first, b.pull, 0, 1, count, 0);
        if (parts)
            mhc_parts_out(&b, parts, first, count);
    }
    asc_sync();
    if (partials)
        mhc_partials_out(&b, partials + asc_get_block_idx() * partials_stride);
    asc_sync();
    asc_modes_clear();
}

#define ASC_TEMPLATE "streams/mhc_coeffs.asc.h"
#include "shared/asc_each_type.h"
