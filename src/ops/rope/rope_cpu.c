/* rope, fast: one pass over the rows of q and k, in the order in which they lie in memory. */
#include "rotary/rotary_cpu.h"

SIMD_INLINE rotary_angles find(const rotary_job *j, int64_t b, int64_t position, int worker)
{
    (void)worker;
    return (rotary_angles){rotary_at(&j->cos, b, position), rotary_at(&j->sin, b, position)};
}

static void chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    rotary_chunk(find, rotary_halves, arg, begin, end, worker);
}

static rotary_table table_of(const tg_tensor *t, int64_t offset)
{
    rotary_table table = rotary_table_of(t, t->ndim - 3, t->ndim - 2);
    table.data += offset * table.position;
    return table;
}

static tg_status run(tg_ctx *ctx, rotary_job j, const tg_tensor *cos, const tg_tensor *sin,
                     int64_t rotary_dim, int64_t offset)
{
    j.table_type = (el)tg_el(tg_type_of(cos));
    j.half = (rotary_dim ? rotary_dim : j.width) / 2;
    j.cos = table_of(cos, offset);
    j.sin = table_of(sin, offset);
    rotary_run(ctx, &j, chunk);
    return TG_OK;
}

static tg_status forward(tg_ctx *ctx, const tg_rope_forward_args *args)
{
    return run(ctx, rotary_job_of(ROTARY_FORWARD("", args), 1.0f), args->cos, args->sin,
               args->rotary_dim, args->position_offset);
}

static tg_status backward(tg_ctx *ctx, const tg_rope_backward_args *args)
{
    return run(ctx, rotary_job_of(ROTARY_BACKWARD("", args), -1.0f), args->cos, args->sin,
               args->rotary_dim, args->position_offset);
}

TG_CPU_IMPLS(rope) = {
    TG_CPU_IMPL(rope_forward, forward),
    TG_CPU_IMPL(rope_backward, backward),
    TG_IMPLS_END,
};
