/* flash_products.asc.h - products of kernels of attention, of one type: tensors as
 * they lie, and scores. */
#include "products/asc_product.asc.h"

/* A tensor's first element, its steps, and elements of a row. */
#define FLASH_TENSOR ASC_NAME(flash_tensor)
typedef struct FLASH_TENSOR {
    __gm__ ASC_T *at;
    flash_strides of;
    int64_t width;
} FLASH_TENSOR;

static inline __aicore__ FLASH_TENSOR ASC_NAME(flash_tensor_of)(__gm__ ASC_T *at, flash_strides of,
                                                                int64_t width)
{
    FLASH_TENSOR t;
    t.at = at;
    t.of = of;
    t.width = width;
    return t;
}

/* Of `rows` rows of x, which lie as an operand does, and n rows of y all products of
 * two, d long: rows of f->tile. held: the tile of L1 where those of y are, or -1. */
static inline __aicore__ void ASC_NAME(flash_dot)(const flash_problem *f, asc_products *c,
                                                  __gm__ ASC_T *x, const asc_operand *left,
                                                  int64_t rows, __gm__ ASC_T *y, int64_t y_row,
                                                  int64_t held, int64_t n, int64_t d,
                                                  __gm__ float *to)
{
    for (int64_t at = 0; at < n && d; at += ASC_SIDE) {
        const asc_operand right = asc_operand_of(y_row, 0, held < 0 ? held : held + at / ASC_SIDE);
        ASC_NAME(asc_product)
        (c, x, left, y + at * y_row, &right, rows, asc_min_of(ASC_SIDE, n - at), d, to + at,
         f->tile);
    }
}
