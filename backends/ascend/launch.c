/* launch.c - from what a launch is given to the arguments of its kernel; see launch.h. */
#include <stdio.h>
#include <stdlib.h>

#include "ascend.h"
#include "side.h"

/* ---- arguments ---- */

static void put(ascend_arguments *a, uint64_t word)
{
    a->list[a->n++] = (ascend_arg){.word = word};
}

static void put_memory(ascend_arguments *a, ascend_memory memory, const char *name)
{
    a->list[a->n++] = (ascend_arg){(uint64_t)(uintptr_t)memory.at, memory.bytes, name};
}

static void put_tensor(ascend_arguments *a, const ascend_plan *plan, const tg_tensor *t,
                       const char *name)
{
    const tg_rows rows = tg_rows_of(t);
    put_memory(a, ascend_memory_of(t), name);
    put(a, (uint64_t)(plan->one_line ? plan->problem.columns : rows.stride));
}

static void put_grid(ascend_arguments *a, const ascend_plan *plan)
{
    put(a, (uint64_t)plan->problem.rows);
    put(a, (uint64_t)plan->problem.columns);
    put(a, (uint64_t)plan->layout.tile_rows);
    put(a, (uint64_t)plan->layout.tile_columns);
}

/* A float travels as its bits. */
static void put_f32(ascend_arguments *a, double value)
{
    const union {
        float f;
        uint32_t bits;
    } v = {.f = (float)value};
    put(a, v.bits);
}

static void put_place(ascend_arguments *a, const tg_ub_place *place)
{
    put(a, (uint64_t)(place->copy_stride << 32 | place->offset));
}

static void fill(ascend_arguments *a, const ascend_plan *plan, const ascend_kernel *kernel,
                 const ascend_slot *given)
{
    const tg_ub_place *place = plan->layout.place;
    for (int i = 0; i < kernel->nentries; i++) {
        const ascend_entry *entry = &kernel->entries[i];
        switch (entry->kind) {
        case ASCEND_TENSOR:
            put_tensor(a, plan, given++->tensor, entry->name);
            break;
        case ASCEND_VECTOR:
            put_memory(a, ascend_memory_of(given++->tensor), entry->name);
            break;
        case ASCEND_MEMORY:
            put_memory(a, *given++->memory, entry->name);
            break;
        case ASCEND_GRID:
            put_grid(a, plan);
            break;
        case ASCEND_I64:
            put(a, (uint64_t)given++->i64);
            break;
        case ASCEND_F32:
            put_f32(a, given++->f32);
            break;
        case ASCEND_BUFFER:
            put_place(a, place++);
        }
    }
}

/* ---- launches ---- */

static const char *type_suffix(int type)
{
    switch (type) {
    case TG_BF16:
        return "_bf16";
    case TG_F16:
        return "_f16";
    case TG_I64: /* of indices alone */
        return "_i64";
    default:
        return "_f32";
    }
}

static void log_time(tg_ctx *ctx, const tg_npu_launch *t)
{
    if (t->high_us > t->low_us)
        ascend_host->log(ctx, "tigon,%s,%lld blocks,%s: %.1f us (%.1f to %.1f)", t->kernel,
                         (long long)t->blocks, t->clock, t->us, t->low_us, t->high_us);
    else
        ascend_host->log(ctx, "tigon,%s,%lld blocks,%s: %.1f us", t->kernel, (long long)t->blocks,
                         t->clock, t->us);
}

/* The words that an entry of a list takes, and what is told of it. */
static const struct {
    int words;
    const char *kind; /* NULL: nothing, it is the plan's */
} told[] = {
    [ASCEND_TENSOR] = {2, "tensor"}, [ASCEND_VECTOR] = {1, "vector"},
    [ASCEND_MEMORY] = {1, "memory"}, [ASCEND_GRID] = {4, NULL},
    [ASCEND_I64] = {1, "integer"},   [ASCEND_F32] = {1, "real"},
    [ASCEND_BUFFER] = {1, NULL},
};

static double value_of(ascend_kind kind, uint64_t word)
{
    const union {
        uint32_t bits;
        float f;
    } v = {.bits = (uint32_t)word};
    return kind == ASCEND_F32 ? (double)v.f : kind == ASCEND_I64 ? (double)(int64_t)word : 0;
}

