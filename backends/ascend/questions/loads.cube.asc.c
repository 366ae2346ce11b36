/* n loads of a fractal to L0A. */
#include "question_fill.asc.h"

CUBE_QUESTION
{
    question_zeros(in);
    for (int64_t i = 0; i < n; i++)
        asc_copy_l12l0a(L0_A + i * 256, L1_A, 0, 1, 1, 0);
}
