/* What code n of relu_pre does, with a slope of 0.25. */
#include "question_product.asc.h"

CUBE_QUESTION
{
    question_operands(in, 0, 0, 32);
    question_multiply(32, 0);
    asc_set_l0c2gm_lrelu_alpha(0.25f);
    asc_sync();
    question_result(out, (uint8_t)n);
}
