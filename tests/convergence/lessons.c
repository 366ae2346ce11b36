/* lessons.c - language modelling and distillation. The third lesson, GRPO, is grpo.c. */
#include "lessons.h"

#include "../../examples/llama/gradients.h"
#include "../../examples/llama/optimizer.h"

enum { TEACHER_STEPS = 150, WARMUP = 10 };

/* ---- a model and its run ---- */

options lesson_options(const lesson *l, const char *type, double rate)
{
    options o;
    options_preset(&o, "tiny");
    o.type = type;
    o.layers = 2;
    o.width = 64;
    o.heads = o.kv_heads = 4;
    o.ff = 128;
    o.vocab = l->vocab;
    o.batch = l->batch;
    o.seq = l->seq;
    o.accumulate = 1;
    o.warmup = WARMUP;
    o.lr = o.min_lr = rate;
    o.recompute = RECOMPUTE_NOTHING;
    return o;
}

void lesson_text(corpus *c, const char *path)
{
    options o = lesson_options(&language, "f32", 1e-3);
    o.data = (files){.count = 1, .path = {path}};
    data_open(c, &o);
}

float learner_parameter(const learner *n, int64_t i)
{
    return n->m.master ? n->m.master[shards_place(&n->m.shards, i)]
                       : ((const float *)n->m.param)[i];
}

/* Matrices begin so many times as large as the trainer makes them for its sizes. */
static void enlarge(learner *n, float times)
{
    for (int64_t i = 0; i < n->m.decayed; i++)
        model_set(&n->m, i, times * learner_parameter(n, i));
}

void learner_open(learner *n, const lesson *l, const options *o, const char *impl,
                  const char *cpu_max)
{
    n->o = *o;
    n->updates = 0;
    run_open(&n->r, "cpu", impl, 0);
    for (int i = -1; i < tg_ctx_threads(n->r.ctx); i++)
        if (tg_ctx_set_cpu_max(i < 0 ? n->r.ctx : n->r.alone[i], cpu_max) != TG_OK)
            die("%s", tg_last_error());
    model_open(&n->m, &n->r, &n->o, 1);
    enlarge(n, l->times);
}

void learner_close(learner *n)
{
    run_close(&n->r);
}

void learner_update(learner *n)
{
    gradients_squares(&n->m);
    optimizer_step(&n->m, ++n->updates);
}

void take_array(learner *n, array *a, tg_type type, int ndim, const int64_t *shape)
{
    array_set(&n->m, a, NULL, type, ndim, shape);
    a->t.data = take_tensors(&n->r, (size_t)tg_numel(&a->t) * tg_type_size(type));
}

/* ---- a course ---- */

void course_open(course *c, const lesson *l, corpus *text, const options *o, const char *impl,
                 const char *cpu_max)
{
    *c = (course){.l = l, .text = text};
    learner_open(&c->n, l, o, impl, cpu_max);
    take_array(&c->n, &c->logits, c->n.m.type, SHAPE(c->n.m.rows, l->vocab));
    take_array(&c->n, &c->dlogits, c->n.m.type, SHAPE(c->n.m.rows, l->vocab));
    if (l->open)
        l->open(c);
}

void course_close(course *c)
{
    learner_close(&c->n);
    if (c->l->open)
        learner_close(&c->other);
}

double course_loss(const course *c)
{
    return get(&c->n.m.loss.t, 0);
}

void course_logits(learner *n, array *logits)
{
    CALL(&n->r, gemm, .a = &n->m.y.t, .b = &n->m.embed.p.t, .c = &logits->t, .trans_b = 1);
}

void course_logits_back(course *c)
{
    model *m = &c->n.m;
    CALL(m->r, gemm, .a = &c->dlogits.t, .b = &m->embed.p.t, .c = &m->d.t);
    CALL(m->r, gemm, .a = &c->dlogits.t, .b = &m->y.t, .c = &m->embed.g.t, .trans_a = 1);
}

/* ---- the next byte ---- */

