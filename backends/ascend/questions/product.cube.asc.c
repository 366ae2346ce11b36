/* C = A B of halves; n & 1: A is stored k x m, n & 2: B is stored k x n. */
#include "question_product.asc.h"

CUBE_QUESTION
{
    question_operands(in, n & 1, n >> 1 & 1, 32);
    question_multiply(32, n & 1);
    question_result(out, 0);
}
