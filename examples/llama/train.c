/* train.c - the training loop. */
#include "train.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "data.h"
#include "disk.h"
#include "dispatch.h"
#include "load.h"
#include "ranks/cards.h"
#include "ranks/ranks.h"
#include "sample.h"
#include "step.h"

static volatile sig_atomic_t told_to_end;

/* The first signal asks for an end after this step; a second one ends at once. */
static void on_signal(int number)
{
    told_to_end = 1;
    signal(number, SIG_DFL);
}

/* SIGUSR1 is the one that mpirun passes on and then leaves time for. */
static void catch_signals(const options *o)
{
    static char advice[4200] = "Nothing is saved without --out.";
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    if (signal(SIGHUP, on_signal) == SIG_IGN) /* of nohup */
        signal(SIGHUP, SIG_IGN);
    if (ranks_count() > 1)
        signal(SIGUSR1, on_signal);
    if (o->out)
        snprintf(advice, sizeof(advice),
                 "%s holds the last checkpoint, if one was saved: go on with --resume.", o->out);
    ranks_watch(&told_to_end, advice);
}

/* The status to end with before the course does, 0: it goes on. A rank has been told to end, or has
 * lost its data; all ranks ask at the same points of the course. */
static int interrupted(const corpus *data)
{
    double reasons[] = {told_to_end, *data->lost != 0};
    ranks_merge(reasons, 2);
    return reasons[0] > 0 ? 130 : reasons[1] > 0;
}

/* Mean loss of the held-out windows, whose batches go to the ranks in turn; NaN if there are none,
 * or none any more. */
static double held_out_loss(model *m, corpus *data)
{
    const options *o = m->o;
    const int64_t windows = data_held_out_windows(data, o);
    const int batches = (int)((windows + o->batch - 1) / o->batch);
    double *sums = take_memory(2 * (size_t)batches * sizeof(*sums)), sum = 0, all = 0;
    double *shares = sums + batches; /* of a batch, in whole windows of targets */
    model_step_place(m, 0);
    const int rings = (int)rings_count(o);
    for (int i = (int)ring_here(o); i < (batches + rings - 1) / rings * rings; i += rings) {
        if (i < batches)
            data_held_out(data, o, i * o->batch, model_windows(m, 0));
        if (i < batches && *data->lost)
            sums[i] = NAN; /* on all ranks, once they are merged */
        if (i >= batches || *data->lost) {
            if (m->dispatch) /* for the tokens of others */
                dispatch_forward_idle(m);
            continue;
        }
        model_micro_batch(m, 0);
        model_forward(m);
        model_loss(m, 0, 0);
        model_fetch_results(m);
        run_wait(m->r);
        shares[i] = (double)model_windows(m, 0)->own / (double)o->seq;
        sums[i] = (double)*model_results(m, 0) * shares[i];
    }
    ranks_merge(sums, 2 * batches);
    for (int i = 0; i < batches; i++) {
        sum += sums[i];
        all += shares[i];
    }
    leave_memory(sums, 2 * (size_t)batches * sizeof(*sums));
    return all > 0 ? sum / all : NAN;
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
    for (int64_t i = 0; i < m->rounds; i++)
        model_products(m, i > 0);
    history_gemms(h)[step] = (float)run_time_end(m->r);
    m->r->profile = profile;
}

static void evaluate(model *m, corpus *data, report *r, history *h, int64_t step)
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

static void save(progress *p)
{
    checkpoint_save(p->m, p->done, p->hash);
    p->saved = p->done;
}

/* What is due after a step, if anything is: then the device has nothing else to do. */
static void between_steps(progress *p)
{
    const options *o = p->m->o;
    const int64_t step = p->put;
    const int evaluates = o->eval_every && step % o->eval_every == 0 && step < o->steps;
    const int saves = o->save_every && step % o->save_every == 0;
    if (!o->profile && !evaluates && !saves)
        return;
    end_steps(p, 0);
    if (o->profile)
        profile_step(p->m, p->h, step, step == p->first + 1 && step < p->last);
    if (evaluates)
        evaluate(p->m, p->data, p->r, p->h, step);
    if (saves)
        save(p);
    begin_time(p);
}

/* Returns the last step that was done. */
static int64_t run_steps(progress p, int *ended)
{
    const options *o = p.m->o;
    if (p.first == 0 && o->eval_every && o->steps)
        evaluate(p.m, p.data, p.r, p.h, 0);
    begin_time(&p);
    for (;;) {
        const int more = p.put < p.last;
        if (more)
            draw_step(&p);
        *ended = interrupted(p.data);
        if (*ended || !more)
            break;
        put_step(&p);
        end_steps(&p, is_apart(p.m->r)); /* the host is a step ahead of a device */
        between_steps(&p);
    }
    end_steps(&p, 0);
    close_progress(&p);
    if (o->out && (p.saved < p.done || p.done == 0)) {
        save(&p);
        report_say(p.r, "saved %s after %lld steps", o->out, (long long)p.done);
    }
    if (*ended == 130 && !o->out)
        report_say(p.r, "interrupted after %lld steps; nothing is saved without --out",
                   (long long)p.done);
    return p.done;
}

