/* Results that lie between two halves. */
#include "question_product.asc.h"

CUBE_QUESTION
{
    question_operands(in, 0, 0, 32);
    question_multiply(32, 0);
    asc_set_l0c_copy_params(1, 0, 0);
    asc_copy_l0c2gm((__gm__ half *)out, L0_C, 32, 32, 32, 32, 0, F322F16, 0, false, true);
}
