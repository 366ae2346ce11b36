/* lessons.c - language modelling and distillation. The third lesson, GRPO, is grpo.c. */
#include "lessons.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TEACHER_STEPS = 150, WARMUP = 10 };

static unsigned char text[1 << 20];
static int64_t text_size;

void lessons_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    text_size = file ? (int64_t)fread(text, 1, sizeof(text), file) : 0;
    if (text_size < 4096) {
        printf("%s: cannot be read, or is shorter than 4096 bytes\n", path);
        exit(1);
    }
    fclose(file);
}

void lessons_load(net *n, tensor *target, int64_t first)
{
    const int64_t seq = n->o.seq;
    for (int64_t i = 0; i < n->rows; i++) {
        const double draw = uniform(7, (uint64_t)(first + i / seq));
        const int64_t at = (int64_t)(draw * (double)(text_size - seq)) + i % seq;
        integers(&n->tokens)[i] = text[at];
        if (target)
            integers(target)[i] = text[at + 1];
    }
}

double course_rate(const course *c, int64_t step)
{
    return step < WARMUP ? c->rate * (double)step / WARMUP : c->rate;
}

void course_open(course *c, const lesson *l, const norm_kind *kind, tg_type type, double rate,
                 tg_ctx *ctx, tg_ctx *plain)
{
    *c = (course){.l = l, .rate = rate, .plain = plain};
    const net_options o = {kind, type, TG_F32, l->vocab, l->batch, l->seq, 1};
    net_open(&c->n, ctx, &o);
    net_tensor(&c->n, &c->target, TG_I64, SHAPE(c->n.rows));
    net_tensor(&c->n, &c->logits, type, SHAPE(c->n.rows, l->vocab));
    net_tensor(&c->n, &c->dlogits, type, SHAPE(c->n.rows, l->vocab));
    c->loss.shape[0] = 1;
    c->loss.t = tg_tensor_of(&c->value, TG_F32, 1, c->loss.shape);
    if (l->open)
        l->open(c);
}

void course_logits(net *n, tensor *logits)
{
    CALL(n->ctx, gemm, .a = &n->last.y.t, .b = &n->embed.p.t, .c = &logits->t, .trans_b = 1);
}

void course_logits_back(course *c)
{
    net *n = &c->n;
    CALL(n->ctx, gemm, .a = &c->dlogits.t, .b = &n->embed.p.t, .c = &n->dy.t);
    CALL(n->ctx, gemm, .a = &c->dlogits.t, .b = &n->last.y.t, .c = &n->embed.g.t, .trans_a = 1);
}

void course_close(course *c)
{
    net_close(&c->n);
    net_close(&c->other);
}

/* ---- the next byte ---- */

static void language_update(course *c, net *n, int64_t step, double rate)
{
    lessons_load(n, &c->target, step * n->o.batch);
    net_forward(n);
    CALL(n->ctx, fused_linear_cross_entropy_forward, .x = &n->last.y.t, .weight = &n->embed.p.t,
         .target = &c->target.t, .loss = &c->loss.t, .dx = &n->dy.t, .dweight = &n->embed.g.t);
    net_backward(n, 0);
    net_update(n, rate);
}

static double language_step(course *c, int64_t step)
{
    language_update(c, &c->n, step, course_rate(c, step));
    return (double)c->value;
}

const lesson language = {NULL, language_step, NULL, 256, 4, 64};

/* ---- distillation ---- */

/* The teacher: a net of another seed that has read the text for a while, on the default implementations. */
static void distill_open(course *c)
{
    net_options o = c->n.o;
    o.seed = 2;
    net_open(&c->other, c->plain, &o);
    net_tensor(&c->other, &c->logits2, o.type, SHAPE(c->n.rows, o.vocab));
    for (int64_t step = 1; step <= TEACHER_STEPS; step++)
        language_update(c, &c->other, TEACHER_STEPS + step, 3e-3);
}

