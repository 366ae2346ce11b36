/* net.c - memory of the decoder: parameters, activations, and the numbers in them. */
#include "net.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void must(tg_status status, const char *what)
{
    if (status == TG_OK)
        return;
    printf("%s: %s: %s\n", what, tg_status_name(status), tg_last_error());
    exit(1);
}

/* ---- tensors ---- */

void net_tensor(net *n, tensor *t, tg_type type, int ndim, const int64_t *shape)
{
    memcpy(t->shape, shape, (size_t)ndim * sizeof(*shape));
    t->t = tg_tensor_of(NULL, type, ndim, t->shape);
    t->t.data = calloc((size_t)tg_numel(&t->t) + 1, tg_type_size(type));
    if (!t->t.data || n->nmemory == (int)(sizeof(n->memory) / sizeof(*n->memory))) {
        printf("out of memory\n");
        exit(1);
    }
    n->memory[n->nmemory++] = t->t.data;
}

/* Columns of a matrix of batch * seq rows, as [batch, seq, heads, head_dim]. */
static void by_heads(const net *n, tensor *t, const tensor *of, int64_t start)
{
    const int64_t width = of->shape[1];
    t->t = tg_tensor_slice(&of->t, start, WIDTH, t->shape, t->strides);
    t->t.ndim = 4;
    memcpy(t->shape, (int64_t[]){n->o.batch, n->o.seq, HEADS, HEAD_DIM}, sizeof(t->shape));
    memcpy(t->strides, (int64_t[]){n->o.seq * width, width, HEAD_DIM, 1}, sizeof(t->strides));
}

static float widen(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof(value));
    return value;
}

static uint16_t narrow(float value) /* finite */
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

double get(const tensor *t, int64_t i)
{
    return tg_type_of(&t->t) == TG_F32 ? (double)((const float *)t->t.data)[i]
                                       : (double)widen(((const uint16_t *)t->t.data)[i]);
}

void put(tensor *t, int64_t i, double value)
{
    if (tg_type_of(&t->t) == TG_F32)
        ((float *)t->t.data)[i] = (float)value;
    else
        ((uint16_t *)t->t.data)[i] = narrow((float)value);
}

double uniform(uint64_t seed, uint64_t place)
{
    uint64_t h = seed * 0x9e3779b97f4a7c15u + place;
    for (int i = 0; i < 3; i++) {
        h = (h ^ h >> 31) * 0xd6e8feb86659fd93u;
        h ^= h >> 32;
    }
    return (double)(h >> 11) / 9007199254740992.0;
}

double distance(const float *a, const float *b, const float *c, int64_t n)
{
    double gap = 0, way = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)a[i] - (double)b[i], w = (double)b[i] - (c ? (double)c[i] : 0);
        gap += d * d;
        way += w * w;
    }
    return sqrt(gap / way);
}

/* ---- parameters ---- */

/* Gives a parameter its place in the block; in the second walk, when the memory is there, also its
 * first values: normal numbers of that deviation around `mean`. */
static void place(net *n, weight *w, int64_t rows, int64_t cols, double mean, double deviation)
{
    const int64_t at = n->count, count = rows * cols;
    n->count += count;
    if (!n->param)
        return;
    const int ndim = rows == 1 ? 1 : 2;
    const int64_t shape[2] = {rows == 1 ? cols : rows, cols};
    memcpy(w->p.shape, shape, sizeof(shape));
    memcpy(w->g.shape, shape, sizeof(shape));
    w->p.t =
        tg_tensor_of(n->param + at * (int64_t)tg_type_size(n->o.type), n->o.type, ndim, w->p.shape);
    w->g.t = tg_tensor_of(n->grad + at * (int64_t)tg_type_size(n->o.grad_type), n->o.grad_type,
                          ndim, w->g.shape);
    for (int64_t i = 0; i < count; i++) {
        const uint64_t draw = 2 * (uint64_t)(at + i);
        const double radius = sqrt(-2 * log(1 - uniform(n->o.seed, draw)));
        const double value =
            mean + deviation * radius * cos(6.283185307179586 * uniform(n->o.seed, draw + 1));
        put(&w->p, i, value);
        n->master[at + i] = (float)value;
    }
}

static void place_norm(net *n, norm *m)
{
    place(n, &m->alpha, 1, 1, 0.5, 0); /* where dyt's authors start */
    place(n, &m->gamma, 1, WIDTH, 1, 0);
    place(n, &m->beta, 1, WIDTH, 0, 0);
}

