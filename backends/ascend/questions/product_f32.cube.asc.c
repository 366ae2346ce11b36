/* The same of floats. */
#define QUESTION_T float
#define QUESTION_16BIT 0
#include "question_product.asc.h"

CUBE_QUESTION
{
    question_operands(in, n & 1, n >> 1 & 1, 32);
    question_multiply(32, n & 1);
    question_result(out, 0);
}
