/* What the host takes for a small call, beside the launch of a kernel that does nothing, both in
 * turn; and how much the call puts on the card: kernels, copies and fills. Each operator at its
 * benchmark's size "small", in bf16; norms, activations, positions, softmax and sparsemax must do
 * with one kernel forward and two backward. Without a card, or without libtigon_cuda.so, the test
 * is skipped.
 *   cuda_host [OPERATOR...]      the beginnings of names */
#include <time.h>

#include "../common/test.h"
#include "driver.h"
#include "problem/problem.h"

enum { ROUNDS = 101, CALLS = 16 };

static tg_ctx *ctx;
static void *nothing;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void launch_nothing(void)
{
    EXPECT(!launch_kernel(nothing, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), "no launch");
}

static void call(const problem *p, const void *args)
{
    EXPECT(tg_call(ctx, p->op->id, args) == TG_OK, "%s", tg_last_error());
}

/* Median microseconds of each, in turn, the card's queue being empty when the calls begin. */
static void measure(const problem *p, const void *args, double *launched, double *called)
{
    static double took[2][ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        for (int which = 0; which < 2; which++) {
            EXPECT(tg_sync(ctx) == TG_OK, "%s", tg_last_error());
            const double start = seconds();
            for (int i = 0; i < CALLS; i++)
                if (which)
                    call(p, args);
                else
                    launch_nothing();
            took[which][round] = (seconds() - start) / CALLS * 1e6;
        }
    }
    for (int which = 0; which < 2; which++)
        qsort(took[which], ROUNDS, sizeof **took, by_value);
    *launched = took[0][ROUNDS / 2];
    *called = took[1][ROUNDS / 2];
}

/* What a call puts on the card: the nodes of its graph. */
static size_t launches_of(const problem *p, const void *args)
{
    void *stream = NULL, *graph = NULL;
    size_t count = 0;
    EXPECT(!stream_create(&stream, 1), "no stream");
    tg_ctx_set_stream(ctx, stream);
    call(p, args); /* takes the workspace */
    EXPECT(!capture(stream, 0), "no capture");
    call(p, args);
    EXPECT(!capture_end(stream, &graph) && !nodes(graph, NULL, &count), "%s cannot be recorded",
           p->op->info->name);
    EXPECT(!delete_graph(graph), "the graph stays");
    tg_ctx_set_stream(ctx, NULL);
    call(p, args);
    EXPECT(!stream_destroy(stream), "the stream stays");
    return count;
}

/* How many launches a call may take; 0: no matter. */
static size_t most_of(const char *op)
{
    static const char *const few[] = {"rms_norm",     "fused_add_rms_norm",
                                      "layer_norm",   "group_norm",
                                      "poly_norm",    "dyt",
                                      "swiglu",       "geglu",
                                      "relu_squared", "rope",
                                      "llama4_rope",  "qwen2vl_mrope",
                                      "softmax",      "sparsemax"};
    for (size_t i = 0; i < sizeof few / sizeof *few; i++)
        if (!strncmp(op, few[i], strlen(few[i])) && op[strlen(few[i])] == '_')
            return !strcmp(op + strlen(few[i]), "_forward")    ? 1
                   : !strcmp(op + strlen(few[i]), "_backward") ? 2
                                                               : 0;
    return 0;
}

static void try_case(const catalogue *cat, const pb_op *op, const pb_case *c)
{
    char error[PB_ERROR];
    double launched, called;
    const pb_options options = {.type = TG_BF16, .seed = 1, .saved = PB_SAVED_CALL, .ctx = ctx};
    problem *p = problem_create(cat, op, c, &options, error);
    EXPECT(p, "%s: %s", op->info->name, error);
    if (!p || !problem_runs_there(ctx, p)) {
        problem_free(p);
        return;
    }
    EXPECT(problem_place(ctx, p) == TG_OK, "%s", tg_last_error());
    const void *args = problem_device_args(p);
    const size_t launches = launches_of(p, args), most = most_of(op->info->name);
    measure(p, args, &launched, &called);
    printf("%-38s %8zu %9.2f %9.2f %9.2f\n", op->info->name, launches, launched, called,
           called - launched);
    EXPECT(!most || launches <= most, "%s: %zu launches, expected at most %zu", op->info->name,
           launches, most);
    EXPECT(tg_sync(ctx) == TG_OK, "%s", tg_last_error());
    problem_free(p);
}

static int is_wanted(const char *op, char **names, int n)
{
    int wanted = !n;
    for (int i = 0; i < n; i++)
        wanted |= !strncmp(op, names[i], strlen(names[i]));
    return wanted;
}

/* The driver compiles it for the card. */
static int load_nothing(void)
{
    static const char text[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
                               ".visible .entry nothing() { ret; }\n";
    void *module, *card_context;
    int card;
    return !card_at(&card, 0) && !retain(&card_context, card) && !set_current(card_context) &&
           !load_module(&module, text) && !get_kernel(&nothing, module, "nothing");
}

int main(int argc, char **argv)
{
    char error[PB_ERROR];
    const catalogue *cat = catalogue_get(error);
    ctx = new_context();
    if (tg_ctx_set_device(ctx, "cuda") != TG_OK || !load_driver()) {
        printf("not tested: %s\n", tg_last_error());
        return 77;
    }
    EXPECT(cat, "%s", error);
    EXPECT(load_nothing(), "the driver takes no kernel");
    if (!cat || !nothing)
        return report();
    printf("%-38s %8s %9s %9s %9s\n", "us of the host", "launches", "of one", "of a call",
           "beyond");
    for (int i = 0; i < cat->ncases; i++) {
        const pb_case *c = &cat->cases[i];
        for (int k = 0; k < cat->nops; k++)
            if (c->bench && !strcmp(c->bench, "small") && pb_case_is_for(&cat->ops[k], c) &&
                is_wanted(cat->ops[k].info->name, argv + 1, argc - 1))
                try_case(cat, &cat->ops[k], c);
    }
    tg_ctx_destroy(ctx);
    return report();
}
