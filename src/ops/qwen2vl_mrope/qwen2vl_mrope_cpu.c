/* qwen2vl_mrope, fast: rope's walk and rotation; what differs is where a position's
 * angles come from. */
#include "rotary/rotary_cpu.h"

typedef struct job {
    rotary_job rotary;             /* first: `find` is handed its address */
    int64_t cos_plane, sin_plane;  /* strides in bytes */
    int64_t section[3], row_bytes; /* in bytes, too */
    char *scratch;                 /* 2 row_bytes a worker: the angles of a position, joined */
} job;

/* Short, so in pieces of 16 bytes; the last one overlaps the one before. */
SIMD_INLINE void copy(char *to, const char *from, int64_t bytes)
{
    for (int64_t i = 0; i + 16 <= bytes; i += 16)
        memcpy(to + i, from + i, 16);
    if (bytes >= 16)
        memcpy(to + bytes - 16, from + bytes - 16, 16);
    else if (bytes > 0)
        memcpy(to, from, (size_t)bytes);
}

SIMD_INLINE void join(const job *j, const char *row, int64_t plane, char *out)
{
    int64_t at = 0;
    for (int i = 0; i < 3; at += j->section[i++])
        copy(out + at, row + i * plane + at, j->section[i]);
}

/* Joins the sections of a position; the heads find them in one piece. */
SIMD_INLINE rotary_angles find(const rotary_job *r, int64_t b, int64_t position, int worker)
{
    const job *j = (const job *)r;
    char *cos = j->scratch + 2 * worker * j->row_bytes, *sin = cos + j->row_bytes;
    join(j, rotary_at(&r->cos, b, position), j->cos_plane, cos);
    join(j, rotary_at(&r->sin, b, position), j->sin_plane, sin);
    return (rotary_angles){cos, sin};
}

static void chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    rotary_chunk(find, rotary_halves, arg, begin, end, worker);
}

static tg_status run(tg_ctx *ctx, job j, const tg_tensor *cos, const tg_tensor *sin,
                     const int64_t *section)
{
    const int64_t size = (int64_t)tg_type_size(tg_type_of(cos));
    j.rotary.table_type = (el)tg_el(tg_type_of(cos));
    j.rotary.half = j.rotary.width / 2;
    j.rotary.cos = rotary_table_of(cos, 1, 2);
    j.rotary.sin = rotary_table_of(sin, 1, 2);
    j.cos_plane = tg_stride(cos, 0) * size;
    j.sin_plane = tg_stride(sin, 0) * size;
    for (int i = 0; i < 3; i++)
        j.section[i] = section[i] * size;
    j.row_bytes = (j.rotary.half * size + 63) / 64 * 64;
    j.scratch = tg_workspace(ctx, (size_t)(2 * j.row_bytes * tg_ctx_threads(ctx)));
    if (!j.scratch)
        return TG_ENOMEM;
    rotary_run(ctx, &j.rotary, chunk);
    return TG_OK;
}

static tg_status forward(tg_ctx *ctx, const tg_qwen2vl_mrope_forward_args *args)
{
    const int64_t section[] = {args->section_t, args->section_h, args->section_w};
    const job j = {.rotary = rotary_job_of(ROTARY_FORWARD("", args), 1.0f)};
    return run(ctx, j, args->cos, args->sin, section);
}

static tg_status backward(tg_ctx *ctx, const tg_qwen2vl_mrope_backward_args *args)
{
    const int64_t section[] = {args->section_t, args->section_h, args->section_w};
    const job j = {.rotary = rotary_job_of(ROTARY_BACKWARD("", args), -1.0f)};
    return run(ctx, j, args->cos, args->sin, section);
}

TG_CPU_IMPLS(qwen2vl_mrope) = {
    TG_CPU_IMPL(qwen2vl_mrope_forward, forward),
    TG_CPU_IMPL(qwen2vl_mrope_backward, backward),
    TG_IMPLS_END,
};