/* Writes what the kernel was given; returns how many arguments that is. */
static int tell_arguments(const ascend_ready *launch, tg_npu_argument *to)
{
    const ascend_arg *arg = launch->args.list;
    int n = 0;
    for (int i = 0; i < launch->kernel->nentries; i++) {
        const ascend_entry *entry = &launch->kernel->entries[i];
        if (told[entry->kind].kind)
            to[n++] = (tg_npu_argument){entry->name, told[entry->kind].kind, (int64_t)arg->bytes,
                                        value_of(entry->kind, arg->word)};
        arg += told[entry->kind].words;
    }
    return n;
}

tg_status ascend_make(tg_ctx *ctx, const ascend_ready *launch)
{
    const ascend_plan *plan = &launch->plan;
    char symbol[96];
    snprintf(symbol, sizeof symbol, "%s%s", launch->kernel->name, type_suffix(plan->type));
    tg_npu_launch took = {.kernel = symbol,
                          .clock = plan->runtime->label,
                          .soc = plan->runtime->info()->soc,
                          .blocks = plan->layout.blocks,
                          .bound = "",
                          .plan = plan->ub,
                          .problem = &plan->problem,
                          .layout = &plan->layout};
    tg_npu_argument arguments[ASCEND_MOST_ARGS];
    const ascend_state *state = ascend_state_of(ctx);
    if (!state)
        return TG_ENOMEM;
    tg_npu_record did = {.launch = &took, .source = launch->kernel->source, .arguments = arguments};
    const int verbose = ascend_host->verbose(ctx), watched = tg_npu_is_watched(),
              recorded = tg_npu_is_recorded();
    const ascend_call call = {.kernel = symbol,
                              .cores = launch->kernel->cores,
                              .card = state->card,
                              .blocks = plan->layout.blocks,
                              .args = launch->args.list,
                              .nargs = launch->args.n,
                              .stream = ascend_host->stream(ctx),
                              .took = verbose || watched || recorded ? &took : NULL,
                              .did = recorded ? &did : NULL};
    const tg_status status = plan->runtime->launch(&call);
    if (status == TG_OK && verbose)
        log_time(ctx, &took);
    if (status == TG_OK && watched)
        tg_npu_launched(&took);
    if (status == TG_OK && recorded) {
        did.narguments = tell_arguments(launch, arguments);
        tg_npu_recorded(&did);
    }
    free((tg_npu_call *)did.calls);
    return status;
}

tg_status ascend_launch(tg_ctx *ctx, const ascend_plan *plan, const ascend_kernel *kernel,
                        const ascend_slot *given)
{
    if (plan->layout.blocks == 0)
        return TG_OK;
    ascend_ready launch;
    launch.kernel = kernel;
    launch.plan = *plan;
    launch.args.n = 0;
    fill(&launch.args, plan, kernel, given);
    return ascend_make_or_keep(ctx, &launch);
}

/* ---- independent elements ---- */

/* The problem of the tensors that a kernel is given: one long row if all are compact, or
 * there is but one row. */
static tg_status begin_flat(ascend_plan *plan, const tg_ub_kernel *ub, uint32_t options,
                            const ascend_kernel *kernel, const ascend_slot *given)
{
    const tg_rows first = tg_rows_of(given[0].tensor);
    int compact = 1;
    for (int i = 0; i < kernel->nentries && kernel->entries[i].kind == ASCEND_TENSOR; i++)
        compact = compact && tg_rows_of(given[i].tensor).stride == first.n;
    const int one_line = compact || first.rows <= 1;
    const int64_t rows = one_line ? first.rows * first.n > 0 : first.rows;
    const int64_t columns = one_line ? first.rows * first.n : first.n;
    ASCEND_TRY(ascend_begin(plan, ub, given[0].tensor, rows, columns, first.type, options));
    plan->one_line = one_line;
    return TG_OK;
}

tg_status ascend_run_flat(tg_ctx *ctx, const tg_ub_kernel *ub, uint32_t options,
                          const ascend_kernel *kernel, const ascend_slot *given)
{
    ascend_plan plan;
    ASCEND_TRY(begin_flat(&plan, ub, options, kernel, given));
    ASCEND_TRY(ascend_choose(&plan));
    return ascend_launch(ctx, &plan, kernel, given);
}
