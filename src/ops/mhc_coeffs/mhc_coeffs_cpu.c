/* mhc_coeffs on the CPU, forward: the streams of a block of tokens are read once, and stay in f32
 * in the first cache while each chunk of columns is multiplied by all of phi's. */
#include "mhc_coeffs_cpu.h"

typedef struct job {
    coeffs c;
    operand x;
    float *pre, *post, *res, *mix, *rstd; /* mix, rstd: may be missing */
    float *scratch;                       /* `room` floats a worker */
    int64_t room, ahead;                  /* ahead: bytes from a row to the one to ask for */
    float rms_eps, pre_eps, post_multiplier;
    int stream;
    el type;
} job;

/* Of a worker: chunks of a block's tokens, their products with the columns of phi and with
 * themselves, lane by lane; then mix, and what becomes of it, with tokens beside each other. */
typedef struct scratch {
    float *x, *products, *squares, *mix, *logits;
} scratch;

static int64_t scratch_room(const coeffs *c)
{
    return BLOCK * CHUNK + BLOCK * (c->columns + 1) * VL + 2 * c->columns * BLOCK;
}

static scratch scratch_of(const job *job, int worker)
{
    const int64_t columns = job->c.columns;
    scratch s = {.x = job->scratch + worker * job->room};
    s.products = s.x + BLOCK * CHUNK;
    s.squares = s.products + BLOCK * columns * VL;
    s.mix = s.squares + BLOCK * VL;
    s.logits = s.mix + columns * BLOCK;
    return s;
}

/* ---- products ---- */

SIMD_INLINE void add_squares(const float *x, float *sum, int64_t width)
{
    vf a = v_load(EL_F32, sum, 0), b = {0};
    for (int64_t j = 0; j < width; j += V_PAIR) {
        const vf2 p = v_get2(x + j);
        a += p.a * p.a;
        b += p.b * p.b;
    }
    v_store(EL_F32, sum, 0, a + b);
}

/* What a chunk of a stream adds for `count` tokens, of which the first is `token`. */
SIMD_INLINE void add_chunk(el e, const job *job, const scratch *s, int64_t token, int64_t count,
                           int64_t stream, int64_t chunk)
{
    const coeffs *c = &job->c;
    const int64_t j = chunk * CHUNK, n = chunk_columns(c->n, j), width = chunk_width(n);
    for (int64_t t = 0; t < count; t++) {
        const char *row = row_at(&job->x, (token + t) * c->streams + stream);
        chunk_get(e, row, j, n, s->x + t * CHUNK);
        chunk_prefetch(e, row + job->ahead, j, n);
        add_squares(s->x + t * CHUNK, s->squares + t * VL, width);
    }
    const float *phi = c->phi + (stream * c->chunks + chunk) * c->columns * CHUNK;
    chunk_products(s->products, c->columns, s->x, count, phi, c->columns, width);
}

/* mix [columns, BLOCK], and what is saved of it. */
SIMD_INLINE void mix_block(el e, const job *job, const scratch *s, int64_t token, int64_t count)
{
    const coeffs *c = &job->c;
    memset(s->products, 0, (size_t)(BLOCK * (c->columns + 1) * VL) * sizeof(float));
    memset(s->mix, 0, (size_t)(c->columns * BLOCK) * sizeof(float));
    for (int64_t stream = 0; stream < c->streams; stream++)
        for (int64_t chunk = 0; chunk < c->chunks; chunk++)
            add_chunk(e, job, s, token, count, stream, chunk);
    for (int64_t t = 0; t < count; t++) {
        const float width = (float)(c->streams * c->n);
        const float squares = v_sum(v_load(EL_F32, s->squares, t * VL));
        const float r = 1 / sqrtf(squares / width + job->rms_eps);
        for (int64_t m = 0; m < c->columns; m++) {
            const float sum = v_sum(v_load(EL_F32, s->products, (t * c->columns + m) * VL));
            s->mix[m * BLOCK + t] = sum * r;
            if (job->mix)
                job->mix[(token + t) * c->columns + m] = sum * r;
        }
        if (job->rstd)
            job->rstd[token + t] = r;
    }
}

