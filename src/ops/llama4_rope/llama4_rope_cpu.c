/* llama4_rope, fast: one pass over the rows of q and k, as rope; a vector holds whole pairs. */
#include "rotary/rotary_cpu.h"

/* `cos` is the row of freqs: cosines and sines alternate, as the parts of the pairs do. */
SIMD_INLINE rotary_angles find(const rotary_job *j, int64_t b, int64_t position, int worker)
{
    (void)worker;
    return (rotary_angles){.cos = rotary_at(&j->cos, b, position)};
}

SIMD_INLINE vf2 turned(el e, vf2 z, vf2 w, float direction)
{
    if (e == EL_BF16) { /* real parts, then imaginary parts, as v_load2 gives them */
        const vf t = w.b * v_set(direction);
        return (vf2){z.a * w.a - z.b * t, z.b * w.a + z.a * t};
    }
    return (vf2){v_complex_mul(z.a, w.a, direction), v_complex_mul(z.b, w.b, direction)};
}

SIMD_INLINE void turn_pairs(el e, el te, int stream, const rotary_job *j, rotary_angles at,
                            const char *x, char *y)
{
    const int64_t width = j->width;
    int64_t d = 0;
    for (; d + 2 * VL <= width; d += 2 * VL) {
        v_ahead2(e, x, d);
        const vf2 z = v_load2(e, e, x, d), w = v_load2(e, te, at.cos, d);
        v_write2(e, stream, y, d, turned(e, z, w, j->direction));
    }
    for (; d < width; d += VL) {
        const int64_t n = v_tail(width, d);
        const vf z = v_load_n(e, x, d, n, 0.0f), w = v_load_n(te, at.cos, d, n, 0.0f);
        v_store_n(e, y, d, n, v_complex_mul(z, w, j->direction));
    }
}

SIMD_INLINE void turn(el e, el te, int stream, const rotary_job *j, rotary_angles at, const char *x,
                      char *y)
{
    if (stream && v_streamable2(e, y))
        turn_pairs(e, te, 1, j, at, x, y);
    else
        turn_pairs(e, te, 0, j, at, x, y);
}

static void chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    rotary_chunk(find, turn, arg, begin, end, worker);
}

static tg_status run(tg_ctx *ctx, rotary_job j, const tg_tensor *freqs)
{
    j.table_type = (el)tg_el(tg_type_of(freqs));
    j.cos = rotary_table_of(freqs, freqs->ndim - 4, freqs->ndim - 3);
    rotary_run(ctx, &j, chunk);
    return TG_OK;
}

static tg_status forward(tg_ctx *ctx, const tg_llama4_rope_forward_args *args)
{
    return run(ctx, rotary_job_of(ROTARY_FORWARD("", args), 1.0f), args->freqs);
}

static tg_status backward(tg_ctx *ctx, const tg_llama4_rope_backward_args *args)
{
    return run(ctx, rotary_job_of(ROTARY_BACKWARD("", args), -1.0f), args->freqs);
}

TG_CPU_IMPLS(llama4_rope) = {
    TG_CPU_IMPL(llama4_rope_forward, forward),
    TG_CPU_IMPL(llama4_rope_backward, backward),
    TG_IMPLS_END,
};
