/* train.c - the training loop. */
#include "train.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint.h"
#include "data.h"
#include "load.h"
#include "optimizer.h"
#include "sample.h"

static volatile sig_atomic_t interrupted;

/* The first signal asks for an end after this step; a second one ends at once. */
static void on_signal(int number)
{
    interrupted = 1;
    signal(number, SIG_DFL);
}

static void catch_signals(void)
{
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
}

/* Mean loss of the held-out windows; NaN if there are none. */
static double held_out_loss(model *m, const corpus *data)
{
    const options *o = m->o;
    const int64_t windows = data_held_out_windows(data, o);
    double sum = 0;
    model_micro_batch(m, 0);
    for (int64_t w = 0; w < windows; w += o->batch) {
        const int64_t there = data_held_out(data, o, w, m->input_data, m->target_data);
        model_forward(m);
        model_loss(m, 0, 0);
        sum += (double)*model_results(m) * (double)there;
    }
    return windows ? sum / (double)windows : NAN;
}

/* One step: gradients of all micro-batches, then the parameters. The host waits once for the device, for the losses and the norm,
 * and for the end. */
static event one_step(model *m, const corpus *data, int64_t step)
{
    const options *o = m->o;
    const double begin = now(), spent = m->r->spent;
    event e = {.step = step, .lr = learning_rate(o, step)};
    for (int64_t i = 0; i < o->accumulate; i++) {
        const int64_t window = ((step - 1) * o->accumulate + i) * o->batch;
        model_micro_batch(m, i);
        data_train(data, o, window, m->input_data, m->target_data);
        model_forward(m);
        model_loss(m, 1, i > 0);
        model_backward(m, i > 0);
    }
    gradient_squares(m);
    const float *results = model_results(m);
    for (int64_t i = 0; i < o->accumulate; i++)
        e.loss += (double)results[i] / (double)o->accumulate;
    e.norm = sqrt((double)results[o->accumulate]);
    if (!isfinite(e.loss) || !isfinite(e.norm))
        die("step %lld: the loss is %g, the gradient norm %g: stopped before the parameters "
            "change; "
            "a smaller --lr or --clip, a longer --warmup or --type f32 may help",
            (long long)step, e.loss, e.norm);
    optimizer_step(m, step, e.norm);
    run_wait(m->r);
    e.seconds = m->r->profile && is_apart(m->r) ? m->r->spent - spent : now() - begin;
    e.tokens = (double)(o->batch * o->seq * o->accumulate);
    return e;
}

static void note(history *h, const event *e)
{
    history_loss(h)[e->step] = (float)e->loss;
    history_norm(h)[e->step] = (float)e->norm;
    history_seconds(h)[e->step] = (float)e->seconds;
    h->done = e->step;
}

/* With --profile: the step's products alone, right after it, so that both meet the same machine.
 * They overwrite gradients and activations, which the step has used up. The first step, which
 * touches all memory for the first time, is booked only if it is the only one. */
static void profile_step(model *m, history *h, int64_t step, int first)
{
    if (first)
        m->r->ncosts = 0;
    const int profile = m->r->profile;
    m->r->profile = 0;
    run_time_begin(m->r);
    for (int64_t i = 0; i < m->o->accumulate; i++)
        model_products(m, i > 0);
    history_gemms(h)[step] = (float)run_time_end(m->r);
    m->r->profile = profile;
}

static void evaluate(model *m, const corpus *data, report *r, history *h, int64_t step)
{
    const int profile = m->r->profile;
    m->r->profile = 0;
    const double loss = held_out_loss(m, data);
    m->r->profile = profile;
    if (isnan(loss))
        return;
    history_held_out(h)[step] = (float)loss;
    h->held_out = loss;
    report_held_out(r, step, loss);
}

/* Steps from `first` + 1 on; returns the last one done. */
static int64_t run_steps(model *m, const corpus *data, uint64_t hash, report *r, history *h,
                         int64_t first)
{
    const options *o = m->o;
    int64_t step = first, saved = first;
    const int64_t stop = o->stop_after ? first + o->stop_after : o->steps;
    if (step == 0 && o->eval_every && o->steps)
        evaluate(m, data, r, h, 0);
    while (step < o->steps && step < stop && !interrupted) {
        const event e = one_step(m, data, ++step);
        note(h, &e);
        report_step(r, &e);
        if (o->profile)
            profile_step(m, h, step, step == first + 1 && step < stop && step < o->steps);
        if (o->eval_every && step % o->eval_every == 0 && step < o->steps)
            evaluate(m, data, r, h, step);
        if (o->save_every && step % o->save_every == 0) {
            checkpoint_save(m, step, hash);
            saved = step;
        }
    }
    if (o->out && (saved < step || step == 0)) {
        checkpoint_save(m, step, hash);
        report_say(r, "saved %s after %lld steps", o->out, (long long)step);
    }
    if (interrupted && !o->out)
        report_say(r, "interrupted after %lld steps; nothing is saved without --out",
                   (long long)step);
    return step;
}

static void describe(report *r, const model *m, const corpus *data)
{
    const options *o = m->o;
    report_say(r, "%s: %lld layers, width %lld, %.2f M parameters, %s, %s, %d threads", o->preset,
               (long long)o->layers, (long long)o->width, (double)m->used / 1e6, o->type,
               tg_ctx_device(m->r->ctx), tg_ctx_threads(m->r->ctx));
    report_say(r, "data: %s, %lld to train on, %lld held out", data->what,
               (long long)data->train.count, (long long)data->held_out.count);
    if (!data_held_out_windows(data, o))
        report_say(r, "no held-out loss: that is too little for a window of %lld",
                   (long long)o->seq);
}

int train(const options *o, const course *c, history *h)
{
    run r;
    model m;
    corpus data;
    report p;
    run_open(&r, o->device, c->impl, (int)o->threads);
    data_open(&data, o);
    if (o->out)
        checkpoint_prepare(o);
    model_open(&m, &r, o, !o->eval_only);
    if (o->load)
        load_parameters(&m, o->load);
    const uint64_t hash = o->out && !o->eval_only ? data_hash(&data) : 0;
    const int64_t first = o->resume ? checkpoint_load(&m, hash) : 0;
    report_open(&p, o, c->label, first);
    describe(&p, &m, &data);
    catch_signals();
    r.profile = (int)o->profile;
    const int64_t last = o->eval_only ? first : run_steps(&m, &data, hash, &p, h, first);
    r.profile = 0;
    if (o->profile && last > first)
        report_costs(&m, h, first + 1 < last ? first + 1 : first, last);
    if (!interrupted)
        evaluate(&m, &data, &p, h, last);
    h->tokens_per_s =
        (double)(o->batch * o->seq * o->accumulate) / median(history_seconds(h), h->done + 1);
    h->peak_bytes = peak_memory();
    h->device_bytes = device_memory(&r);
    h->returned_bytes = (int64_t)r.returned;
    if (h->device_bytes)
        report_say(&p, "memory of %s: %.1f MiB of tensors, %.1f MiB of workspace at most",
                   tg_ctx_device(r.ctx), (double)r.taken / 1048576,
                   (double)tg_ctx_workspace_peak(r.ctx) / 1048576);
    report_close(&p, h);
    if (c->sample && o->sample && !interrupted)
        sample_text(&m);
    run_close(&r);
    return interrupted ? 130 : 0;
}
