/* jsd, fast: one pass. Backward is forward without its sums. */
#include <string.h>

#include "jsd_kernel.h"

#include "core/pieces.h"
#include "runs.h"

#include "jsd.h"

enum { SCRATCH = 3 * RUN_FLOATS(TG_PIECE) };

typedef struct job {
    el type, teacher_type; /* of student and dstudent; of teacher */
    float *scratch;        /* where they differ: SCRATCH floats a worker */
    int stream;
    jsd_kind kind;
    jsd_options o;
    jsd_weights by;
    tg_pieces all;
    const char *student, *teacher;
    char *dstudent;
    int64_t student_stride, teacher_stride, dstudent_stride; /* in bytes */
    double *sums;                                            /* of items; NULL for backward */
} job;

/* In f32, whatever the types are. */
static void run_mixed(const job *j, const jsd_span *s, int worker, double *sum)
{
    float *at = j->scratch + worker * (int64_t)SCRATCH;
    jsd_span wide = {.n = s->n};
    wide.student = run_read(j->type, s->student, s->n, &at);
    wide.teacher = run_read(j->teacher_type, s->teacher, s->n, &at);
    wide.dstudent = run_place(j->type, s->dstudent, s->n, &at);
    jsd_kinds(EL_F32, j->kind, 0, &j->by, &wide, sum);
    run_write(j->type, wide.dstudent, s->dstudent, s->n);
}

static double run_item(const job *j, int64_t item, int worker)
{
    const tg_piece piece = tg_piece_at(&j->all, item);
    const int64_t skip = piece.first * el_size(j->type);
    jsd_span s = {.n = piece.n};
    double sum = 0;
    for (int64_t r = piece.row; r < piece.end; r++) {
        s.student = j->student + r * j->student_stride + skip;
        s.teacher = j->teacher + r * j->teacher_stride + piece.first * el_size(j->teacher_type);
        s.dstudent = j->dstudent ? j->dstudent + r * j->dstudent_stride + skip : NULL;
        if (jsd_ignores(&j->o, r)) {
            if (s.dstudent)
                memset(s.dstudent, 0, (size_t)(s.n * el_size(j->type)));
        } else if (j->scratch) {
            run_mixed(j, &s, worker, &sum);
        } else {
            EL_SPECIALIZE(j->type, jsd_kinds, j->kind, j->stream, &j->by, &s, &sum);
        }
    }
    return sum;
}

static void run_items(void *arg, int64_t begin, int64_t end, int worker)
{
    const job *j = arg;
    for (int64_t item = begin; item < end; item++) {
        const double sum = run_item(j, item, worker);
        if (j->sums)
            j->sums[item] = sum;
    }
    if (j->stream)
        v_fence();
}

static job job_of(const jsd_options *o, const tg_tensor *student, const tg_tensor *teacher,
                  const tg_tensor *dloss, const tg_tensor *dstudent)
{
    const tg_rows rows = tg_rows_of(student);
    job j = {.type = (el)tg_el(rows.type),
             .teacher_type = (el)tg_el(tg_type_of(teacher)),
             .o = *o,
             .all = {.rows = rows.rows, .n = rows.n}};
    j.kind = o->beta == 0     ? JSD_FORWARD
             : o->beta == 1   ? JSD_REVERSE
             : o->beta == 0.5 ? JSD_EVEN
                              : JSD_MIXTURE;
    j.student = tg_row_bytes(student, &j.student_stride);
    j.teacher = tg_row_bytes(teacher, &j.teacher_stride);
    j.dstudent = dstudent ? tg_row_bytes(dstudent, &j.dstudent_stride) : NULL;
    double scale = jsd_scale(o, rows.rows) * (dloss ? *(const float *)tg_data(dloss) : 1);
    if (j.kind >= JSD_EVEN)
        scale *= (1 - o->beta) * JSD_UNIT;
    /* kept from 0, where a mixture would be 0 beside a probability of 0 */
    const double beta = fmin(fmax(o->beta, 0x1p-24), 1 - 0x1p-24);
    j.by = (jsd_weights){v_set((float)beta), v_set((float)(1 - beta)), v_set((float)scale)};
    /* a line that has just been read is best written through the cache */
    j.stream = j.dstudent && j.dstudent != j.student && j.type == j.teacher_type &&
               tg_streams(rows.rows * rows.n * el_size(j.type));
    return j;
}

/* 0 without the memory that mixed types need. */
static int scratch_for(tg_ctx *ctx, job *j)
{
    const size_t floats = (size_t)tg_ctx_threads(ctx) * SCRATCH;
    if (j->type != j->teacher_type)
        j->scratch = tg_workspace(ctx, floats * sizeof *j->scratch);
    return j->type == j->teacher_type || j->scratch; /* no case: memory lacks in tests/oom alone */
}

static int one_row(const job *j)
{
    const int64_t width = j->all.n * el_size(j->type);
    return !j->o.labels && j->student_stride == width &&
           j->teacher_stride == j->all.n * el_size(j->teacher_type) &&
           (!j->dstudent || j->dstudent_stride == width);
}

static tg_status forward(tg_ctx *ctx, const tg_jsd_forward_args *args)
{
    const jsd_options o = JSD_OPTIONS(args);
    job j = job_of(&o, args->student, args->teacher, args->dloss, args->dstudent);
    const double unit = j.kind == JSD_EVEN ? JSD_UNIT / 2 : j.kind == JSD_MIXTURE ? JSD_UNIT : 1;
    const double scale = jsd_scale(&o, j.all.rows) * unit;
    const int64_t items = tg_pieces_cut(&j.all, one_row(&j));
    j.sums = tg_workspace(ctx, (size_t)(items + 1) * sizeof *j.sums);
    if (!j.sums || !scratch_for(ctx, &j))
        return TG_ENOMEM;
    tg_parallel_for(ctx, items, 1, run_items, &j);
    const double sum = tg_pieces_sum(j.sums, items);
    *(float *)tg_data(args->loss) = (float)(sum * scale);
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_jsd_backward_args *args)
{
    const jsd_options o = JSD_OPTIONS(args);
    job j = job_of(&o, args->student, args->teacher, args->dloss, args->dstudent);
    const int64_t items = tg_pieces_cut(&j.all, one_row(&j));
    if (!scratch_for(ctx, &j))
        return TG_ENOMEM;
    tg_parallel_for(ctx, items, 1, run_items, &j);
    return TG_OK;
}

TG_CPU_IMPLS(jsd) = {TG_CPU_IMPL(jsd_forward, forward), TG_CPU_IMPL(jsd_backward, backward),
                     TG_IMPLS_END};
