/* Columns of blocks, 1024 apart: in which unit? */
#include "question_product.asc.h"

CUBE_QUESTION
{
    question_operands(in, 0, 0, 32);
    question_multiply(32, 0);
    asc_copy_l0c2gm(out, L0_C, 32, 32, 1024, 32, 0, NoQuant, 0, false, false);
}
