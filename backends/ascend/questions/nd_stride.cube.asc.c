/* Two matrices of 16 rows, 1 apart in L0C: in which unit? */
#include "question_product.asc.h"

CUBE_QUESTION
{
    question_operands(in, 0, 0, 32);
    question_multiply(32, 0);
    asc_set_l0c_copy_params(2, 1, 512);
    asc_copy_l0c2gm(out, L0_C, 32, 16, 32, 32, 0, NoQuant, 0, false, true);
}
