/* pass.c - the passes of the decoder and its optimizer: only calls of operators, but for the
 * addition to the stream, which Llama's norms have inside and these do not. */
#include "net.h"

/* ---- the norms ---- */

static void layer_norm_forward(net *n, norm *m)
{
    CALL(n->ctx, layer_norm_forward, .x = &m->x.t, .weight = &m->gamma.p.t, .bias = &m->beta.p.t,
         .y = &m->y.t, .mean = &m->mean.t, .rstd = &m->rstd.t);
}

static void layer_norm_backward(net *n, norm *m, tensor *d, int accumulate)
{
    CALL(n->ctx, layer_norm_backward, .dy = &d->t, .x = &m->x.t, .weight = &m->gamma.p.t,
         .mean = &m->mean.t, .rstd = &m->rstd.t, .dx = &d->t, .dweight = &m->gamma.g.t,
         .dbias = &m->beta.g.t, .accumulate = accumulate);
}

static void dyt_forward(net *n, norm *m)
{
    CALL(n->ctx, dyt_forward, .x = &m->x.t, .alpha = &m->alpha.p.t, .gamma = &m->gamma.p.t,
         .beta = &m->beta.p.t, .y = &m->y.t);
}

static void dyt_backward(net *n, norm *m, tensor *d, int accumulate)
{
    CALL(n->ctx, dyt_backward, .dy = &d->t, .x = &m->x.t, .alpha = &m->alpha.p.t,
         .gamma = &m->gamma.p.t, .dx = &d->t, .dalpha = &m->alpha.g.t, .dgamma = &m->gamma.g.t,
         .dbeta = &m->beta.g.t, .accumulate = accumulate);
}

const norm_kind layer_norm = {"layer_norm", layer_norm_forward, layer_norm_backward};
const norm_kind dyt = {"dyt", dyt_forward, dyt_backward};

/* ---- the passes ---- */

/* out = a + b */
static void add(tensor *out, const tensor *a, const tensor *b)
{
    const int64_t count = tg_numel(&out->t);
    for (int64_t i = 0; i < count; i++)
        put(out, i, get(a, i) + get(b, i));
}

/* out = x w^T */
static void product(net *n, const tensor *x, const weight *w, tensor *out)
{
    CALL(n->ctx, gemm, .a = &x->t, .b = &w->p.t, .c = &out->t, .trans_b = 1);
}

/* Of out = x w^T: the gradients of w and of x. */
static void product_back(net *n, const tensor *dout, const tensor *x, weight *w, tensor *dx,
                         int accumulate)
{
    CALL(n->ctx, gemm, .a = &dout->t, .b = &x->t, .c = &w->g.t, .trans_a = 1, .beta = accumulate);
    CALL(n->ctx, gemm, .a = &dout->t, .b = &w->p.t, .c = &dx->t);
}

static void block_forward(net *n, block *b, tensor *out)
{
    n->o.kind->forward(n, &b->norm1);
    product(n, &b->norm1.y, &b->wqkv, &b->qkv);
    CALL(n->ctx, rope_forward, .q = &b->q.t, .k = &b->k.t, .cos = &n->cosine.t, .sin = &n->sine.t,
         .yq = &b->q.t, .yk = &b->k.t);
    CALL(n->ctx, flash_attention_forward, .q = &b->q.t, .k = &b->k.t, .v = &b->v.t,
         .y = &b->attended4.t, .lse = &b->lse.t, .causal = 1);
    product(n, &b->attended, &b->wo, &n->branch);
    add(&b->norm2.x, &b->norm1.x, &n->branch);
    n->o.kind->forward(n, &b->norm2);
    product(n, &b->norm2.y, &b->wgate_up, &b->gate_up);
    CALL(n->ctx, geglu_forward, .gate = &b->gate.t, .up = &b->up.t, .y = &b->h.t);
    product(n, &b->h, &b->wdown, &n->branch);
    add(out, &b->norm2.x, &n->branch);
}

