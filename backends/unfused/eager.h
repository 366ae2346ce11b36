/* eager.h - elementary steps as an eager framework runs them, of which all
 * implementations here are made.
 *
 * Every step is one threaded pass over memory that computes in f32 and rounds to the type of its
 * output. What a temporary gives back the next ones get, as with the caching allocators of
 * frameworks. A failed allocation makes all later steps do nothing; eager_end() reports it.
 *
 *   eager e = eager_begin(ctx);
 *   mat x = eager_rows(args->x), square = eager_new(&e, x.type, x.rows, x.cols);
 *   eager_binary(&e, EAGER_MUL, square, x, x);
 *   ...
 *   eager_free(&e, square);
 *   return eager_end(&e);
 */
#ifndef UNFUSED_EAGER_H
#define UNFUSED_EAGER_H

#include "unfused.h"

/* A matrix in memory. rows = 1 broadcasts over rows, cols = 1 over columns, where it is an operand.
 */
typedef struct mat {
    void *data;
    int type; /* TG_F32, TG_BF16, TG_F16 */
    int64_t rows, cols;
    int64_t stride; /* of a row, in elements */
    int64_t repeat; /* of an operand: each row stands for so many rows of the result; 0 means 1 */
} mat;

/* Memory of the context's workspace, which takes all of it back when the implementation returns. */
typedef struct eager_block {
    void *data;
    size_t bytes;
    int used;
} eager_block;

enum { EAGER_BLOCKS = 96 };

typedef struct eager {
    tg_ctx *ctx;
    tg_status status;
    uint64_t shake; /* of the next step; 0: none is shaken */
    int count;
    eager_block blocks[EAGER_BLOCKS];
} eager;

typedef enum eager_op {
    /* unary */
    EAGER_COPY, /* also converts the type */
    EAGER_NEG,
    EAGER_EXP,
    EAGER_LOG,
    EAGER_SQRT,
    EAGER_RSQRT,
    EAGER_SIGMOID,
    EAGER_TANH,
    EAGER_TANH_SLOPE, /* 1 - tanh^2 of its argument, to the last digits where tanh is nearly 1 */
    EAGER_ERFC,
    EAGER_ABS,
    /* binary; the second operand may be a scalar (eager_scalar) */
    EAGER_ADD,
    EAGER_SUB,
    EAGER_MUL,
    EAGER_DIV,
    EAGER_GREATER, /* 1 or 0 */
    EAGER_MAX,     /* also a reduction */
    EAGER_MIN,
    /* of complex numbers, real and imaginary part in columns 2j and 2j + 1 */
    EAGER_COMPLEX_MUL,
    EAGER_COMPLEX_MUL_CONJ, /* with the conjugate of the second */
    /* reductions */
    EAGER_SUM
} eager_op;

/* Once, before the first step: chooses the steps that this machine runs. */
tg_status eager_open(void);

/* From now on each step of the context's calls moves what it computes by half a rounding of f32 to
 * one and a half, up or down as the key has it; 0 ends it. For the checker, which measures so what
 * the textbook's own roundings do to its results. */
TG_API void eager_shake(tg_ctx *ctx, uint64_t key);
uint64_t eager_shaken(tg_ctx *ctx);

eager eager_begin(tg_ctx *ctx);
tg_status eager_end(eager *e);

mat eager_rows(const tg_tensor *t);   /* [R, N] of a tensor of rows */
mat eager_vector(const tg_tensor *t); /* [1, N] */
mat eager_column(const tg_tensor *t); /* [R, 1] of R compact elements */
mat eager_view(void *data, int type, int64_t rows, int64_t cols, int64_t stride);
mat eager_columns(mat m, int64_t begin, int64_t count);
mat eager_new(eager *e, int type, int64_t rows, int64_t cols);
mat eager_like(eager *e, mat m); /* of m's type and size */
/* m in f32: itself, or a converted copy. */
mat eager_wide(eager *e, mat m);
mat eager_copy(eager *e, int type, mat m);
void eager_free(eager *e, mat m);

void eager_unary(eager *e, eager_op op, mat out, mat a);
void eager_binary(eager *e, eager_op op, mat out, mat a, mat b);
void eager_scalar(eager *e, eager_op op, mat out, mat a, double b);
void eager_fill(eager *e, mat out, double value);
/* out [R, 1] */
void eager_reduce_rows(eager *e, eager_op op, mat out, mat a);
/* out [1, N]: sum over rows, in f32, in the same order for any number of threads */
void eager_sum_columns(eager *e, mat out, mat a);

/* Compositions, each result a fresh f32 matrix: a - b; the mean of each row, [R, 1]; 1 /
 * sqrt(mean(centred^2) + eps) of each row. */
mat eager_less(eager *e, mat a, mat b);
mat eager_row_mean(eager *e, mat a);
mat eager_row_rstd(eager *e, mat centred, double eps);
/* Steps that free their first operand: op(x), x op operand, x op value; x in another type, x
 * itself if it has that. */
mat eager_then(eager *e, eager_op op, mat x);
mat eager_then_by(eager *e, eager_op op, mat x, mat operand);
mat eager_then_scalar(eager *e, eager_op op, mat x, double value);
mat eager_then_type(eager *e, int type, mat x);
/* Neighbours of each row become halves, or halves neighbours: a framework's transpose of [D / 2,
 * 2], made contiguous. */
void eager_permute(eager *e, mat out, mat a, int to_halves);
/* softmax of each row of f32, which frees x; sum [R, 1] becomes max + log(sum of
 * the exponentials). */
mat eager_softmax(eager *e, mat x, mat sum);
/* log_softmax(x / temperature) of each row, and its backward d - exp(log_p) sum(d). sum:
 * [R, 1], those of the exponentials relative to the largest, which backward takes; NULL
 * if there is none. */
mat eager_log_softmax(eager *e, mat x, double temperature, mat *sum);
mat eager_log_softmax_backward(eager *e, mat log_p, mat sum, mat d);

/* A matrix as a tensor, with memory for its shape. */
typedef struct view {
    tg_tensor t;
    int64_t shape[2], strides[2];
} view;
tg_tensor *eager_tensor(view *v, mat m);
/* Elements [first, first + n) of a tensor of one number a row; NULL of NULL. */
tg_tensor *eager_part(view *v, const tg_tensor *t, int64_t first, int64_t n);

/* c = op(a) op(b) + beta c, by the operator gemm */
void eager_multiply(eager *e, mat c, mat a, int trans_a, mat b, int trans_b, double beta);
/* out = a or, where it accumulates, out + a */
void eager_put(eager *e, mat out, mat a, int64_t accumulate);
/* The sum over rows, which goes or is added to a parameter's gradient. */
void eager_gradient(eager *e, mat out, mat terms, int64_t accumulate);

/* Rows that are ignored become 0, whatever they hold. */
void eager_drop_rows(const eager *e, row_labels labels, mat m);

/* 1 if a row of f32 is -inf throughout: max + log(sum) is NaN there, where lse is -inf. */
int eager_all_minus_inf(mat m, int64_t row);

#endif
