/* tokens.h - log-probabilities of chosen tokens and their gradient: what selective_log_softmax
 * and grpo_loss share. */
#ifndef TOKENS_H
#define TOKENS_H

#include "ascend.h"

/* A call of either direction. */
typedef struct tokens_call {
    const tg_tensor *logits, *target, *mask;
    const tg_tensor *lse;     /* an output of forward, which may be NULL; what backward was given */
    const tg_tensor *logp;    /* forward: to write; backward: its gradient */
    const tg_tensor *dlogits; /* backward alone */
    double temperature;
    tg_tensor selected;   /* targets: as they are, or with a mask taken in */
    ascend_memory counts; /* how many of them are kept, in parts, if there is a mask */
    int64_t count_blocks;
    int if_any; /* forward: writes nothing if the counts say that there is no token */
} tokens_call;

/* First of all: takes in the mask. Without targets a token that it keeps has target 0. */
tg_status ascend_select_tokens(tg_ctx *ctx, tokens_call *c);

tg_status ascend_tokens(tg_ctx *ctx, const tokens_call *c);

/* Temperatures whose reciprocal may be multiplied by logits. */
int ascend_takes_temperature(double temperature);

#endif
