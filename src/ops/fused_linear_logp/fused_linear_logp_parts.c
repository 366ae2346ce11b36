/* fused_linear_logp of other operators: chunks of rows, each a product and softmax_logp, and, for
 * the gradients, two more products (fused_linear/fused_linear.h). */
#include "fused_linear/fused_linear.h"
#include "fused_linear_logp.h"

typedef struct run_state {
    fused_linear l;
    const fllogp *f;
    int64_t rows, ids;
    double folded; /* of the temperature, what the product of logits divides by */
    /* in l.dloss, where dlogp, dentropy and dselected follow each other; -1: not given */
    int64_t entropy_at, selected_at;
} run_state;

/* What both directions of softmax_logp are given. */
#define LOGP_ARGS(s, c)                                                                         \
    .logits = &(c)->logits.t, .target = part(&target, (s)->f->c.target, (c)->first, (c)->rows), \
    .selected_ids = (s)->f->c.ids, .ignore_index = TG_VALUE((s)->f->c.ignore_index),            \
    .softcap = (s)->f->c.softcap / (s)->folded,                                                 \
    .temperature = (s)->f->c.temperature / (s)->folded, .vocab_start = (s)->f->c.slice.start,   \
    .vocab_size = (s)->f->c.slice.all

static tg_status run_forward(const void *state, fused_linear_rows *c)
{
    const run_state *s = state;
    const logp_call *f = &s->f->c;
    view target, logp, lse, entropy, selected, mean_logits, squares, predicted;
    return tg_softmax_logp_forward(
        s->l.ctx, &(tg_softmax_logp_forward_args){
                      LOGP_ARGS(s, c), .logp = part(&logp, f->logp, c->first, c->rows),
                      .lse = part(&lse, f->lse, c->first, c->rows),
                      .entropy = part(&entropy, f->entropy, c->first, c->rows),
                      .selected = part(&selected, f->selected, c->first * s->ids, c->rows * s->ids),
                      .mean_logits = part(&mean_logits, f->mean_logits, c->first, c->rows),
                      .log_sum_sq_probs = part(&squares, f->log_sum_sq_probs, c->first, c->rows),
                      .predicted = part(&predicted, f->predicted, c->first, c->rows)});
}

/* Of one of the upstream gradients behind dlogp. */
static tg_tensor *upstream(const run_state *s, view *v, int64_t at, int64_t first, int64_t n)
{
    return at < 0 ? NULL : part(v, s->l.dloss, at + first, n);
}

static tg_status run_backward(const void *state, fused_linear_rows *c)
{
    const run_state *s = state;
    const logp_call *f = &s->f->c;
    const int64_t first = c->first, rows = c->rows, ids = s->ids;
    view target, lse, entropy, dlogp, dentropy, dselected;
    return tg_softmax_logp_backward(
        s->l.ctx, &(tg_softmax_logp_backward_args){
                      LOGP_ARGS(s, c), .lse = part(&lse, f->saved_lse, first, rows),
                      .entropy = part(&entropy, f->saved_entropy, first, rows),
                      .dlogp = part(&dlogp, s->l.dloss, first, rows),
                      .dentropy = upstream(s, &dentropy, s->entropy_at, first, rows),
                      .dselected = upstream(s, &dselected, s->selected_at, first * ids, rows * ids),
                      .dlogits = &c->dlogits.t, .grad_scale = s->l.scale});
}

/* ---- the whole ---- */

/* Logits over the temperature cost nothing, unless those before it are asked for, or their mean. */
static run_state begin(tg_ctx *ctx, const fllogp *f)
{
    const double folded = f->c.mean_logits || f->logits ? 1 : f->c.temperature;
    return (run_state){.l = {.ctx = ctx,
                             FUSED_LINEAR_GIVEN(f),
                             FUSED_LINEAR_BIAS(f),
                             .logit_scale = f->logit_scale / folded,
                             .split = 1},
                       .f = f,
                       .rows = tg_numel(f->c.target),
                       .ids = logp_ids(&f->c),
                       .folded = folded};
}

static tg_status forward(tg_ctx *ctx, const tg_fused_linear_logp_forward_args *args)
{
    const fllogp f = fllogp_forward(args);
    run_state s = begin(ctx, &f);
    TG_TRY(fused_linear_begin(&s.l, f.chunk_bytes));
    return fused_linear_run(&s.l, run_forward, &s);
}

/* n numbers to where they are in `all`. */
static tg_status copy(tg_ctx *ctx, const tg_tensor *from, int64_t n, view *all, int64_t at)
{
    view row, to;
    set_view(&to, (float *)tg_data(&all->t) + at, TG_F32, 1, n, n);
    return tg_sum_rows_backward(ctx, &(tg_sum_rows_backward_args){.dy = part(&row, from, 0, n),
                                                                  .dx = beside(&to, &all->t)});
}

/* The upstream gradients as one, as which they are scaled for f16. */
static tg_status join_upstream(run_state *s, view *all)
{
    const logp_call *c = &s->f->c;
    const int64_t selected = c->dselected ? s->rows * s->ids : 0;
    int64_t n = s->rows;
    s->entropy_at = c->dentropy ? n : -1;
    n += c->dentropy ? s->rows : 0;
    s->selected_at = c->dselected ? n : -1;
    n += selected;
    s->l.dloss = c->dlogp;
    if (n == 0 || (!c->dentropy && !c->dselected))
        return TG_OK;
    float *memory = tg_workspace_beside(s->l.ctx, s->f->x, (size_t)n * sizeof(float));
    if (!memory)
        return TG_ENOMEM;
    set_vector(all, memory, TG_F32, n);
    s->l.dloss = beside(all, s->f->x);
    TG_TRY(copy(s->l.ctx, c->dlogp, s->rows, all, 0));
    if (c->dentropy)
        TG_TRY(copy(s->l.ctx, c->dentropy, s->rows, all, s->entropy_at));
    return selected ? copy(s->l.ctx, c->dselected, selected, all, s->selected_at) : TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_fused_linear_logp_backward_args *args)
{
    const fllogp f = fllogp_backward(args);
    run_state s = begin(ctx, &f);
    view all;
    if (!f.dx && !f.dweight && !f.dbias)
        return TG_OK;
    TG_TRY(join_upstream(&s, &all));
    TG_TRY(fused_linear_begin(&s.l, f.chunk_bytes));
    s.l.scale = fused_linear_scale_of(&s.l, 8);
    return fused_linear_run(&s.l, run_backward, &s);
}

TG_PARTS_CALLS(fused_linear_logp) = {FUSED_LINEAR_CALLS, "softmax_logp_forward",
                                     "softmax_logp_backward", NULL};
TG_PARTS_IMPLS(fused_linear_logp) = {TG_PARTS_IMPL(fused_linear_logp_forward, forward),
                                     TG_PARTS_IMPL(fused_linear_logp_backward, backward),
                                     TG_IMPLS_END};