static tensor *stream(net *n,
                      int i) /* what block i reads; behind the last: what the last norm does */
{
    return i < LAYERS ? &n->blocks[i].norm1.x : &n->last.x;
}

void net_forward(net *n)
{
    CALL(n->ctx, embedding_forward, .weight = &n->embed.p.t, .indices = &n->tokens.t,
         .y = &stream(n, 0)->t);
    for (int i = 0; i < LAYERS; i++)
        block_forward(n, &n->blocks[i], stream(n, i + 1));
    n->o.kind->forward(n, &n->last);
}

/* In: dy, the gradient of what the block gives to the stream. Out: dy, of what it takes from it. */
static void block_backward(net *n, block *b, int accumulate)
{
    product_back(n, &n->dy, &b->h, &b->wdown, &n->dh, accumulate);
    CALL(n->ctx, geglu_backward, .dy = &n->dh.t, .gate = &b->gate.t, .up = &b->up.t,
         .dgate = &b->gate.t, .dup = &b->up.t);
    product_back(n, &b->gate_up, &b->norm2.y, &b->wgate_up, &n->branch, accumulate);
    n->o.kind->backward(n, &b->norm2, &n->branch, accumulate);
    add(&n->dy, &n->dy, &n->branch);
    product_back(n, &n->dy, &b->attended, &b->wo, &n->branch, accumulate);
    CALL(n->ctx, flash_attention_backward, .dy = &n->branch4.t, .q = &b->q.t, .k = &b->k.t,
         .v = &b->v.t, .y = &b->attended4.t, .lse = &b->lse.t, .dq = &n->dq.t, .dk = &n->dk.t,
         .dv = &n->dv.t, .causal = 1);
    CALL(n->ctx, rope_backward, .dyq = &n->dq.t, .dyk = &n->dk.t, .cos = &n->cosine.t,
         .sin = &n->sine.t, .dq = &n->dq.t, .dk = &n->dk.t);
    product_back(n, &n->dqkv, &b->norm1.y, &b->wqkv, &n->branch, accumulate);
    n->o.kind->backward(n, &b->norm1, &n->branch, accumulate);
    add(&n->dy, &n->dy, &n->branch);
}

void net_backward(net *n, int accumulate)
{
    n->o.kind->backward(n, &n->last, &n->dy, accumulate);
    for (int i = LAYERS - 1; i >= 0; i--)
        block_backward(n, &n->blocks[i], accumulate);
    /* the loss has left the output's gradient in the same matrix */
    CALL(n->ctx, embedding_backward, .dy = &n->dy.t, .indices = &n->tokens.t,
         .dweight = &n->embed.g.t, .accumulate = 1);
}

void net_update(net *n, double lr)
{
    tg_tensor param = tg_tensor_of(n->param, n->o.type, 1, &n->count);
    tg_tensor grad = tg_tensor_of(n->grad, n->o.grad_type, 1, &n->count);
    tg_tensor master = tg_tensor_of(n->master, TG_F32, 1, &n->count);
    tg_tensor m = tg_tensor_of(n->m, TG_F32, 1, &n->count);
    tg_tensor v = tg_tensor_of(n->v, TG_F32, 1, &n->count);
    CALL(n->ctx, adamw, .param = &param, .master = n->o.type == TG_F32 ? NULL : &master,
         .grad = &grad, .m = &m, .v = &v, .lr = lr, .beta2 = 0.95, .step = ++n->step);
}

const float *net_parameters(const net *n)
{
    return n->o.type == TG_F32 ? (const float *)n->param : n->master;
}

void net_gradient(const net *n, float *out)
{
    const tensor all = {.t = tg_tensor_of(n->grad, n->o.grad_type, 1, &n->count)};
    for (int64_t i = 0; i < n->count; i++)
        out[i] = (float)get(&all, i);
}