static double distill_step(course *c, int64_t step)
{
    lessons_load(&c->n, NULL, step * c->n.o.batch);
    lessons_load(&c->other, NULL, step * c->n.o.batch);
    net_forward(&c->other);
    net_forward(&c->n);
    c->l->loss(c);
    net_backward(&c->n, 0);
    net_update(&c->n, course_rate(c, step));
    return (double)c->value;
}

static void fused_jsd(course *c)
{
    net *n = &c->n, *t = &c->other;
    CALL(n->ctx, fused_linear_jsd_forward, .x = &n->last.y.t, .weight = &n->embed.p.t,
         .teacher_x = &t->last.y.t, .teacher_weight = &t->embed.p.t, .loss = &c->loss.t,
         .dx = &n->dy.t, .dweight = &n->embed.g.t);
}

/* Logits to their log-probabilities, in place: no operator, since the fused losses need none. */
static void log_softmax(tensor *z)
{
    const int64_t vocab = z->shape[1];
    for (int64_t row = 0; row < z->shape[0]; row++) {
        double sum = 0;
        for (int64_t i = row * vocab; i < (row + 1) * vocab; i++)
            sum += exp(get(z, i));
        for (int64_t i = row * vocab; i < (row + 1) * vocab; i++)
            put(z, i, get(z, i) - log(sum));
    }
}

/* d, the gradient of log-probabilities logp, becomes that of the logits: d - exp(logp) sum(d). */
static void log_softmax_back(tensor *d, const tensor *logp)
{
    const int64_t vocab = d->shape[1];
    for (int64_t row = 0; row < d->shape[0]; row++) {
        double sum = 0;
        for (int64_t i = row * vocab; i < (row + 1) * vocab; i++)
            sum += get(d, i);
        for (int64_t i = row * vocab; i < (row + 1) * vocab; i++)
            put(d, i, get(d, i) - exp(get(logp, i)) * sum);
    }
}

static void both_log_softmax(course *c)
{
    course_logits(&c->n, &c->logits);
    course_logits(&c->other, &c->logits2);
    log_softmax(&c->logits);
    log_softmax(&c->logits2);
}

static void jsd(course *c)
{
    both_log_softmax(c);
    CALL(c->n.ctx, jsd_forward, .student = &c->logits.t, .teacher = &c->logits2.t,
         .loss = &c->loss.t, .dstudent = &c->dlogits.t);
    log_softmax_back(&c->dlogits, &c->logits);
    course_logits_back(c);
}

static void kl_div(course *c)
{
    both_log_softmax(c);
    CALL(c->n.ctx, kl_div_forward, .y_pred = &c->logits.t, .y_true = &c->logits2.t,
         .loss = &c->loss.t, .dy_pred = &c->dlogits.t, .reduction = TG_BATCHMEAN, .log_target = 1);
    log_softmax_back(&c->dlogits, &c->logits);
    course_logits_back(c);
}

static void tvd(course *c)
{
    tg_ctx *ctx = c->n.ctx;
    tensor *p = &c->logits, *q = &c->logits2, *d = &c->dlogits;
    course_logits(&c->n, p);
    course_logits(&c->other, q);
    CALL(ctx, softmax_forward, .x = &p->t, .y = &p->t);
    CALL(c->plain, softmax_forward, .x = &q->t, .y = &q->t);
    CALL(ctx, tvd_forward, .p = &p->t, .q = &q->t, .loss = &c->loss.t, .dp = &d->t,
         .reduction = TG_BATCHMEAN);
    CALL(ctx, softmax_backward, .dy = &d->t, .y = &p->t, .dx = &d->t);
    course_logits_back(c);
}

const lesson distill_fused = {distill_open, distill_step, fused_jsd, 256, 4, 64};
const lesson distill_jsd = {distill_open, distill_step, jsd, 256, 4, 64};
const lesson distill_kl_div = {distill_open, distill_step, kl_div, 256, 4, 64};
const lesson distill_tvd = {distill_open, distill_step, tvd, 256, 4, 64};
