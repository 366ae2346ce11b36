/* Every launch is told with the plan that it follows, and with no other: cross_entropy
 * plans its sums before its rows, whether or not they are launched, and a kernel in pieces
 * cuts its rows itself. */
#include <stdlib.h>
#include <string.h>
#include <tigon/npu.h>
#include <tigon/tigon.h>

#include "../common/test.h"

/* The plan that launches of a kernel follow. */
static const struct {
    const char *kernel, *plan;
} plans[] = {
    {"cross_entropy_count_f32", "cross_entropy_forward.sums"},
    {"cross_entropy_finish_f32", "cross_entropy_forward.sums"},
    {"cross_entropy_rows_f32", "cross_entropy_forward.rows"},
    {"cross_entropy_f32", "cross_entropy_forward.ring"},
    {"softmax_forward_rows_f32", "softmax_forward.rows"},
    {"softmax_forward_wide_f32", "softmax_forward.wide"},
};

static int launches;
static int64_t rows_columns; /* of the problem whose rows are launched */

static void check_launch(void *user, const tg_npu_launch *launch)
{
    const char *plan = launch->plan ? launch->plan->name : "none";
    (void)user;
    launches++;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
        if (!strcmp(plans[i].kernel, launch->kernel)) {
            EXPECT(!strcmp(plans[i].plan, plan), "%s: found the plan %s, expected %s",
                   launch->kernel, plan, plans[i].plan);
            EXPECT(strstr(plan, ".sums") || !launch->plan ||
                       launch->problem->columns == rows_columns,
                   "%s: a plan of %lld columns, expected %lld", launch->kernel,
                   (long long)launch->problem->columns, (long long)rows_columns);
            return;
        }
    EXPECT(0, "%s: not a kernel that was expected", launch->kernel);
}

static int records;

/* The record tells the same launch, what it was given, and what its kernel did: calls that stand in
 * the kernels' sources, and buffers that are used as far as they were planned. */
static void check_record(void *user, const tg_npu_record *record)
{
    const tg_npu_launch *launch = record->launch;
    int64_t used = 0, copies = 0, given = 0;
    (void)user;
    records++;
    EXPECT(launch->us > 0, "%s: no time", launch->kernel);
    EXPECT(strstr(record->source, "backends/ascend/"), "%s: described in %s", launch->kernel,
           record->source);
    for (int i = 0; i < record->narguments; i++)
        given += record->arguments[i].bytes;
    EXPECT(given > 0, "%s: no memory among %d arguments", launch->kernel, record->narguments);
    for (int i = 0; i < record->ncalls; i++) {
        const tg_npu_call *c = &record->calls[i], *before = i ? c - 1 : c;
        EXPECT(strstr(c->file, "/kernels/") && c->line > 0 && !strncmp(c->name, "asc_", 4) &&
                   c->times > 0,
               "%s: %s at %s:%d", launch->kernel, c->name, c->file, c->line);
        EXPECT(strcmp(before->file, c->file) < 0 ||
                   (!strcmp(before->file, c->file) && before->line <= c->line),
               "%s:%d after %s:%d", c->file, c->line, before->file, before->line);
        copies += !strcmp(c->pipe, "mte2") && c->busy_us > 0;
    }
    EXPECT(copies > 0, "%s: no copy in among %d calls", launch->kernel, record->ncalls);
    for (int i = 0; launch->plan && i < launch->plan->nbuffers; i++) {
        const tg_ub_place *place = &launch->layout->place[i];
        const int n = launch->plan->buffers[i].copies > 1 ? launch->plan->buffers[i].copies : 1;
        EXPECT(record->used[i] <= n * ((place->bytes + 63) / 32 * 32) &&
                   (place->used || !record->used[i]),
               "%s: %lld bytes of %s are used", launch->kernel, (long long)record->used[i],
               launch->plan->buffers[i].name);
        used += record->used[i];
    }
    EXPECT(used > 0, "%s uses none of its buffers", launch->kernel);
}

static tg_tensor filled(int type, int64_t *shape, int ndim)
{
    tg_tensor t = tg_tensor_of(NULL, type, ndim, shape);
    t.data = calloc((size_t)tg_numel(&t), tg_type_size(type));
    EXPECT(t.data, "no memory");
    return t;
}

static void cross_entropy(tg_ctx *ctx, int64_t classes, int64_t reduction, int expected)
{
    int64_t shape[] = {3, classes};
    tg_tensor logits = filled(TG_F32, shape, 2), target = filled(TG_I64, shape, 1);
    tg_tensor loss = filled(TG_F32, shape, reduction == TG_NONE);
    const tg_cross_entropy_forward_args args = {
        .logits = &logits, .target = &target, .loss = &loss, .reduction = reduction};
    launches = 0;
    rows_columns = classes;
    EXPECT(tg_cross_entropy_forward(ctx, &args) == TG_OK, "%s", tg_last_error());
    EXPECT(launches == expected, "%d launches, expected %d", launches, expected);
    free(logits.data);
    free(target.data);
    free(loss.data);
}

static void softmax(tg_ctx *ctx, int64_t columns)
{
    int64_t shape[] = {3, columns};
    tg_tensor x = filled(TG_F32, shape, 2), y = filled(TG_F32, shape, 2);
    const tg_softmax_forward_args args = {.x = &x, .y = &y};
    launches = 0;
    rows_columns = columns;
    EXPECT(tg_softmax_forward(ctx, &args) == TG_OK, "%s", tg_last_error());
    EXPECT(launches == 1, "%d launches, expected 1", launches);
    free(x.data);
    free(y.data);
}

/* A record alone has the launch and its time as well. */
static void softmax_unwatched(tg_ctx *ctx)
{
    int64_t shape[] = {3, 90};
    tg_tensor x = filled(TG_F32, shape, 2), y = filled(TG_F32, shape, 2);
    const tg_softmax_forward_args args = {.x = &x, .y = &y};
    const int before = records;
    EXPECT(tg_softmax_forward(ctx, &args) == TG_OK && records == before + 1, "%s", tg_last_error());
    free(x.data);
    free(y.data);
}

int main(void)
{
    tg_ctx *ctx;
    EXPECT(tg_ctx_create(&ctx) == TG_OK && tg_ctx_set_device(ctx, "npu-model") == TG_OK, "%s",
           tg_last_error());
    tg_npu_watch(check_launch, NULL);
    tg_npu_watch_records(check_record, NULL);
    for (int64_t classes = 90; classes < 40000; classes *= 400) { /* in rows, in pieces */
        cross_entropy(ctx, classes, TG_NONE, 1);
        cross_entropy(ctx, classes, TG_SUM, 2);
        cross_entropy(ctx, classes, TG_MEAN, 3);
    }
    softmax(ctx, 90);
    softmax(ctx, 100000);
    tg_npu_watch(NULL, NULL);
    EXPECT(records == 2 * (1 + 2 + 3) + 2, "%d records", records);
    softmax_unwatched(ctx);
    tg_npu_watch_records(NULL, NULL);
    tg_ctx_destroy(ctx);
    return report();
}
