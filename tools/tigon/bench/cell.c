/* tools/tigon/bench/cell.c - cells: the problems of one mode, what they move and multiply. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "share/text.h"

const char *const bench_mode_names[BENCH_MODES] = {"forward", "backward", "full"};

static int ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), k = strlen(end);
    return n >= k && !strcmp(text + n - k, end);
}

/* The group's operator with that ending; for forward also one without either ending (gemm). */
static const pb_op *op_of(const catalogue *cat, const char *group, const char *ending)
{
    for (int i = 0; i < cat->nops; i++) {
        const pb_op *op = &cat->ops[i];
        const char *name = op->info->name;
        if (!pb_same_group(op->group, group))
            continue;
        if (ends_with(name, ending))
            return op;
        if (!strcmp(ending, "_forward") && !ends_with(name, "_backward"))
            return op;
    }
    return NULL;
}

int bench_has_mode(const catalogue *cat, const char *group, bench_mode mode)
{
    if (mode == BENCH_FORWARD)
        return op_of(cat, group, "_forward") != NULL;
    return op_of(cat, group, "_backward") != NULL;
}

/* A forward operator that can compute gradients in the same pass has optional outputs d<input>. */
static int is_gradient(const tg_op_info *info, const tg_arg_info *a)
{
    if (a->kind != TG_ARG_OUT_OPT || a->name[0] != 'd')
        return 0;
    for (int i = 0; i < info->nargs; i++)
        if (info->args[i].kind <= TG_ARG_OPT && !strcmp(info->args[i].name, a->name + 1))
            return 1;
    return 0;
}

static int has_gradients(const tg_op_info *info)
{
    for (int i = 0; i < info->nargs; i++)
        if (is_gradient(info, &info->args[i]))
            return 1;
    return 0;
}

static void drop_gradients(const tg_op_info *info, char *text, size_t size)
{
    for (int i = 0; i < info->nargs; i++)
        if (is_gradient(info, &info->args[i]))
            text_add(text, size, " -%s", info->args[i].name);
}

/* As the family says, or those of its products. */
static double flops_of(const problem *p)
{
    gemm_work w[BENCH_GEMMS];
    double flops = 0;
    if (p->op->flops)
        return problem_flops(p);
    for (int i = bench_gemm_work(p, w); i-- > 0;)
        flops += 2.0 * w[i].count * (double)w[i].m * (double)w[i].n * (double)w[i].k;
    return flops;
}

static int add_part(bench_cell *cell, const bench_settings *s, const pb_op *op, const char *text,
                    char *error)
{
    const pb_options options = {
        .type = cell->type, .seed = 1, .saved = PB_SAVED_CALL, .ctx = s->ctx};
    pb_case *c = &cell->part_case[cell->nparts];
    if (pb_case_parse(s->cat, cell->group, text, c, error))
        return -1;
    problem *p = problem_create(s->cat, op, c, &options, error);
    if (!p)
        return -1;
    cell->part[cell->nparts++] = p;
    cell->bytes += problem_bytes(p);
    cell->flops += flops_of(p);
    return 0;
}

/* The backward reads the forward's own tensors, as in a training step. */
static void link_parts(bench_cell *cell)
{
    const problem *f = cell->part[0];
    problem *b = cell->part[1];
    for (int i = 0; i < b->op->ntensors; i++) {
        pb_tensor *to = &b->tensor[i];
        const pb_tensor *from =
            to->present && !to->written ? problem_tensor(f, b->op->tensor[i].name) : NULL;
        if (from && from->view.ndim == to->view.ndim &&
            tg_type_of(&from->view) == tg_type_of(&to->view) &&
            !memcmp(from->shape, to->shape, sizeof to->shape))
            b->slot[b->op->tensor[i].slot].ptr = (void *)&from->view;
    }
    b->lender = cell->part[0];
}

int bench_cell_open(bench_cell *cell, const bench_settings *s, const char *text, char *error)
{
    const pb_op *forward = op_of(s->cat, cell->group, "_forward");
    const pb_op *backward = op_of(s->cat, cell->group, "_backward");
    char alone[PB_TEXT];
    snprintf(alone, sizeof alone, "%s", text);
    if (forward && cell->mode == BENCH_FORWARD)
        drop_gradients(forward->info, alone, sizeof alone);
    int failed = 0;
    if (cell->mode != BENCH_BACKWARD)
        failed = add_part(cell, s, forward, alone, error);
    const int joint = cell->mode == BENCH_FULL && has_gradients(forward->info);
    if (!failed && cell->mode != BENCH_FORWARD && !joint)
        failed = add_part(cell, s, backward, text, error);
    if (failed) {
        bench_cell_close(cell);
        return -1;
    }
    problem_shape(cell->part[0], cell->shape, sizeof cell->shape);
    if (cell->nparts == 2)
        link_parts(cell);
    return 0;
}

void bench_cell_close(bench_cell *cell)
{
    for (int i = 0; i < cell->nparts; i++)
        problem_free(cell->part[i]);
    cell->nparts = 0;
}

/* If any part runs on the device, all tensors that parts share are there. */
tg_status bench_cell_args(const bench_cell *cell, tg_ctx *ctx, bench_args *args)
{
    int there = 0;
    for (int i = 0; i < cell->nparts; i++)
        there |= problem_runs_there(ctx, cell->part[i]);
    tg_status status = TG_OK;
    for (int i = 0; i < cell->nparts && !status; i++) {
        if (there)
            status = problem_place(ctx, cell->part[i]);
        if (!status)
            args->part[i] =
                there ? problem_device_args(cell->part[i]) : problem_args(cell->part[i]);
    }
    return status;
}

