/* indices.c - host of kernels/tables/indices.asc.c. */
#include "indices.h"
#include "kernels/tables/indices.args.h"

enum { LOOK, RISE };

ASCEND_KERNEL(indices_look, INDICES_LOOK);
ASCEND_KERNEL(indices_rise, INDICES_RISE);

ASCEND_KERNELS(indices) = {
    [LOOK] = ASCEND_FLAT(indices_look),
    [RISE] = {.name = "indices_rise", ASCEND_BUFFERS(indices_rise), .flat = 1},
    {0},
};

/* ---- what is kept of a context ---- */

/* Blocks of a launch at most, of which each has a place for a fault. */
enum { MOST_BLOCKS = 256 };
typedef int64_t fault_list[MOST_BLOCKS][INDICES_FAULT];

static tg_status clear(tg_ctx *ctx, const ascend_state *state)
{
    static const fault_list none;
    return ascend_card_copy(state->card, state->faults, TG_DEVICE_ASCEND, none, TG_DEVICE_CPU,
                            sizeof none, ascend_host->stream(ctx));
}

tg_status ascend_indices_begin(tg_ctx *ctx, ascend_state *state)
{
    if (state->faults && state->card == state->faults_card)
        return TG_OK;
    ascend_indices_end(state);
    state->faults = ascend_card_alloc(state->card, sizeof(fault_list));
    state->faults_card = state->card;
    return state->faults ? clear(ctx, state) : TG_ENOMEM;
}

void ascend_indices_end(ascend_state *state)
{
    ascend_card_free(state->faults_card, state->faults);
    state->faults = NULL;
    state->looked = 0;
}

tg_status ascend_indices_told(tg_ctx *ctx, ascend_state *state)
{
    fault_list faults;
    const int64_t *first = NULL;
    if (!state->looked)
        return TG_OK;
    state->looked = 0;
    ASCEND_TRY(ascend_card_copy(state->card, faults, TG_DEVICE_CPU, state->faults, TG_DEVICE_ASCEND,
                                sizeof faults, ascend_host->stream(ctx)));
    for (int b = 0; b < MOST_BLOCKS; b++) {
        const int64_t *f = faults[b];
        const int earlier = !first || f[INDICES_TICKET] < first[INDICES_TICKET] ||
                            (f[INDICES_TICKET] == first[INDICES_TICKET] &&
                             f[INDICES_POSITION] < first[INDICES_POSITION]);
        if (f[INDICES_TICKET] && earlier)
            first = f;
    }
    if (!first)
        return TG_OK;
    ASCEND_TRY(clear(ctx, state));
    return ascend_host->fail(TG_EINVAL, "%s[%lld] is %lld, out of bounds: expected in [%lld, %lld)",
                             (const char *)(intptr_t)first[INDICES_WHAT],
                             (long long)first[INDICES_POSITION], (long long)first[INDICES_VALUE],
                             (long long)(first[INDICES_LEAST] < 0 ? 0 : first[INDICES_LEAST]),
                             (long long)first[INDICES_MOST] + 1);
}

/* ---- looking ---- */

/* 1 if there is anything to look at. *to = t, or no tensor. */
static int is_asked(const tg_tensor *t, tg_tensor *to)
{
    *to = t ? *t : (tg_tensor){0};
    return t && t->device.device_type != TG_DEVICE_CPU && tg_numel(t) > 0;
}

/* *to becomes what is written, `memory`. */
static tg_status begin(tg_ctx *ctx, const tg_tensor *t, tg_tensor *to, ascend_memory *memory,
                       ascend_memory *faults, int64_t *ticket)
{
    ascend_state *state = ascend_state_of(ctx);
    void *at;
    if (!state)
        return TG_ENOMEM;
    memory->bytes = (size_t)tg_numel(t) * sizeof(int64_t);
    ASCEND_TRY(ascend_scratch(ctx, memory->bytes, &at));
    memory->at = at;
    to->data = at;
    to->byte_offset = 0;
    to->strides = NULL;
    *faults = (ascend_memory){.at = state->faults, .bytes = sizeof(fault_list)};
    *ticket = ++state->tickets;
    state->looked = 1;
    return TG_OK;
}

tg_status ascend_look(tg_ctx *ctx, const char *what, const tg_tensor *t, int64_t least,
                      int64_t most, int64_t instead, const tg_tensor *offset, tg_tensor *to)
{
    ascend_memory memory, faults, end = {0};
    ascend_plan plan;
    int64_t ticket;
    if (!is_asked(t, to))
        return TG_OK;
    ASCEND_TRY(begin(ctx, t, to, &memory, &faults, &ticket));
    if (offset) {
        end.at = (int64_t *)tg_data(offset) + tg_numel(offset) - 1;
        end.bytes = sizeof(int64_t);
    }
    ASCEND_TRY(ascend_begin(&plan, &ascend_ub_indices[LOOK], t, 1, tg_numel(t), TG_F32, 0));
    ASCEND_TRY(ascend_choose(&plan));
    plan.type = TG_I64;
    if (plan.layout.blocks > MOST_BLOCKS)
        plan.layout.blocks = MOST_BLOCKS;
    return ASCEND_LAUNCH(ctx, &plan, indices_look, .from = t, .to = &memory, .faults = &faults,
                         .end = &end, .least = least, .most = most < INT32_MAX ? most : INT32_MAX,
                         .instead = instead, .what = (intptr_t)what, .ticket = ticket);
}

tg_status ascend_look_rising(tg_ctx *ctx, const char *what, const tg_tensor *t, int64_t most,
                             tg_tensor *to)
{
    ascend_memory memory, faults;
    ascend_plan plan;
    int64_t ticket;
    if (!is_asked(t, to))
        return TG_OK;
    ASCEND_TRY(begin(ctx, t, to, &memory, &faults, &ticket));
    ASCEND_TRY(ascend_begin(&plan, &ascend_ub_indices[RISE], t, 1, tg_numel(t), TG_F32, 0));
    if (!ascend_fits(&plan, 1, 1))
        return ascend_no_room(&plan);
    plan.type = TG_I64;
    plan.layout.tasks = plan.layout.blocks = 1;
    return ASCEND_LAUNCH(ctx, &plan, indices_rise, .from = t, .to = &memory, .faults = &faults,
                         .most = most, .what = (intptr_t)what, .ticket = ticket);
}
