/* grpo.c - the lesson of a reward: a prompt is one token, a completion the LENGTH tokens behind it,
 * its reward the fraction of them that lie in the first quarter of the vocabulary. GROUP
 * completions of one prompt are compared with each other.
 *
 * Each step: completions, rewards, advantages; the log-probabilities of the policy as it was then
 * and of the frozen reference; UPDATES steps of AdamW on grpo_loss.
 *
 * grpo_fixed learns for ever from one draw of completions that does not depend on the policy, so
 * that its curve, the loss, can be compared from step to step. grpo_own draws from the policy
 * itself, with the same random numbers in every course; a rounding can turn a token there and, with
 * it, all that follow. Its curve is the reward. */
#include "lessons.h"

enum { VOCAB = 32, BATCH = 32, GROUP = 8, LENGTH = 15, UPDATES = 2 };

static void grpo_open(course *c)
{
    learner *n = &c->n, *r = &c->other;
    learner_open(r, c->l, &n->o, NULL,
                 NULL); /* of the same seed: the policy before its first step */
    take_array(r, &c->logits2, r->m.type, SHAPE(r->m.rows, VOCAB));
    take_array(n, &c->target, TG_I64, SHAPE(BATCH, LENGTH));
    take_array(n, &c->advantages, TG_F32, SHAPE(BATCH));
    take_array(n, &c->old_logp, TG_F32, SHAPE(BATCH, LENGTH));
    take_array(n, &c->ref_logp, TG_F32, SHAPE(BATCH, LENGTH));
    take_array(n, &c->lse, TG_F32, SHAPE(BATCH, LENGTH));
}

/* A number in [0, 1) from a place: no state, so every implementation sees the same draws. */
static double uniform(int64_t place)
{
    return (double)(hash_at(11, (uint64_t)place) >> 11) / 9007199254740992.0;
}

/* The token that a draw chooses by the logits of a row. */
static int64_t choose(const tg_tensor *logits, int64_t row, double draw)
{
    double sum = 0;
    for (int64_t i = 0; i < VOCAB; i++)
        sum += exp(get(logits, row * VOCAB + i));
    int64_t token = 0;
    for (double left = draw * sum; token < VOCAB - 1; token++) {
        left -= exp(get(logits, row * VOCAB + token));
        if (left < 0)
            break;
    }
    return token;
}

/* Prompts and completions into the tokens of both nets; `own`: by the policy, otherwise every token
 * is as likely. */
static void complete(course *c, int64_t step, int own)
{
    int64_t *tokens = c->n.m.input_data, *target = tg_data(&c->target.t);
    for (int64_t b = 0; b < BATCH; b++)
        tokens[b * (LENGTH + 1)] = (step * (BATCH / GROUP) + b / GROUP) % VOCAB;
    for (int64_t at = 1; at <= LENGTH; at++) {
        if (own) { /* what stands behind is not seen: attention is causal */
            model_forward(&c->n.m);
            course_logits(&c->n, &c->logits);
        }
        for (int64_t b = 0; b < BATCH; b++) {
            const int64_t row = b * (LENGTH + 1) + at - 1;
            const double draw = uniform((step * BATCH + b) * LENGTH + at);
            tokens[row + 1] = own ? choose(&c->logits.t, row, draw) : (int64_t)(draw * VOCAB);
        }
    }
    for (int64_t i = 0; i < c->n.m.rows; i++)
        c->other.m.input_data[i] = tokens[i];
    for (int64_t i = 0; i < BATCH * LENGTH; i++)
        target[i] = tokens[i / LENGTH * (LENGTH + 1) + i % LENGTH + 1];
}

/* Advantages within each group; returns the mean reward. */
static double judge(course *c)
{
    const int64_t *target = tg_data(&c->target.t);
    double reward[BATCH] = {0}, all = 0;
    for (int64_t i = 0; i < BATCH * LENGTH; i++)
        reward[i / LENGTH] += target[i] < VOCAB / 4 ? 1.0 / LENGTH : 0;
    for (int64_t g = 0; g < BATCH; g += GROUP) {
        double sum = 0, squares = 0;
        for (int64_t b = g; b < g + GROUP; b++) {
            sum += reward[b];
            squares += reward[b] * reward[b];
        }
        const double mean = sum / GROUP, deviation = sqrt(fmax(squares / GROUP - mean * mean, 0));
        for (int64_t b = g; b < g + GROUP; b++)
            put(&c->advantages.t, b, (reward[b] - mean) / (deviation + 1e-4));
        all += sum / BATCH;
    }
    return all;
}

/* A matrix of logits as [batch, length + 1, vocab]. */
static tg_tensor by_sequence(const array *logits)
{
    static const int64_t shape[3] = {BATCH, LENGTH + 1, VOCAB};
    return tg_tensor_of(logits->t.data, (tg_type)tg_type_of(&logits->t), 3, shape);
}

static void log_probabilities(course *c, learner *n, array *logits, array *logp)
{
    model_forward(&n->m);
    course_logits(n, logits);
    const tg_tensor view = by_sequence(logits);
    CALL(&n->r, selective_log_softmax_forward, .logits = &view, .target = &c->target.t,
         .logp = &logp->t, .temperature = 1);
}

static void update(course *c)
{
    const double beta = 0.04; /* weight of the divergence from the reference */
    learner *n = &c->n;
    model_forward(&n->m);
    course_logits(n, &c->logits);
    const tg_tensor logits = by_sequence(&c->logits);
    tg_tensor dlogits = by_sequence(&c->dlogits);
    CALL(&n->r, grpo_loss_forward, .logits = &logits, .target = &c->target.t,
         .advantages = &c->advantages.t, .old_logp = &c->old_logp.t, .ref_logp = &c->ref_logp.t,
         .loss = &n->m.loss.t, .lse = &c->lse.t, .temperature = 1, .beta = beta);
    CALL(&n->r, grpo_loss_backward, .logits = &logits, .target = &c->target.t,
         .advantages = &c->advantages.t, .old_logp = &c->old_logp.t, .ref_logp = &c->ref_logp.t,
         .lse = &c->lse.t, .dlogits = &dlogits, .temperature = 1, .beta = beta);
    course_logits_back(c);
    model_backward(&n->m, 0);
    learner_update(n);
}

static double grpo_step(course *c, int64_t step, int own)
{
    double reward = 0;
    if (own || step == 1) {
        complete(c, step, own);
        reward = judge(c);
        log_probabilities(c, &c->n, &c->logits, &c->old_logp);
        log_probabilities(c, &c->other, &c->logits2, &c->ref_logp);
    }
    for (int i = 0; i < UPDATES; i++)
        update(c);
    return own ? reward : course_loss(c);
}

static double fixed_step(course *c, int64_t step)
{
    return grpo_step(c, step, 0);
}

static double own_step(course *c, int64_t step)
{
    return grpo_step(c, step, 1);
}

const lesson grpo_fixed = {grpo_open, fixed_step, NULL, VOCAB, BATCH, LENGTH + 1, 1};
const lesson grpo_own = {grpo_open, own_step, NULL, VOCAB, BATCH, LENGTH + 1, 1};
