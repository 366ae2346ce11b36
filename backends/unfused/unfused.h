/* unfused.h - what the files of this backend share: the library's services, and tensors
 * as they read them. */
#ifndef UNFUSED_H
#define UNFUSED_H

#include "tigon/backend.h"

/* Threads, scratch memory, errors, other operators; since the library has opened this backend. */
extern const tg_host *unfused_host;

#define TRY(call)                       \
    do {                                \
        const tg_status status_ = call; \
        if (status_ != TG_OK)           \
            return status_;             \
    } while (0)

/* A family's table: UNFUSED_IMPLS(dyt) = {UNFUSED_IMPL(dyt_forward, forward), ..., TG_IMPLS_END};
 * CMake lists the families for backend.c. */
#define UNFUSED_IMPLS(family) const tg_impl unfused_impls_##family[]
#define UNFUSED_IMPL(op, run) UNFUSED_IMPL_IF(op, NULL, run)
#define UNFUSED_IMPL_IF(op, accepts, run) TG_IMPL(op, "", 0, TG_TAKES_FLOATS, accepts, run)

/* Another operator, through dispatch: CALL(ctx, gemm, .a = a, .b = b, .c = c) */
#define CALL(ctx, op, ...) unfused_host->call(ctx, #op, &(tg_##op##_args){__VA_ARGS__})

/* ---- tensors ---- */

/* The address of element i. */
static inline void *element_at(const void *data, int type, int64_t i)
{
    return (char *)data + i * (int64_t)tg_type_size(type);
}

/* Element i, of any type that a program may give; and a number rounded to f32, bf16 or
 * f16, or an integer. */
double element_of(const void *data, int type, int64_t i);
void set_element(void *data, int type, int64_t i, double value);

/* ---- which rows a loss counts, and what a reduction divides by ---- */

/* A label for each row; rows whose label is `ignored` do not count. */
typedef struct row_labels {
    const int64_t *of; /* NULL: all rows count */
    int64_t ignored;
} row_labels;

static inline row_labels labels_of(const tg_tensor *labels, int64_t ignore_index)
{
    return (row_labels){tg_data(labels), ignore_index};
}

static inline int row_ignored(row_labels l, int64_t row)
{
    return l.of && l.of[row] == l.ignored;
}

/* 1 / x; 0 for 0: where nothing counts, losses and gradients are 0. */
static inline double share(double x)
{
    return x != 0 ? 1 / x : 0;
}

static inline double rows_counted(row_labels l, int64_t rows)
{
    double count = 0;
    for (int64_t r = 0; r < rows; r++)
        count += !row_ignored(l, r);
    return count;
}

/* What each element's term is multiplied with: TG_MEAN is over the elements of the rows that count,
 * TG_BATCHMEAN over those rows. */
static inline double reduction_scale(row_labels l, int64_t reduction, int64_t rows, int64_t n)
{
    if (reduction == TG_SUM || reduction == TG_NONE)
        return 1;
    return share(rows_counted(l, rows) * (reduction == TG_MEAN ? (double)n : 1));
}

#endif
