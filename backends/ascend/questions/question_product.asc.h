/* question_product.asc.h - a product of 32 x 32 results on a cube core, C = A B, every step behind
 * the one before: A is in[0], B is in[16384], of QUESTION_T; loaded as the library's kernels do. */
#include "question.asc.h"

#ifndef QUESTION_T
#define QUESTION_T half
#define QUESTION_16BIT 1
#endif
#define ASC_T QUESTION_T
#define ASC_16BIT QUESTION_16BIT
#define ASC_NAME(x) x##_question
#include "products/asc_fractals.asc.h"

#define L1_A ((__cbuf__ QUESTION_T *)asc_get_phy_buf_addr(0))
#define L1_B ((__cbuf__ QUESTION_T *)asc_get_phy_buf_addr(131072))
#define L0_A ((__ca__ QUESTION_T *)asc_get_phy_buf_addr(0))
#define L0_B ((__cb__ QUESTION_T *)asc_get_phy_buf_addr(0))
#define L0_C ((__cc__ float *)asc_get_phy_buf_addr(0))

/* One operand of 32 rows or columns to L1; of 32 bits, one that is turned comes in bands. */
static inline __aicore__ void question_bring(__cbuf__ QUESTION_T *to, __gm__ float *from,
                                             int64_t turned, int64_t depth)
{
    __gm__ QUESTION_T *x = (__gm__ QUESTION_T *)from;
    const int64_t band = QUESTION_16BIT ? depth : 16;
    for (int64_t k = 0; turned && k < depth; k += band)
        ASC_NAME(asc_bring_rows)(to + k * 32, x + k * 32, band, 32, 32, band);
    if (!turned)
        ASC_NAME(asc_bring_rows)(to, x, 32, depth, depth, 32);
}

/* A to L1 and L0A, B to L1 and L0B. */
static inline __aicore__ void question_operands(__gm__ float *in, int64_t a_turned,
                                                int64_t b_turned, int64_t depth)
{
    asc_init();
    question_bring(L1_A, in, a_turned, depth);
    question_bring(L1_B, in + 16384, b_turned, depth);
    asc_sync();
    ASC_NAME(asc_load_a)(L0_A, L1_A, a_turned, 2, depth);
    ASC_NAME(asc_load_b)(L0_B, L1_B, b_turned, 2, depth);
    asc_sync();
}

static inline __aicore__ void question_multiply(int64_t depth, bool a_turned)
{
    asc_mmad(L0_C, L0_A, L0_B, 32, (uint16_t)depth, 32, 0, !QUESTION_16BIT && a_turned, false,
             true);
    asc_sync();
}

/* C, row by row. */
static inline __aicore__ void question_result(__gm__ float *out, uint8_t relu)
{
    asc_set_l0c_copy_params(1, 0, 0);
    asc_copy_l0c2gm(out, L0_C, 32, 32, 32, 32, 0, NoQuant, relu, false, true);
}
