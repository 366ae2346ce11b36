/* Does a store of S reach memory when the kernel ends, its cache not flushed? */
#include "question.asc.h"

QUESTION
{
    asc_init();
    out[0] = 7.0f;
}
