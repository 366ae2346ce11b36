/* Floats multiplied as hf32. */
#define QUESTION_T float
#define QUESTION_16BIT 0
#include "question_product.asc.h"

CUBE_QUESTION
{
    question_operands(in, 0, 0, 32);
    asc_enable_hf32();
    question_multiply(32, 0);
    asc_set_fp32_mode();
    question_result(out, 0);
}
