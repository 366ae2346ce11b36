/* model.h - a Llama: its parameters, what a forward pass keeps, and the two passes.
 *
 * All parameters lie in one block of memory, all gradients in another, laid out alike: first what
 * weight decay applies to, then the norms. Products that read the same input are one product:
 * q, k, v are the columns of qkv; gate and up the columns of gate_up.
 *
 * Pointers to memory of tensors are the host's. What the host writes or reads there goes to the
 * device and comes from it, where that has memory of its own (run.h).
 */
#ifndef LLAMA_MODEL_H
#define LLAMA_MODEL_H

#include <stdint.h>
#include <string.h>

#include "data.h"
#include "options.h"
#include "run.h"
#include "shards.h"

/* A tensor with room for its own shape. Not to be copied: `t` points into it. */
typedef struct array {
    tg_tensor t;
    int64_t shape[4], strides[4];
} array;

struct model;
void array_set(struct model *m, array *a, const void *data, tg_type type, int ndim,
               const int64_t *shape);

/* A parameter and its gradient. */
typedef struct weight {
    array p, g;
    int64_t at; /* its first element among all parameters */
} weight;

/* What rows are: whole sequences, which keep earlier positions' k and v where `first` is not 0; all
 * of them one, of documents that the windows tell; parts of sequences, whose others other ranks
 * have. */
enum { WHOLE, PACKED, SHARED };

/* Rows of the batch that a pass works on: `batch` sequences of `count` positions from `first` on.
 * Training has first = 0; sampling has batch = 1. */
typedef struct extent {
    int64_t batch, first, count, what;
} extent;

/* Router and experts of a layer, with --experts. The matrices of all experts lie in wgate_up and
 * wdown, one behind the other. */
typedef struct experts {
    weight router;                        /* [experts, width] */
    array gate_up, down, dgate_up, ddown; /* [experts, 2 expert_ff, width], [.., width, expert_ff]
                                            */
    /* kept for backward: operators' moe_router and fused_moe tell what */
    array logits, index, weights, lse, counts, slot, offset, place, pre;
    char *logits_data, *index_data, *weights_data, *lse_data, *counts_data, *slot_data,
        *offset_data, *place_data, *pre_data;
} experts;

typedef struct layer {
    weight wqkv;         /* [(heads + 2 kv_heads) head_dim, width] */
    weight wo;           /* [width, heads head_dim] */
    weight wgate_up;     /* [2 ff, width] */
    weight wdown;        /* [width, ff] */
    weight norm2;        /* [width] */
    weight qnorm, knorm; /* [head_dim], with --qk-norm */
    experts x;
    /* kept for backward */
    array qkv, q, k, v;         /* q, k, v: views of qkv as [batch, seq, heads, head_dim] */
    array raw_q, raw_k;         /* with --qk-norm these views; q, k are then of */
    array qs, ks, qrstd, krstd; /* [rows, heads head_dim], [rows, heads]; likewise of keys */
    array new_k;                /* the positions of k that this pass computes */
    array attended, attended4;  /* [rows, heads head_dim] and its view by heads */
    array lse;                  /* [batch, heads, count] */
    array s2, rstd2;            /* the stream before the feed-forward part */
    array gate_up, gate, up;    /* gate, up: views of gate_up */
    array normed1, normed2, h;  /* what the parts read: normed streams; of wdown swiglu's output */
    char *s1_data, *rstd1_data, *qkv_data, *attended_data, *lse_data, *s2_data, *rstd2_data,
        *normed1_data, *normed2_data, *h_data, *gate_up_data, *qs_data, *ks_data, *qrstd_data,
        *krstd_data;
} layer;