static void read_text(const course *c, learner *n, int64_t step)
{
    data_train(c->text, &n->o, step * n->o.batch, model_windows(&n->m, 0));
}

static void language_update(const course *c, learner *n, int64_t step)
{
    read_text(c, n, step);
    gradients_round(&n->m, 0);
    learner_update(n);
}

static double language_step(course *c, int64_t step)
{
    language_update(c, &c->n, step);
    return course_loss(c);
}

const lesson language = {NULL, language_step, NULL, 256, 4, 64, 6};

/* ---- distillation ---- */

/* The teacher: a model of another seed that has read the text for a while, on the
 * default implementations. */
static void distill_open(course *c)
{
    options o = lesson_options(c->l, c->n.o.type, 3e-3);
    o.seed = 2;
    learner_open(&c->other, c->l, &o, NULL, NULL);
    take_array(&c->other, &c->logits2, c->other.m.type, SHAPE(c->other.m.rows, o.vocab));
    for (int64_t step = 1; step <= TEACHER_STEPS; step++)
        language_update(c, &c->other, TEACHER_STEPS + step);
}

static double distill_step(course *c, int64_t step)
{
    read_text(c, &c->n, step);
    read_text(c, &c->other, step);
    model_forward(&c->other.m);
    model_forward(&c->n.m);
    c->l->loss(c);
    model_backward(&c->n.m, 0);
    learner_update(&c->n);
    return course_loss(c);
}

static void fused_jsd(course *c)
{
    model *m = &c->n.m, *t = &c->other.m;
    CALL(m->r, fused_linear_jsd_forward, .x = &m->y.t, .weight = &m->embed.p.t,
         .teacher_x = &t->y.t, .teacher_weight = &t->embed.p.t, .loss = &m->loss.t, .dx = &m->d.t,
         .dweight = &m->embed.g.t);
}

/* Logits to their log-probabilities, in place: no operator, since the fused losses need none. */
static void log_softmax(const tg_tensor *z)
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
static void log_softmax_back(const tg_tensor *d, const tg_tensor *logp)
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
    log_softmax(&c->logits.t);
    log_softmax(&c->logits2.t);
}

static void jsd(course *c)
{
    both_log_softmax(c);
    CALL(&c->n.r, jsd_forward, .student = &c->logits.t, .teacher = &c->logits2.t,
         .loss = &c->n.m.loss.t, .dstudent = &c->dlogits.t);
    log_softmax_back(&c->dlogits.t, &c->logits.t);
    course_logits_back(c);
}

static void kl_div(course *c)
{
    both_log_softmax(c);
    CALL(&c->n.r, kl_div_forward, .y_pred = &c->logits.t, .y_true = &c->logits2.t,
         .loss = &c->n.m.loss.t, .dy_pred = &c->dlogits.t, .reduction = TG_BATCHMEAN,
         .log_target = 1);
    log_softmax_back(&c->dlogits.t, &c->logits.t);
    course_logits_back(c);
}

static void tvd(course *c)
{
    run *r = &c->n.r;
    array *p = &c->logits, *q = &c->logits2, *d = &c->dlogits;
    course_logits(&c->n, p);
    course_logits(&c->other, q);
    CALL(r, softmax_forward, .x = &p->t, .y = &p->t);
    CALL(&c->other.r, softmax_forward, .x = &q->t, .y = &q->t);
    CALL(r, tvd_forward, .p = &p->t, .q = &q->t, .loss = &c->n.m.loss.t, .dp = &d->t,
         .reduction = TG_BATCHMEAN);
    CALL(r, softmax_backward, .dy = &d->t, .y = &p->t, .dx = &d->t);
    course_logits_back(c);
}

const lesson distill_fused = {distill_open, distill_step, fused_jsd, 256, 4, 64, 6};
const lesson distill_jsd = {distill_open, distill_step, jsd, 256, 4, 64, 6};
const lesson distill_kl_div = {distill_open, distill_step, kl_div, 256, 4, 64, 6};
const lesson distill_tvd = {distill_open, distill_step, tvd, 256, 4, 64, 6};
