/* A comes to L0A as an image of n channels. */
#include "question_product.asc.h"

CUBE_QUESTION
{
    question_operands(in, 0, 0, n);
    question_multiply(n, 0);
    question_result(out, 0);
}
