/* options.h - what the user asks for: sizes of the model, the course of training, files. */
#ifndef LLAMA_OPTIONS_H
#define LLAMA_OPTIONS_H

#include <stdint.h>

enum { MAX_FILES = 4096 };

/* --recompute: what the backward pass computes again instead of keeping it; each has
 * those before it in it. */
enum { RECOMPUTE_NOTHING, RECOMPUTE_NORMS, RECOMPUTE_SWIGLU, RECOMPUTE_GATES };

/* Paths, in order; each points into argv or into a list that found them. */
typedef struct files {
    int count;
    const char *path[MAX_FILES];
} files;

typedef struct options {
    /* the model */
    const char *preset;
    int64_t layers, width, heads, kv_heads, ff, vocab, untied;
    int64_t head_dim; /* 0: width / heads, see options_head_dim() */
    int64_t qk_norm;  /* queries and keys are normalised, as in Qwen3 */
    /* a mixture in place of the feed-forward part, as in Qwen3-MoE; 0 experts: none */
    int64_t experts, experts_used, expert_ff, raw_weights;
    int64_t expert_parallel; /* ranks share out the experts */
    double balance;          /* the balance loss is multiplied by it */
    double theta, eps;
    double rope_factor, rope_low, rope_high, rope_window; /* factor 0: frequencies are not scaled */
    const char *type; /* "f32" or "bf16": of parameters and activations */
    /* the course */
    const char *optimizer; /* of the layers' matrices: "adamw" or "muon" */
    const char *products;  /* of these: "same", in `type`, or "fp8" */
    int64_t pack,
        end_of_document; /* documents apart in a window; the token that ends one, -1: none */
    int64_t ring;        /* ranks that share a window */
    int64_t batch, seq, accumulate, unordered, steps, warmup, seed, recompute;
    int64_t gates_kept; /* layers that keep gate and up although they are computed again */
    double lr, min_lr /* NaN: not given */, weight_decay, beta1, beta2, clip;
    int64_t eval_every, eval_windows, save_every, stop_after;
    /* data */
    files data, val;
    const char *tokens, *val_tokens;
    /* output */
    const char *load, *out, *log, *plot, *prompt;
    int64_t resume, eval_only, profile, compare, demo, quiet;
    int64_t sample, top_k;
    double temperature;
    /* the machine */
    const char *device, *impl;
    int64_t threads;
} options;

/* Elements of a head. */
static inline int64_t options_head_dim(const options *o)
{
    return o->head_dim ? o->head_dim : o->width / o->heads;
}

/* Whether a layer keeps gate and up for the backward pass. */
static inline int options_keep_gates(const options *o, int64_t layer)
{
    return o->recompute < RECOMPUTE_GATES || layer >= o->layers - o->gates_kept;
}

/* Options of a preset; leaves with a message if there is none of that name. */
void options_preset(options *o, const char *preset);

/* Writes what argv says over `o`. Wrong options leave with a message. */
void options_parse(options *o, int argc, char **argv);

/* The least and the largest value of an option that is a number. */
void options_limits(const char *name, double *low, double *high);

/* Refuse options that contradict each other, in check.c: those of use, then, when a checkpoint's
 * are known as well, those of the course: data and sizes. */
void options_check_use(const options *o);
void options_check_course(const options *o);
/* Refuses another model than that of the checkpoint, which has kept its options. */
void options_check_resumed(const options *o, const options *kept);

/* The options that a checkpoint keeps, as text: calls back with name and value for each. Files are
 * kept by their absolute paths, a line each. */
void options_each_saved(const options *o,
                        void (*each)(void *user, const char *name, const char *value), void *user);
/* Sets a kept option from its text; 0 if no option has that name. `value` must live on. */
int options_set_saved(options *o, const char *name, const char *value);

#endif
