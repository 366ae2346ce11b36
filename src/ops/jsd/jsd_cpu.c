/* jsd, fast: one pass. Backward is forward without its sums. */
#include <string.h>

#include "jsd_kernel.h"

#include "jsd.h"

/* Elements of a row that are summed in f32, and the least that is worth a thread. */
enum { PIECE = 8192 };

typedef struct job {
    el type;
    int stream;
    jsd_kind kind;
    jsd_options o;
    jsd_weights by;
    int64_t rows, n;
    int64_t pieces, group; /* an item is one of so many pieces of a row, or so many rows */
    const char *student, *teacher;
    char *dstudent;
    int64_t student_stride, teacher_stride, dstudent_stride; /* in bytes */
    double *sums;                                            /* of items; NULL for backward */
} job;

static double run_item(const job *j, int64_t item)
{
    const int64_t first = item % j->pieces * PIECE, skip = first * el_size(j->type);
    const int64_t row = item / j->pieces * j->group;
    jsd_span s = {.n = j->n - first < PIECE ? j->n - first : PIECE};
    double sum = 0;
    for (int64_t r = row; r < row + j->group && r < j->rows; r++) {
        s.student = j->student + r * j->student_stride + skip;
        s.teacher = j->teacher + r * j->teacher_stride + skip;
        s.dstudent = j->dstudent ? j->dstudent + r * j->dstudent_stride + skip : NULL;
        if (!jsd_ignores(&j->o, r))
            EL_SPECIALIZE(j->type, jsd_kinds, j->kind, j->stream, &j->by, &s, &sum);
        else if (s.dstudent)
            memset(s.dstudent, 0, (size_t)(s.n * el_size(j->type)));
    }
    return sum;
}

static void run_items(void *arg, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    const job *j = arg;
    for (int64_t item = begin; item < end; item++) {
        const double sum = run_item(j, item);
        if (j->sums)
            j->sums[item] = sum;
    }
    if (j->stream)
        v_fence();
}

static const char *rows_at(const tg_tensor *t, int64_t *stride)
{
    const tg_rows rows = tg_rows_of(t);
    *stride = rows.stride * (int64_t)tg_type_size(rows.type);
    return rows.data;
}

static job job_of(const jsd_options *o, const tg_tensor *student, const tg_tensor *teacher,
                  const tg_tensor *dloss, const tg_tensor *dstudent)
{
    const tg_rows rows = tg_rows_of(student);
    job j = {.type = (el)tg_el(rows.type), .o = *o, .rows = rows.rows, .n = rows.n};
    j.kind = o->beta == 0 ? JSD_FORWARD : o->beta == 1 ? JSD_REVERSE : JSD_MIXTURE;
    j.student = rows_at(student, &j.student_stride);
    j.teacher = rows_at(teacher, &j.teacher_stride);
    j.dstudent = dstudent ? (char *)rows_at(dstudent, &j.dstudent_stride) : NULL;
    double scale = jsd_scale(o, rows.rows) * (dloss ? *(const float *)tg_data(dloss) : 1);
    if (j.kind == JSD_MIXTURE)
        scale *= (1 - o->beta) * JSD_UNIT;
    /* kept from 0, where a mixture would be 0 beside a probability of 0 */
    const double beta = fmin(fmax(o->beta, 0x1p-24), 1 - 0x1p-24);
    j.by = (jsd_weights){v_set((float)beta), v_set((float)(1 - beta)), v_set((float)scale)};
    /* a line that has just been read is best written through the cache */
    j.stream =
        j.dstudent && j.dstudent != j.student && tg_streams(rows.rows * rows.n * el_size(j.type));
    return j;
}

static int one_row(const job *j)
{
    const int64_t width = j->n * el_size(j->type);
    return !j->o.labels && j->student_stride == width && j->teacher_stride == width &&
           (!j->dstudent || j->dstudent_stride == width);
}

/* Compact tensors without labels are one long row. Then short rows are grouped, long ones cut into pieces.
 * Returns the number of items. */
static int64_t cut(job *j)
{
    if (j->rows * j->n == 0)
        return 0;
    if (one_row(j)) {
        j->n *= j->rows;
        j->rows = 1;
    }
    j->pieces = (j->n + PIECE - 1) / PIECE;
    j->group = j->n < PIECE ? PIECE / j->n : 1;
    return (j->rows + j->group - 1) / j->group * j->pieces;
}

static tg_status forward(tg_ctx *ctx, const tg_jsd_forward_args *args)
{
    const jsd_options o = JSD_OPTIONS(args);
    job j = job_of(&o, args->student, args->teacher, args->dloss, args->dstudent);
    const double unit = j.kind == JSD_MIXTURE ? JSD_UNIT : 1;
    const double scale = jsd_scale(&o, j.rows) * unit;
    const int64_t items = cut(&j);
    j.sums = tg_workspace(ctx, (size_t)(items + 1) * sizeof *j.sums);
    if (!j.sums)
        return TG_ENOMEM;
    tg_parallel_for(ctx, items, 1, run_items, &j);
    double sum = 0;
    for (int64_t i = 0; i < items; i++)
        sum += j.sums[i];
    *(float *)tg_data(args->loss) = (float)(sum * scale);
    return TG_OK;
}

static tg_status backward(tg_ctx *ctx, const tg_jsd_backward_args *args)
{
    const jsd_options o = JSD_OPTIONS(args);
    job j = job_of(&o, args->student, args->teacher, args->dloss, args->dstudent);
    const int64_t items = cut(&j);
    tg_parallel_for(ctx, items, 1, run_items, &j);
    return TG_OK;
}

static int accepts_forward(const tg_jsd_forward_args *args)
{
    return tg_fast_type(args->student);
}

static int accepts_backward(const tg_jsd_backward_args *args)
{
    return tg_fast_type(args->student);
}

TG_CPU_ROWS(jsd) = {TG_CPU_ROW(jsd_forward, accepts_forward, forward),
                    TG_CPU_ROW(jsd_backward, accepts_backward, backward), TG_ROWS_END};
