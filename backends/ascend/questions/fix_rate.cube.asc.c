/* n copies out of 128 x 128 floats. */
#include "question_fill.asc.h"

CUBE_QUESTION
{
    question_zeros(in);
    asc_mmad(L0_C, L0_A, L0_B, 128, 16, 128, 0, false, false, true);
    asc_set_l0c_copy_params(1, 0, 0);
    asc_sync();
    for (int64_t i = 0; i < n; i++)
        asc_copy_l0c2gm(out + i * 16384, L0_C, 128, 128, 128, 128, 0, NoQuant, 0, false, true);
}
