/* A comes to L0A a column of fractals at a time. */
#define ASC_AVOID_WIDE_CHANNELS 1
#include "question_product.asc.h"

CUBE_QUESTION
{
    question_operands(in, 0, 0, 32);
    question_multiply(32, 0);
    question_result(out, 0);
}
