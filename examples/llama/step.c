/* step.c - a step of the course, and the two of them that are under way at a time. */
#include "step.h"

#include <math.h>

#include "gradients.h"
#include "optimizer.h"
#include "ranks/ranks.h"

/* Gradients of all micro-batches, and their sum of squares: calls that are the
 * same in each step. */
static void make_gradients(model *m)
{
    for (int64_t i = 0; i < m->rounds; i++)
        gradients_round(m, i);
    gradients_squares(m);
}

static void drop_graphs(progress *p)
{
    run_wait(p->m->r); /* for those that are under way */
    for (int i = 0; i < 2; i++) {
        tg_graph_destroy(p->m->r->ctx, p->gradients[i]);
        p->gradients[i] = NULL;
    }
    p->calls_made = 0;
}

/* If a step has more documents than there is room for, calls with more room take other workspace,
 * and are recorded anew. */
static void make_room(progress *p)
{
    for (int64_t i = 0; i < p->m->o->accumulate; i++)
        model_make_room(p->m, i);
    if (p->room != p->m->room)
        drop_graphs(p);
    p->room = p->m->room;
}

/* The same, recorded as soon as the workspace has all that they need, and launched as a whole from
 * then on, with what cards say to each other. */
static void put_gradients(progress *p)
{
    model *m = p->m;
    tg_graph **graph = &p->gradients[m->place];
    make_room(p);
    const int can = p->calls_made > 0 && !m->r->profile && !m->dispatch;
    if (!*graph && can && run_record(m->r)) {
        make_gradients(m);
        *graph = run_recorded(m->r);
    }
    if (*graph) {
        run_launch(m->r, *graph);
    } else {
        make_gradients(m);
        p->calls_made++;
    }
}

void draw_step(progress *p)
{
    model *m = p->m;
    const options *o = m->o;
    model_step_place(m, (p->put + 1) % 2);
    for (int64_t i = 0; i < o->accumulate && !*p->data->lost; i++)
        data_train(p->data, o, (p->put * o->accumulate + i) * o->batch, model_windows(m, i));
    model_weigh(m);
}

void put_step(progress *p)
{
    model *m = p->m;
    const int64_t step = ++p->put;
    put_gradients(p);
    optimizer_step(m, step);
    model_fetch_results(m);
    run_mark(m->r, &p->results[m->place]);
}

/* The mean of the losses of all targets. On cards each rank has those of its own micro-batches, and
 * of these those of its own targets. */
static double mean_loss(const model *m, int64_t place)
{
    const int64_t n = m->o->accumulate, apart = is_apart(m->r), rings = rings_count(m->o);
    const float *results = model_results(m, place);
    const windows *drawn = &m->drawn[place * n];
    double sum = 0, all = 0;
    for (int64_t i = 0; i < n; i++)
        all += (double)drawn[i].targets;
    for (int64_t i = 0; i < n && all > 0; i++)
        if (!apart || i % rings == ring_here(m->o))
            sum += (double)results[i] * (double)(apart ? drawn[i].own : drawn[i].targets) / all;
    if (apart)
        ranks_merge(&sum, 1);
    return sum;
}

/* Waits for the oldest step that has not ended. */
static event end_step(progress *p)
{
    const options *o = p->m->o;
    const int64_t step = ++p->done;
    event e = {.step = step, .lr = learning_rate(o, step)};
    run_wait_for(p->m->r, p->results[step % 2]);
    e.loss = mean_loss(p->m, step % 2);
    e.norm = sqrt((double)model_results(p->m, step % 2)[o->accumulate]);
    if (!isfinite(e.loss) || !isfinite(e.norm))
        die("step %lld: the loss is %g, the gradient norm %g: stopped before the parameters "
            "change; "
            "a smaller --lr or --clip, a longer --warmup or --type f32 may help",
            (long long)step, e.loss, e.norm);
    const double at = now(), spent = p->m->r->spent;
    e.seconds = p->m->r->profile && is_apart(p->m->r) ? spent - p->spent : at - p->since;
    e.tokens = (double)(o->batch * o->seq * o->accumulate);
    p->since = at;
    p->spent = spent;
    return e;
}

static void note(history *h, const event *e)
{
    history_loss(h)[e->step] = (float)e->loss;
    history_norm(h)[e->step] = (float)e->norm;
    history_seconds(h)[e->step] = (float)e->seconds;
    h->done = e->step;
}

void end_steps(progress *p, int64_t ahead)
{
    while (p->put - p->done > ahead) {
        const event e = end_step(p);
        note(p->h, &e);
        report_step(p->r, &e);
    }
}

void begin_time(progress *p)
{
    p->since = now();
    p->spent = p->m->r->spent;
}

void close_progress(progress *p)
{
    drop_graphs(p);
    for (int i = 0; i < 2; i++)
        tg_event_destroy(p->m->r->ctx, p->results[i]);
}