typedef struct model {
    run *r;
    const options *o;
    int64_t head_dim, qkv_width;
    int64_t inner;  /* heads head_dim */
    int64_t rows;   /* batch * seq, of a ring its share: the room of every activation */
    int64_t first;  /* position of the bound rows */
    int64_t what;   /* they are */
    int64_t place;  /* of the step among two: model_step_place() */
    int ordered;    /* gradients of micro-batches are added up in order: gradients.h */
    int64_t rounds; /* micro-batches of a rank in a step, at most */
    tg_type type;

    /* parameters [count], and as much for the gradient; of first and second moment and master
     * what this rank keeps */
    int64_t count, decayed, used; /* used: without padding */
    int64_t
        apart; /* elements of a layer that have no place among `grad`: experts shared on cards */
    int64_t tables; /* the first ones: of the embedding and the output */
    char *param;
    float *table_grad, *grad; /* of the tables; of all others, which lie apart */
    float *m, *v, *master;    /* master: NULL when the parameters are f32 themselves */
    char *update, *direction; /* of matrices that muon.c orthogonalises together */
    shards shards;
    struct gradients *gradients;
    struct transfers *sharing; /* of parameters after a step */
    struct ring *ring;         /* NULL: windows are not shared */
    struct dispatch *dispatch; /* NULL: experts are not shared out */
    struct eight *eight;       /* NULL: products are in the type */

    weight embed, head; /* [vocab, width]; head is embed if they are tied */
    weight *norm1;      /* [layers + 1] of [width]: before each layer, and the last one */
    layer *layers;

    array *s1, *rstd1; /* [layers + 1]: the stream before each layer, and at the end */
    char *last_s1_data, *last_rstd1_data;

    /* shared by all layers */
    array y, d, e;              /* [rows, width]: normed stream; gradients of the stream */
    array dattended, y4;        /* in y: gradient of the attended values, and by heads */
    array h;                    /* [rows, ff] */
    array dweights, dlogits;    /* [rows, experts_used], [rows, experts] */
    array dbalance;             /* one element: what a layer's balance counts */
    array dqkv, dq, dk, dv;     /* gradient of qkv, and its views */
    array cosine, sine;         /* [seq, head_dim / 2] */
    array row_cosine, row_sine; /* the same at the position of each row, where rows are not WHOLE */
    array input, target;        /* i64 [rows], of one micro-batch */
    array position, begin;      /* i64 [batch, places], [documents + 1]; likewise */
    array cuts[2][2];           /* with --ring, as `begin`: windows.cuts */
    array loss, squares, dloss; /* one element each */
    array last, logits;         /* sampling: last row of y, its logits f32 [1, vocab] */
    char *dweights_data, *dlogits_data;
    char *y_data, *d_data, *e_data, *h_data, *dqkv_data, *row_cosine_data, *row_sine_data;
    /* [2, accumulate]: of the micro-batches of a step, and of the step before it */
    windows *drawn;
    /* [2, accumulate + 1]: losses of the micro-batches, and the gradients' sum of squares */
    float *results;
    float *shares;       /* [2, accumulate]: of the step's targets that a micro-batch has */
    char *products_data; /* logits of model_products() */
    int64_t *input_data, *target_data, *position_data, *begin_data; /* of one micro-batch */
    int64_t *cuts_data[2][2];
    int64_t room; /* documents that a device's calls, which may be recorded, have a place for */
    float *share_data;
    float *logits_data;
} model;

/* The nearest number of 16 bits. */
static inline uint16_t bf16_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Allocates and initialises; with `training` also gradients and moments. The options must live on.
 */
void model_open(model *m, run *r, const options *o, int training);
/* In memory.c: places of activations and of gradients. */
void model_place_activations(model *m, int training);
/* In parameters.c: places of all parameters and gradients, first to count them, then, when the
 * memory is there, for good; values to begin with; one value, on the host. */
void model_place(model *m);
void model_take_params(model *m);
/* Where the gradient of the parameter's element `at` lies. */
float *model_grad(const model *m, int64_t at);
void model_init(model *m);
void model_set(model *m, int64_t i, float value);
/* Parameters, or these and the optimizer's state, go to the device, or come from it. */
void model_params_to_device(const model *m);
void model_to_device(const model *m);
void model_from_device(const model *m);

/* Points every activation at the rows of a pass, of the step's first micro-batch. */
void model_bind(model *m, extent extent);
/* Tokens and results of a step have one of two places, 0 or 1, so that the host writes those of the
 * next step, and reads those of this one, while the device works. */
void model_step_place(model *m, int64_t place);
/* Points input, target and loss at those of a micro-batch of the step, as they have been drawn. */
void model_micro_batch(model *m, int64_t i);
/* Room for the documents of micro-batch i: what there is, doubled until it is enough. */
void model_make_room(model *m, int64_t i);
/* Where the windows of that micro-batch belong. */
windows *model_windows(const model *m, int64_t i);
/* When all micro-batches of the step have been drawn: how much of its loss each is, by targets. */
void model_weigh(model *m);

/* The passes over the bound rows, in pass.c. input_data (and target_data) hold the tokens. */
void model_forward(model *m);
/* Mean loss over the targets that are not -100, as a result. `train`: also the gradient of its
 * share of the step's loss, of the stream into d, of the output matrix; `accumulate`: add to the
 * parameters' gradients. */
void model_loss(model *m, int train, int accumulate);
void model_backward(model *m, int accumulate);
/* Called by model_backward() as soon as the gradients of a part of the parameters are complete: 0
 * tables, 1 ... layers, then norms. */
void model_ready(model *m, int part);
/* How many there are of a step: a loss for each micro-batch, and the sum of squares. */
size_t model_results_of(const model *m);
/* The results of the step at a place: the losses of the micro-batches, and behind them what
 * gradients_squares() has left. They are there when what model_fetch_results() has begun for
 * that place has ended. */
void model_fetch_results(model *m);
const float *model_results(const model *m, int64_t place);

/* The products of both passes alone, to time them; their results are of no use. */
void model_products(model *m, int accumulate);
/* Floating-point operations in these. */
double model_flops(const model *m);

/* One tensor of Hugging Face's Llama as a part of our parameters; in names.c. */
typedef struct part {
    char name[80];
    int64_t offset; /* in elements */
    int ndim;
    int64_t shape[2];
    const char *sizes; /* what the shape is by Hugging Face's names of sizes */
} part;
/* How many parts each layer has; those of the first layer begin with part 1. */
int model_layer_parts(const model *m);
/* The i-th part; 0 behind the last. */
int model_part(const model *m, int i, part *p);
int64_t part_elements(const part *p);

#endif
