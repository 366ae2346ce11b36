/* src/eager/eager.h - elementary steps as an eager framework runs them; the implementations
 * `unfused`, which run only on request, are made of these.
 *
 * Every step is one vectorised, threaded pass over memory that computes in f32 and rounds to the
 * type of its output. Temporaries come from the context's workspace, which keeps freed memory, as
 * the caching allocators of frameworks do. A failed allocation makes all later steps do nothing;
 * eager_end() reports it.
 *
 *   eager e = eager_begin(ctx);
 *   mat x = eager_rows(args->x), square = eager_new(&e, x.type, x.rows, x.cols);
 *   eager_binary(&e, EAGER_MUL, square, x, x);
 *   ...
 *   eager_free(&e, square);
 *   return eager_end(&e);
 */
#ifndef TG_EAGER_H
#define TG_EAGER_H

#include "core/services.h"

/* A matrix in memory. rows = 1 broadcasts over rows, cols = 1 over columns, where it is an operand.
 */
typedef struct mat {
    void *data;
    int type; /* TG_F32, TG_BF16, TG_F16 */
    int64_t rows, cols;
    int64_t stride; /* of a row, in elements */
    int64_t repeat; /* of an operand: each row stands for so many rows of the result; 0 means 1 */
} mat;

typedef struct eager {
    tg_ctx *ctx;
    tg_status status;
    const struct eager_steps *steps; /* of this machine's level */
} eager;

typedef enum eager_op {
    /* unary */
    EAGER_COPY, /* also converts the type */
    EAGER_NEG,
    EAGER_EXP,
    EAGER_LOG,
    EAGER_SQRT,
    EAGER_RECIPROCAL,
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
    /* of complex numbers, real and imaginary part in columns 2j and 2j + 1 */
    EAGER_COMPLEX_MUL,
    EAGER_COMPLEX_MUL_CONJ, /* with the conjugate of the second */
    /* reductions */
    EAGER_SUM
} eager_op;

eager eager_begin(tg_ctx *ctx);
tg_status eager_end(eager *e);

mat eager_rows(const tg_tensor *t);   /* [R, N] of a tensor of rows */
mat eager_vector(const tg_tensor *t); /* [1, N] */
mat eager_column(const tg_tensor *t); /* [R, 1] of R compact elements */
mat eager_view(void *data, int type, int64_t rows, int64_t cols, int64_t stride);
mat eager_new(eager *e, int type, int64_t rows, int64_t cols);
void eager_free(eager *e, mat m);

void eager_unary(eager *e, eager_op op, mat out, mat a);
void eager_binary(eager *e, eager_op op, mat out, mat a, mat b);
void eager_scalar(eager *e, eager_op op, mat out, mat a, double b);
void eager_fill(eager *e, mat out, double value);
/* out [R, 1] */
void eager_reduce_rows(eager *e, eager_op op, mat out, mat a);
/* out [1, N]: sum over rows, in f32, in the same order for any number of threads */
void eager_sum_columns(eager *e, mat out, mat a);

/* Compositions, each result a fresh f32 matrix: a - b; the mean of each row, [R, 1]; 1 / sqrt(mean(centred^2) + eps) of each row. */
mat eager_less(eager *e, mat a, mat b);
mat eager_row_mean(eager *e, mat a);
mat eager_row_rstd(eager *e, mat centred, double eps);
/* log_softmax(x / temperature) of each row, and its backward d - exp(log_p) sum(d). sum: [R, 1], those of the exponentials relative to the
 * largest, which backward takes; NULL if there is none. */
mat eager_log_softmax(eager *e, mat x, double temperature, mat *sum);
mat eager_log_softmax_backward(eager *e, mat log_p, mat sum, mat d);

/* 1 if a row of f32 is -inf throughout: max + log(sum) is NaN there, where lse is -inf. */
int eager_all_minus_inf(mat m, int64_t row);

#endif
