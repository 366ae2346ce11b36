/* net.h - a small decoder on the public headers, for the tests of convergence: its parameters, its
 * two passes, AdamW.
 *
 *   stream = embedding(tokens)
 *   each block:  stream += attention(norm(stream));  stream += geglu(norm(stream))
 *   y = norm(stream);  logits = y embedding^T
 *
 * The norm is one of a table. What the loss is, is the caller's matter: it reads y and the
 * embedding, writes the gradient of y into dy and adds that of the output matrix to embed.g. All
 * parameters lie in one block of memory, all gradients in another, so AdamW is one call. Beside bf16
 * parameters the optimizer keeps f32 master weights.
 */
#ifndef CONVERGENCE_NET_H
#define CONVERGENCE_NET_H

#include <stdint.h>
#include <tigon/tigon.h>

enum { LAYERS = 2, WIDTH = 64, HEADS = 4, FF = 128, HEAD_DIM = WIDTH / HEADS };

/* A tensor with room for its own shape. Not to be copied: `t` points into it. */
typedef struct tensor {
    tg_tensor t;
    int64_t shape[4], strides[4];
} tensor;

/* A parameter and its gradient. */
typedef struct weight {
    tensor p, g;
} weight;

/* A norm, what it read, what it gave and what it saved. */
typedef struct norm {
    weight alpha, gamma, beta; /* alpha: one number, of dyt alone */
    tensor x, y, mean, rstd;
} norm;

typedef struct net net;
typedef struct norm_kind {
    const char *name;
    void (*forward)(net *n, norm *m);
    /* dy to dx, in place; parameter gradients, added to what is there if `accumulate` */
    void (*backward)(net *n, norm *m, tensor *d, int accumulate);
} norm_kind;
extern const norm_kind layer_norm, dyt;

typedef struct block {
    norm norm1, norm2;
    weight wqkv, wo, wgate_up, wdown;
    tensor qkv, q, k, v; /* q, k, v: views of qkv, [batch, seq, heads, head_dim] */
    tensor attended, attended4, lse;
    tensor gate_up, gate, up, h;
} block;

/* What a net is made of. grad_type: f32, or `type` for gradients that accumulate in it. */
typedef struct net_options {
    const norm_kind *kind;
    tg_type type, grad_type;
    int64_t vocab, batch, seq;
    uint64_t seed;
} net_options;

struct net {
    tg_ctx *ctx;
    net_options o;
    int64_t rows, count; /* batch * seq; parameters */
    char *param, *grad;
    float *master, *m, *v;
    weight embed;
    block blocks[LAYERS];
    norm last; /* its y is the net's */
    tensor dy; /* in: gradient of the net's y */
    tensor branch, branch4, dqkv, dq, dk, dv, dh, cosine, sine;
    tensor tokens; /* i64 [rows] */
    int64_t step;
    void *memory[96];
    int nmemory;
};

/* Ends the program with a message if a call failed. */
void must(tg_status status, const char *what);
#define CALL(ctx, op, ...) must(tg_##op(ctx, &(tg_##op##_args){__VA_ARGS__}), #op)

void net_open(net *n, tg_ctx *ctx, const net_options *o);
void net_close(net *n);
void net_forward(net *n);
/* After the loss has written dy and added to embed.g. accumulate: add to the parameters' gradients.
 */
void net_backward(net *n, int accumulate);
void net_update(net *n, double lr);
/* What the optimizer holds as the parameters: f32, count of them. */
const float *net_parameters(const net *n);
/* All gradients, as f32, count of them. */
void net_gradient(const net *n, float *out);

/* A zeroed compact tensor of the net's memory. */
void net_tensor(net *n, tensor *t, tg_type type, int ndim, const int64_t *shape);
#define SHAPE(...)                                                         \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) \
    {                                                                      \
        __VA_ARGS__                                                        \
    }

/* Element i of a compact tensor of f32 or bf16. */
double get(const tensor *t, int64_t i);
void put(tensor *t, int64_t i, double value);
static inline int64_t *integers(tensor *t)
{
    return t->t.data;
}

/* A number in [0, 1) from a seed and a place: no state, so every implementation sees the same draws. */
double uniform(uint64_t seed, uint64_t place);

/* sqrt(sum (a - b)^2) / sqrt(sum (b - c)^2); c NULL: zeros. */
double distance(const float *a, const float *b, const float *c, int64_t n);

#endif
