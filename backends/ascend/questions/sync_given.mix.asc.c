/* Signals between cores through the address that aclrtGetHardwareSyncAddr() tells. */
#include "question_rounds.asc.h"

MIX_QUESTION
{
    asc_set_ffts_base_addr(sync);
    question_rounds(out, n);
}
