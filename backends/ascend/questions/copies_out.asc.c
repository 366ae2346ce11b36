/* n copies out of 32 KiB. */
#include "question.asc.h"

QUESTION
{
    asc_init();
    asc_duplicate(UB_IN, 1.0f, 40960);
    asc_sync();
    for (int64_t i = 0; i < n; i++)
        asc_copy_ub2gm(out + i * 8192, UB_IN + i * 8192, 32768);
}
