/* Elementary steps: choice of the level, memory, work cut by size. Broadcasting is left to
 * the caller to check. */
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "steps.h"

#define EAGER_LEVEL(level, needs) extern const eager_steps eager_steps_##level;
#include "eager_levels.inc"
#undef EAGER_LEVEL

static const struct {
    uint64_t needs;
    const eager_steps *steps;
} levels[] = {
#define EAGER_LEVEL(level, needs) {needs, &eager_steps_##level},
#include "eager_levels.inc"
#undef EAGER_LEVEL
};

static const eager_steps *steps; /* of this machine's level */

enum { CHUNK = 32768 }; /* elements */

#if defined(__x86_64__)
static uint64_t machine_features(void)
{
    unsigned a, b, c = 0, d;
    __builtin_cpu_init();
#define HAS(feature) (__builtin_cpu_supports(feature) != 0)
    const int f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
    const int v2 = HAS("sse4.2") && HAS("ssse3") && HAS("popcnt");
    const int v3 = v2 && HAS("avx2") && HAS("fma") && HAS("bmi") && HAS("bmi2") && f16c;
    const int v4 = v3 && HAS("avx512f") && HAS("avx512bw") && HAS("avx512cd") && HAS("avx512dq") &&
                   HAS("avx512vl");
#undef HAS
    return (v2 ? TG_CPU_V2 : 0) | (v3 ? TG_CPU_V3 : 0) | (v4 ? TG_CPU_V4 : 0);
}
#else
static uint64_t machine_features(void)
{
    return TG_CPU_NEON; /* of every aarch64; elsewhere there is one level, which needs nothing */
}
#endif

tg_status eager_open(void)
{
    const uint64_t features = machine_features();
    for (size_t i = 0; i < sizeof levels / sizeof *levels && !steps; i++)
        if ((levels[i].needs & ~features) == 0)
            steps = levels[i].steps;
    return steps ? TG_OK : unfused_host->fail(TG_EUNSUPPORTED, "it was built for other processors");
}

eager eager_begin(tg_ctx *ctx)
{
    eager e;
    e.ctx = ctx;
    e.status = TG_OK;
    e.shake = eager_shaken(ctx);
    e.count = 0;
    return e;
}

tg_status eager_end(eager *e)
{
    return e->status;
}

/* ---- temporaries ---- */

/* The smallest block that is free and large enough, but less than twice too large: what follows
 * may need that one. */
static eager_block *free_block(eager *e, size_t bytes)
{
    eager_block *best = NULL;
    for (int i = 0; i < e->count; i++) {
        eager_block *b = &e->blocks[i];
        if (!b->used && b->bytes >= bytes && b->bytes / 2 <= bytes &&
            (!best || b->bytes < best->bytes))
            best = b;
    }
    return best;
}

static void *take(eager *e, size_t bytes)
{
    eager_block *b = free_block(e, bytes);
    if (b) {
        b->used = 1;
        return b->data;
    }
    void *data = unfused_host->workspace(e->ctx, bytes);
    if (data && e->count < EAGER_BLOCKS)
        e->blocks[e->count++] = (eager_block){data, bytes, 1};
    return data;
}

mat eager_new(eager *e, int type, int64_t rows, int64_t cols)
{
    mat m = {NULL, type, rows, cols, cols, 0};
    if (e->status == TG_OK)
        m.data = take(e, (size_t)(rows * cols) * tg_type_size(type));
    if (e->status == TG_OK && !m.data)
        e->status = TG_ENOMEM;
    return m;
}

mat eager_like(eager *e, mat m)
{
    return eager_new(e, m.type, m.rows, m.cols);
}

mat eager_copy(eager *e, int type, mat m)
{
    const mat copy = eager_new(e, type, m.rows, m.cols);
    eager_unary(e, EAGER_COPY, copy, m);
    return copy;
}

mat eager_wide(eager *e, mat m)
{
    return m.type == TG_F32 ? m : eager_copy(e, TG_F32, m);
}

void eager_free(eager *e, mat m)
{
    for (int i = 0; i < e->count; i++)
        if (e->blocks[i].data == m.data)
            e->blocks[i].used = 0;
}

/* ---- running a step ---- */

typedef struct eager_job {
    eager_step step;
    void (*run)(const eager_step *step, int64_t begin, int64_t end);
} eager_job;

static void run_chunk(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const eager_job *job = arg;
    job->run(&job->step, begin, end);
}