tg_status bench_cell_run(const bench_cell *cell, const bench_args *args, tg_ctx *ctx)
{
    for (int i = 0; i < cell->nparts; i++) {
        const tg_status status = tg_call(ctx, cell->part[i]->op->id, args->part[i]);
        if (status)
            return status;
    }
    return TG_OK;
}

/* ---- what a part amounts to ---- */

static double size_of(const pb_tensor *t)
{
    return (double)tg_numel(&t->view) * (double)tg_type_size(tg_type_of(&t->view));
}

/* The problem's tensors as streams; two tensors on the very same memory are one stream in place. */
static int all_streams(const problem *p, memory_stream *stream)
{
    int n = 0;
    const pb_tensor *owner[PB_ARGS];
    for (int i = 0; i < p->op->ntensors; i++) {
        const pb_tensor *t = &p->tensor[i];
        int k = 0;
        if (!t->present)
            continue;
        while (k < n &&
               (owner[k]->buffer != t->buffer || owner[k]->view.byte_offset != t->view.byte_offset))
            k++;
        if (k == n) {
            owner[n] = t;
            stream[n++] =
                (memory_stream){.bytes = (int64_t)size_of(t),
                                .data = tg_is_compact(&t->view) ? tg_data(&t->view) : NULL,
                                .size = (int64_t)size_of(t)};
        }
        stream[k].read |= t->read;
        stream[k].write |= t->written;
    }
    return n;
}

static double bytes_of(const memory_stream *stream, int n, int writes)
{
    double bytes = 0;
    for (int i = 0; i < n; i++)
        bytes += (double)stream[i].bytes * (writes ? stream[i].write : stream[i].read);
    return bytes;
}

static void scale(memory_stream *stream, int n, int only_inputs, double by)
{
    for (int i = 0; i < n; i++)
        if (!only_inputs || !stream[i].write)
            stream[i].bytes = (int64_t)((double)stream[i].bytes * by);
}

/* Streams are the tensors that matter: a sixteenth of the largest or more; what the others are is
 * spread over these. Where the family states the bytes itself, outputs count as they are and inputs
 * are what remains (of a table of which few rows are read). */
memory_work bench_memory_work(const problem *p)
{
    memory_stream all[PB_ARGS];
    memory_work w = {0};
    const double bytes = problem_bytes(p);
    const int n = all_streams(p, all);
    const double writes = bytes_of(all, n, 1), reads = bytes_of(all, n, 0);
    const double rest = bytes - writes;
    if (p->op->bytes && reads > 0 && rest > bytes / 16)
        scale(all, n, 1, rest / reads);
    int64_t largest = 0;
    for (int i = 0; i < n; i++)
        largest = all[i].bytes > largest ? all[i].bytes : largest;
    for (int i = 0; i < n; i++)
        if (all[i].bytes * 16 >= largest && w.count < MEMORY_STREAMS)
            w.stream[w.count++] = all[i];
    const double counted = bytes_of(w.stream, w.count, 0) + bytes_of(w.stream, w.count, 1);
    if (counted > 0)
        scale(w.stream, w.count, 0, bytes / counted);
    return w;
}

double bench_value(const problem *p, const char *expression)
{
    double value;
    char error[PB_ERROR];
    return problem_value(p, expression, &value, error) ? 0 : value;
}

/* A letter of the layout: 't' is transposed, 'a' and 'b' as the options trans_a and trans_b say. */
static int is_transposed(const problem *p, char letter)
{
    if (letter == 'a' || letter == 'b')
        return pb_case_value(p->c, letter == 'a' ? "trans_a" : "trans_b") != 0;
    return letter == 't';
}

/* One product: "[tensor?]M,N,K[,count[,layout]]" */
static int parse_gemm(const problem *p, char *text, gemm_work *w)
{
    double value[4] = {0, 0, 0, 1};
    char *const mark = strchr(text, '?');
    if (mark) {
        *mark = 0;
        if (!problem_tensor(p, text))
            return -1;
        text = mark + 1;
    }
    char *field[5] = {0};
    int n = 0, depth = 0;
    field[n++] = text;
    for (char *c = text; *c; c++) {
        depth += (*c == '(') - (*c == ')');
        if (*c == ',' && !depth && n < 5) {
            *c = 0;
            field[n++] = c + 1;
        }
    }
    if (n < 3)
        return -1;
    for (int i = 0; i < n && i < 4; i++)
        value[i] = bench_value(p, field[i]);
    *w = (gemm_work){
        .m = (int64_t)value[0], .n = (int64_t)value[1], .k = (int64_t)value[2], .count = value[3]};
    w->trans_a = n == 5 && is_transposed(p, field[4][0]);
    w->trans_b = n == 5 && field[4][0] && is_transposed(p, field[4][1]);
    return w->m > 0 && w->n > 0 && w->k > 0 ? 0 : -1;
}

int bench_gemm_work(const problem *p, gemm_work *work)
{
    if (!p->op->gemm)
        return 0;
    char text[1024];
    snprintf(text, sizeof text, "%s", p->op->gemm);
    int n = 0;
    char *rest = text;
    for (char *product; n < BENCH_GEMMS && (product = strsep(&rest, ";"));)
        n += !parse_gemm(p, product, &work[n]);
    return n;
}