/* ---- coefficients ---- */

/* From mix [columns, BLOCK] to coefficients in the same order, of VL tokens. */
static void coefficients(const job *job, const float *mix, float *to)
{
    const coeffs *c = &job->c;
    vf matrix[MOST_STREAMS * MOST_STREAMS];
    for (int64_t m = 0; m < c->columns; m++) {
        const vf logit =
            v_set(coeffs_alpha(c, m)) * v_load(EL_F32, mix, m * BLOCK) + v_set(c->bias[m]);
        if (m >= 2 * c->streams) {
            matrix[m - 2 * c->streams] = logit;
            continue;
        }
        const vf s = v_sigmoid(logit);
        v_store(EL_F32, to, m * BLOCK,
                m < c->streams ? s + v_set(job->pre_eps) : s * v_set(job->post_multiplier));
    }
    mhc_iterate(c, matrix, 0);
    for (int64_t m = 2 * c->streams; m < c->columns; m++)
        v_store(EL_F32, to, m * BLOCK, matrix[m - 2 * c->streams]);
}

static void put_token(const job *job, const float *from, int64_t token)
{
    const int64_t streams = job->c.streams;
    for (int64_t s = 0; s < streams; s++) {
        job->pre[token * streams + s] = from[s * BLOCK];
        job->post[token * streams + s] = from[(streams + s) * BLOCK];
    }
    for (int64_t i = 0; i < streams * streams; i++)
        job->res[token * streams * streams + i] = from[(2 * streams + i) * BLOCK];
}

SIMD_INLINE void forward_blocks(el e, int stream, const job *job, int64_t begin, int64_t end,
                                int worker)
{
    (void)stream;
    const scratch s = scratch_of(job, worker);
    for (int64_t block = begin; block < end; block++) {
        const int64_t token = block * BLOCK, left = job->c.tokens - token;
        const int64_t count = left < BLOCK ? left : BLOCK;
        mix_block(e, job, &s, token, count);
        for (int64_t t = 0; t < count; t += VL)
            coefficients(job, s.mix + t, s.logits + t);
        for (int64_t t = 0; t < count; t++)
            put_token(job, s.logits + t, token + t);
    }
}

ROWS_CHUNK(forward_chunk, job, forward_blocks);

static tg_status forward(tg_ctx *ctx, const tg_mhc_coeffs_forward_args *a)
{
    const tg_tensor *const alpha[] = {a->alpha_pre, a->alpha_post, a->alpha_res};
    job job = {.c = coeffs_of(a->x, a->iterations, a->sinkhorn_eps, a->bias, alpha),
               .x = operand_of(a->x),
               .pre = tg_data(a->h_pre),
               .post = tg_data(a->h_post),
               .res = tg_data(a->h_res),
               .mix = tg_data(a->mix),
               .rstd = tg_data(a->rstd),
               .rms_eps = (float)a->rms_eps,
               .pre_eps = (float)a->pre_eps,
               .post_multiplier = (float)a->post_multiplier,
               .type = el_of(a->x)};
    TG_TRY(mhc_phi_pack(ctx, job.type, a->phi, &job.c));
    job.room = scratch_room(&job.c);
    job.ahead = BLOCK * job.c.streams * job.x.stride;
    job.scratch = tg_workspace(ctx, (size_t)(tg_ctx_threads(ctx) * job.room) * sizeof(float));
    if (!job.scratch)
        return TG_ENOMEM;
    tg_parallel_for(ctx, coeffs_blocks(&job.c), 1, forward_chunk, &job);
    return TG_OK;
}

TG_CPU_IMPLS(mhc_coeffs) = {TG_CPU_IMPL(mhc_coeffs_forward, forward), TG_IMPLS_END};