/* What picks an operand, or a part of it, rounds nothing. */
static int rounds(eager_op op)
{
    return op != EAGER_COPY && op != EAGER_NEG && op != EAGER_ABS && op != EAGER_GREATER &&
           op != EAGER_MAX;
}

/* The key of a step: each has another. */
static uint64_t shake_of(eager *e, eager_op op)
{
    enum { STEP = 1 << 20 };
    const uint64_t key = e->shake;
    e->shake += key ? STEP : 0;
    return rounds(op) ? key : 0;
}

static int64_t rows_per_chunk(int64_t cols)
{
    return cols > 0 && CHUNK / cols > 1 ? CHUNK / cols : 1;
}

/* A compact matrix that needs no broadcasting, as one of long rows: short rows are no reason to be
 * slow. */
static int flat(const eager_step *s)
{
    const int64_t rows = s->out.rows, cols = s->out.cols;
    const mat *all[] = {&s->out, &s->a, &s->b};
    for (int i = 0; i < 3; i++)
        if (all[i]->data &&
            (all[i]->rows != rows || all[i]->cols != cols || all[i]->stride != cols))
            return 0;
    return rows > 1 && cols > 0 && cols < CHUNK && rows * cols % CHUNK == 0;
}

static void map(eager *e, eager_step s)
{
    if (e->status != TG_OK)
        return;
    s.shake = shake_of(e, s.op);
    if (flat(&s)) {
        const int64_t rows = s.out.rows * s.out.cols / CHUNK;
        mat *all[] = {&s.out, &s.a, &s.b};
        for (int i = 0; i < 3; i++)
            if (all[i]->data)
                *all[i] = (mat){all[i]->data, all[i]->type, rows, CHUNK, CHUNK, 0};
    }
    eager_job job = {s, steps->map};
    unfused_host->parallel_for(e->ctx, s.out.rows, rows_per_chunk(s.out.cols), run_chunk, &job);
}

void eager_unary(eager *e, eager_op op, mat out, mat a)
{
    map(e, (eager_step){.op = op, .out = out, .a = a});
}

void eager_binary(eager *e, eager_op op, mat out, mat a, mat b)
{
    map(e, (eager_step){.op = op, .out = out, .a = a, .b = b});
}

void eager_scalar(eager *e, eager_op op, mat out, mat a, double b)
{
    map(e, (eager_step){.op = op, .out = out, .a = a, .scalar = (float)b});
}

void eager_fill(eager *e, mat out, double value)
{
    const float number = (float)value;
    map(e, (eager_step){.op = EAGER_COPY, .out = out, .a = {(void *)&number, TG_F32, 1, 1, 1, 0}});
}

void eager_reduce_rows(eager *e, eager_op op, mat out, mat a)
{
    if (e->status != TG_OK)
        return;
    eager_job job = {{.op = op, .out = out, .a = a, .shake = shake_of(e, op)}, steps->reduce};
    unfused_host->parallel_for(e->ctx, a.rows, rows_per_chunk(a.cols), run_chunk, &job);
}

void eager_sum_columns(eager *e, mat out, mat a)
{
    if (e->status != TG_OK)
        return;
    eager_job job = {{.op = EAGER_SUM, .out = out, .a = a, .shake = shake_of(e, EAGER_SUM)},
                     steps->sum_columns};
    const int64_t strip = 64, least = a.rows > 0 ? CHUNK / a.rows : a.cols;
    unfused_host->parallel_for(e->ctx, a.cols, (least + strip) / strip * strip, run_chunk, &job);
}

void eager_multiply(eager *e, mat c, mat a, int trans_a, mat b, int trans_b, double beta)
{
    view va, vb, vc;
    if (e->status == TG_OK)
        e->status =
            CALL(e->ctx, gemm, .a = eager_tensor(&va, a), .b = eager_tensor(&vb, b),
                 .c = eager_tensor(&vc, c), .trans_a = trans_a, .trans_b = trans_b, .beta = beta);
}

void eager_put(eager *e, mat out, mat a, int64_t accumulate)
{
    if (accumulate)
        eager_binary(e, EAGER_ADD, out, out, a);
    else
        eager_unary(e, EAGER_COPY, out, a);
}

void eager_gradient(eager *e, mat out, mat terms, int64_t accumulate)
{
    const mat sum = eager_new(e, TG_F32, 1, terms.cols);
    eager_sum_columns(e, sum, terms);
    eager_put(e, out, sum, accumulate);
    eager_free(e, sum);
}
