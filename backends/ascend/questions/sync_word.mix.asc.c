/* The same through the word that lies at that address. */
#include "question_rounds.asc.h"

MIX_QUESTION
{
    asc_set_ffts_base_addr(*(__gm__ uint64_t *)sync);
    question_rounds(out, n);
}