static void describe(report *r, const model *m, const corpus *data)
{
    const options *o = m->o;
    report_say(r, "%s: %lld layers, width %lld, %.2f M parameters, %s, %s, %d threads", o->preset,
               (long long)o->layers, (long long)o->width, (double)m->used / 1e6, o->type,
               tg_ctx_device(m->r->ctx), tg_ctx_threads(m->r->ctx));
    if (ranks_count() > 1)
        report_say(r, "%d ranks%s, %lld micro-batches of %lld windows in a step%s", ranks_count(),
                   o->ring > 1 ? " in rings" : "", (long long)o->accumulate, (long long)o->batch,
                   o->accumulate % rings_count(o) ? ": not the same number for each rank" : "");
    report_say(r, "data: %s, %lld to train on, %lld held out", data->what,
               (long long)data->train.count, (long long)data->held_out.count);
    if (!data_held_out_windows(data, o))
        report_say(r, "no held-out loss: that is too little for a window of %lld",
                   (long long)o->seq);
}

static void join_cards(const run *r, const options *o)
{
    const char *device = tg_ctx_device(r->ctx);
    if (strcmp(device, "cuda") && !getenv("LLAMA_NCCL")) /* which may name a stand-in */
        die("on %s there is one rank, not %d: several train on the CPU and on CUDA", device,
            ranks_count());
    if (o->accumulate < rings_count(o))
        die("--accumulate %lld: on CUDA each of %lld %s needs a micro-batch in a step",
            (long long)o->accumulate, (long long)rings_count(o), o->ring > 1 ? "rings" : "ranks");
    cards_open();
}

/* What the run came to, and the memory that it took. */
static void keep_results(history *h, const run *r, const options *o, report *p)
{
    h->tokens_per_s =
        (double)(o->batch * o->seq * o->accumulate) / median(history_seconds(h), h->done + 1);
    h->peak_bytes = peak_memory();
    h->device_bytes = device_memory(r);
    h->returned_bytes = (int64_t)r->returned;
    if (h->device_bytes)
        report_say(p, "memory of %s: %.1f MiB of tensors, %.1f MiB of workspace at most",
                   tg_ctx_device(r->ctx), (double)r->taken / 1048576,
                   (double)tg_ctx_workspace_peak(r->ctx) / 1048576);
}

int train(const options *o, const course *c, history *h)
{
    run r;
    model m;
    corpus data;
    report p;
    run_open(&r, o->device, c->impl, o->threads ? (int)o->threads : ranks_threads());
    if (ranks_count() > 1 && is_apart(&r))
        join_cards(&r, o);
    data_open(&data, o);
    if (o->out)
        checkpoint_prepare(o);
    if (o->plot)
        new_file_try(o->plot);
    model_open(&m, &r, o, !o->eval_only);
    if (o->load)
        load_parameters(&m, o->load);
    const uint64_t hash = o->out && !o->eval_only ? data.hash : 0;
    const int64_t first = o->resume ? checkpoint_load(&m, hash) : 0;
    report_open(&p, o, c->label, first);
    describe(&p, &m, &data);
    catch_signals(o);
    r.profile = (int)o->profile;
    const int64_t asked = o->stop_after ? first + o->stop_after : o->steps;
    int ended = 0;
    const int64_t last = o->eval_only
                             ? first
                             : run_steps((progress){.m = &m,
                                                    .data = &data,
                                                    .r = &p,
                                                    .h = h,
                                                    .hash = hash,
                                                    .first = first,
                                                    .last = asked < o->steps ? asked : o->steps,
                                                    .saved = first,
                                                    .put = first,
                                                    .done = first},
                                         &ended);
    r.profile = 0;
    if (o->profile && last > first)
        report_costs(&m, h, first + 1 < last ? first + 1 : first, last);
    if (!ended) {
        evaluate(&m, &data, &p, h, last);
        ended = interrupted(&data);
    }
    if (*data.lost)
        fprintf(stderr, "llama: %s: the course ends after %lld steps%s\n", data.lost,
                (long long)last, o->out ? "" : "; nothing is saved without --out");
    keep_results(h, &r, o, &p);
    report_close(&p, h);
    if (c->sample && o->sample && !ended) {
        if (m.dispatch)
            dispatch_collect(&m);
        if (ranks_here() == 0)
            sample_text(&m);
    }
    run_close(&r);
    return ended ? ended : p.log_lost;
}
