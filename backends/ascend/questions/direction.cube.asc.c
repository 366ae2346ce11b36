/* Rows leave by the unit flag; n: products are made along n, else along m. */
#include "question_product.asc.h"

CUBE_QUESTION
{
    question_operands(in, 0, 0, 32);
    if (n)
        asc_set_mmad_direction_n();
    asc_mmad(L0_C, L0_A, L0_B, 32, 32, 32, 3, false, false, true);
    asc_set_l0c_copy_params(1, 0, 0);
    asc_copy_l0c2gm(out, L0_C, 32, 32, 32, 32, 3, NoQuant, 0, false, true);
    asc_sync();
    asc_set_mmad_direction_m();
}