static void place_all(net *n)
{
    const double wide = 1 / sqrt(WIDTH), added = wide / sqrt(2 * LAYERS); /* added: to the stream */
    n->count = 0;
    place(n, &n->embed, n->o.vocab, WIDTH, 0, 0.1);
    for (int i = 0; i < LAYERS; i++) {
        block *b = &n->blocks[i];
        place_norm(n, &b->norm1);
        place(n, &b->wqkv, 3 * WIDTH, WIDTH, 0, wide);
        place(n, &b->wo, WIDTH, WIDTH, 0, added);
        place_norm(n, &b->norm2);
        place(n, &b->wgate_up, 2 * FF, WIDTH, 0, wide);
        place(n, &b->wdown, WIDTH, FF, 0, added);
    }
    place_norm(n, &n->last);
}

static void *row_of_memory(net *n, tg_type type)
{
    tensor t;
    net_tensor(n, &t, type, SHAPE(n->count));
    return t.t.data;
}

static void take_parameters(net *n)
{
    place_all(n); /* counts */
    n->grad = row_of_memory(n, n->o.grad_type);
    n->master = row_of_memory(n, TG_F32);
    n->m = row_of_memory(n, TG_F32);
    n->v = row_of_memory(n, TG_F32);
    n->param = row_of_memory(n, n->o.type);
    place_all(n);
}

/* ---- activations ---- */

static void take_norm(net *n, norm *m)
{
    net_tensor(n, &m->x, n->o.type, SHAPE(n->rows, WIDTH));
    net_tensor(n, &m->y, n->o.type, SHAPE(n->rows, WIDTH));
    net_tensor(n, &m->mean, TG_F32, SHAPE(n->rows));
    net_tensor(n, &m->rstd, TG_F32, SHAPE(n->rows));
}

static void take_qkv(net *n, tensor *all, tensor *q, tensor *k, tensor *v)
{
    net_tensor(n, all, n->o.type, SHAPE(n->rows, 3 * WIDTH));
    by_heads(n, q, all, 0);
    by_heads(n, k, all, WIDTH);
    by_heads(n, v, all, 2 * WIDTH);
}

static void take_block(net *n, block *b)
{
    const tg_type type = n->o.type;
    take_norm(n, &b->norm1);
    take_norm(n, &b->norm2);
    take_qkv(n, &b->qkv, &b->q, &b->k, &b->v);
    net_tensor(n, &b->attended, type, SHAPE(n->rows, WIDTH));
    by_heads(n, &b->attended4, &b->attended, 0);
    net_tensor(n, &b->lse, TG_F32, SHAPE(n->o.batch, HEADS, n->o.seq));
    net_tensor(n, &b->gate_up, type, SHAPE(n->rows, 2 * FF));
    b->gate.t = tg_tensor_slice(&b->gate_up.t, 0, FF, b->gate.shape, b->gate.strides);
    b->up.t = tg_tensor_slice(&b->gate_up.t, FF, FF, b->up.shape, b->up.strides);
    net_tensor(n, &b->h, type, SHAPE(n->rows, FF));
}

static void take_rope(net *n)
{
    const int64_t half = HEAD_DIM / 2;
    net_tensor(n, &n->cosine, TG_F32, SHAPE(n->o.seq, half));
    net_tensor(n, &n->sine, TG_F32, SHAPE(n->o.seq, half));
    for (int64_t i = 0; i < n->o.seq * half; i++) {
        const double angle = (double)(i / half) * pow(10000, -(double)(i % half) / (double)half);
        put(&n->cosine, i, cos(angle));
        put(&n->sine, i, sin(angle));
    }
}

void net_open(net *n, tg_ctx *ctx, const net_options *o)
{
    *n = (net){.ctx = ctx, .o = *o, .rows = o->batch * o->seq};
    take_parameters(n);
    for (int i = 0; i < LAYERS; i++)
        take_block(n, &n->blocks[i]);
    take_norm(n, &n->last);
    net_tensor(n, &n->dy, o->type, SHAPE(n->rows, WIDTH));
    net_tensor(n, &n->branch, o->type, SHAPE(n->rows, WIDTH));
    by_heads(n, &n->branch4, &n->branch, 0);
    take_qkv(n, &n->dqkv, &n->dq, &n->dk, &n->dv);
    net_tensor(n, &n->dh, o->type, SHAPE(n->rows, FF));
    net_tensor(n, &n->tokens, TG_I64, SHAPE(n->rows));
    take_rope(n);
}

void net_close(net *n)
{
    for (int i = 0; i < n->nmemory; i++)
        free(n->memory[i]);
}
