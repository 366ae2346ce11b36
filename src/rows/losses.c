/* src/rows/losses.c - losses of elements: from tensors to parts of rows, and the sum. */
#include <string.h>

#include "rows/losses.h"
#include "runs.h"

/* PIECE: elements of a row that are summed in f32, and the least that is worth a thread. SCRATCH:
 * floats of a worker. */
enum { PIECE = 8192, SCRATCH = 3 * RUN_FLOATS(PIECE) };

enum { X, TARGET, D };

typedef struct run {
    loss_job *job;
    loss_visit_fn visit;
} run;

/* ---- from tensors to a job ---- */

static int is_mixed(const loss_job *j)
{
    return j->types[X] != j->types[TARGET] || j->types[D] != j->types[TARGET];
}

static int is_compact(const operand *o, int64_t n, int size)
{
    return !o->data || o->stride == n * size;
}

static int one_row(const loss_job *j)
{
    const int64_t n = j->all.n;
    return !j->labels.of && is_compact(&j->x, n, el_size(j->types[X])) &&
           is_compact(&j->target, n, el_size(j->types[TARGET])) &&
           is_compact(&j->d, n, el_size(j->types[D])) && is_compact(&j->dloss, n, 4) &&
           is_compact(&j->loss, n, 4);
}

tg_status loss_begin(tg_ctx *ctx, const loss_call *c, loss_job *j)
{
    const tg_rows rows = tg_rows_of(c->target);
    const el type = (el)tg_el(rows.type);
    *j = (loss_job){.types = {c->x ? el_of(c->x) : type, type, c->d ? el_of(c->d) : type},
                    .each = c->reduction == TG_NONE,
                    .all = {.rows = rows.rows, .n = rows.n, .size = PIECE},
                    .x = operand_of(c->x),
                    .target = operand_of(c->target),
                    .d = operand_of(c->d),
                    .labels = c->labels,
                    .share = reduction_scale(c->labels, c->reduction, rows.rows, rows.n),
                    .upstream = 1,
                    .unit = 1};
    j->type = is_mixed(j) ? EL_F32 : type;
    j->stream = j->d.data && !j->each && !is_mixed(j) && j->d.data != j->x.data &&
                rows_stream(rows.rows * rows.n * el_size(type), j->d.data, j->target.data);
    if (j->each) {
        j->dloss = operand_of(c->dloss);
        j->loss = operand_of(c->loss);
    } else if (c->dloss) {
        j->upstream = *(const float *)tg_data(c->dloss);
    }
    j->items = pieces_cut(&j->all, one_row(j));
    if (c->loss && !(j->sums = tg_workspace(ctx, (size_t)(j->items + 1) * sizeof *j->sums)))
        return TG_ENOMEM;
    const size_t floats = (size_t)tg_ctx_threads(ctx) * SCRATCH;
    if (is_mixed(j) && !(j->scratch = tg_workspace(ctx, floats * sizeof *j->scratch)))
        return TG_ENOMEM;
    return TG_OK;
}

/* ---- items ---- */

static loss_span span_of(const loss_job *j, int64_t row, const piece *p)
{
    loss_span s = {.target = row_at(&j->target, row) + p->first * el_size(j->types[TARGET]),
                   .n = p->n};
    if (j->x.data)
        s.x = row_at(&j->x, row) + p->first * el_size(j->types[X]);
    if (j->d.data)
        s.d = row_at(&j->d, row) + p->first * el_size(j->types[D]);
    if (j->dloss.data)
        s.dloss = (const float *)row_at(&j->dloss, row) + p->first;
    if (j->loss.data)
        s.loss = (float *)row_at(&j->loss, row) + p->first;
    return s;
}

static void zero(const loss_job *j, const loss_span *s)
{
    if (s->d)
        memset(s->d, 0, (size_t)(s->n * el_size(j->types[D])));
    if (s->loss)
        memset(s->loss, 0, (size_t)s->n * sizeof(float));
}

/* In f32, whatever the types are. */
static void visit_mixed(const run *r, const loss_span *s, int worker, double *sum)
{
    const loss_job *j = r->job;
    float *at = j->scratch + worker * (int64_t)SCRATCH;
    loss_span wide = *s;
    wide.x = run_read(j->types[X], s->x, s->n, &at);
    wide.target = run_read(j->types[TARGET], s->target, s->n, &at);
    wide.d = run_place(j->types[D], s->d, s->n, &at);
    r->visit(j, &wide, sum);
    run_write(j->types[D], wide.d, s->d, s->n);
}

static void run_items(void *arg, int64_t begin, int64_t end, int worker)
{
    const run *r = arg;
    const loss_job *j = r->job;
    for (int64_t item = begin; item < end; item++) {
        const piece p = piece_at(&j->all, item);
        double sum = 0;
        for (int64_t row = p.row; row < p.end; row++) {
            const loss_span s = span_of(j, row, &p);
            if (row_ignored(j->labels, row))
                zero(j, &s);
            else if (j->scratch)
                visit_mixed(r, &s, worker, &sum);
            else
                r->visit(j, &s, &sum);
        }
        if (j->sums)
            j->sums[item] = sum;
    }
    if (j->stream)
        v_fence();
}

void loss_run(tg_ctx *ctx, loss_job *j, loss_visit_fn visit)
{
    tg_parallel_for(ctx, j->items, 1, run_items, &(run){j, visit});
}

void loss_finish(const loss_job *j, const tg_tensor *loss, double scale)
{
    if (!j->each)
        *(float *)tg_data(loss) = (float)(pieces_sum(j->sums, j->items) * scale);
}
